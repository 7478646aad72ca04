//! Rows in a run: recalls that are under way, versions and references that have ended, submissions whose time has come.

use std::sync::Arc;

use uuid::Uuid;

use super::blobs::unless_away;
use super::{Course, Cut, PAGE};
use crate::db::batch::divided;
use crate::journal;
use crate::retention::journal::EventName;
use crate::retention::recall::{RecallError, Recaller};
use crate::retention::store::Place;
use crate::retention::store::submissions::Authority;
use crate::scrub::scrub;

/// Submissions of a page: emptied in one transaction, beside which the routing's wait for the same disk.
const SUBMISSIONS: usize = 100;
/// Versions, or references, that end in one transaction.
const FEW: i32 = 100;
/// Recalls in a row that a store may leave undone before it counts as away: each may take as long as a call's longest time.
const PATIENCE: usize = 3;

impl Course<'_> {
    pub(super) async fn recalls(&mut self) -> Result<(), Cut> {
        let recaller = Recaller { store: self.of.store.clone(), objects: Arc::clone(&self.of.objects) };
        let mut in_a_row = 0;
        for recall in self.of.store.open_recalls(PAGE).await? {
            let id = recall.id;
            let mut failed = None;
            match recaller.carry_out(recall).await {
                Ok(_) => {
                    self.counts.recalled += 1;
                    in_a_row = 0;
                }
                Err(error) => {
                    let next =
                        if error.is_tried_again() { "it is tried again by the next run" } else { "rb-013" };
                    tracing::warn!("recall {id} is not done: {}; {next}", scrub(&error.to_string()));
                    if let RecallError::Store(error) = error {
                        in_a_row += 1;
                        failed = Some(error);
                    }
                }
            }
            // Refusals count as well: the first fault of a store that is away may come after more of them.
            unless_away(failed, in_a_row >= PATIENCE)?;
            self.turn().await?;
        }
        Ok(())
    }

    pub(super) async fn forget(&mut self) -> Result<(), Cut> {
        loop {
            let n = self.of.store.forget_versions(FEW, &self.of.actor).await?;
            self.counts.forgotten += n;
            if n == 0 {
                return Ok(());
            }
            self.turn().await?;
        }
    }

    pub(super) async fn release(&mut self) -> Result<(), Cut> {
        loop {
            let n = self.of.store.release_kept(FEW).await?;
            self.counts.released += n;
            if n == 0 {
                return Ok(());
            }
            self.turn().await?;
        }
    }

    /// Empties submissions whose time has come: by an end of their `own`, or by their form's.
    pub(super) async fn purge(&mut self, own: bool) -> Result<(), Cut> {
        let mut behind = Some(Place::start());
        while let Some(place) = behind {
            let began = self.of.clock.monotonic();
            let page = self.of.store.due(own, &place, SUBMISSIONS).await?;
            behind = page.next;
            let (store, actor, run) = (&self.of.store, &self.of.actor, self.ours.id);
            let purge = |part: Vec<Uuid>| async move {
                store.purge(&part, Authority::Retention, actor, Some(run)).await
            };
            let batch = divided(&page.ids, purge).await;
            for purged in batch.done.into_iter().flatten() {
                match purged.why {
                    None => self.counts.purged += 1,
                    // Its form keeps it longer than another does.
                    Some(why) if why == "not_yet" || why == "no_end" => {}
                    Some(why) => *self.counts.kept.entry(why).or_default() += 1,
                }
            }
            for refused in batch.refused {
                self.counts.refused += 1;
                let (id, named) = (refused.id, refused.error.named());
                journal!(
                    warn,
                    EventName::PurgeRefused,
                    submission_id = %id,
                    run,
                    "submission {id} cannot be emptied, the database refuses it: {named}. The others are; it stays, and is tried by the next run"
                );
            }
            if let Some(error) = batch.fault {
                return Err(error.into());
            }
            self.turn().await?;
            if behind.is_some() {
                self.rest(self.of.clock.monotonic().saturating_duration_since(began)).await;
            }
        }
        Ok(())
    }
}
