//! Blobs and their objects in a run: debts of earlier runs, the mark, the sweep, and the deletion of what was swept.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use uuid::Uuid;

use super::{Course, Cut, PAGE, RunError};
use crate::gateway::objects::store::StoreError;
use crate::journal;
use crate::kernel::rows::{Fence, Write};
use crate::retention::decide;
use crate::retention::journal::EventName;
use crate::retention::objects::{deletions, generations};
use crate::retention::store::Place;
use crate::retention::store::swept::Gone;
use crate::retention::table::State;

impl Course<'_> {
    /// Objects of blobs that earlier runs have deleted.
    pub(super) async fn settle_debts(&mut self) -> Result<(), Cut> {
        let mut behind = Uuid::nil();
        loop {
            let owed = self.of.store.owed(behind, PAGE).await?;
            let Some(last) = owed.last() else { return Ok(()) };
            behind = *last;
            self.delete(&owed).await?;
            self.turn().await?;
        }
    }

    /// Final objects of uploads that became no blob: the daemon may delete nothing in their bucket.
    pub(super) async fn left_overs(&mut self) -> Result<(), Cut> {
        let mut behind = String::new();
        loop {
            let mut page = self.of.store.left_over(&behind, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            behind.clone_from(&last.object);
            let (mut seen, mut failed) = (BTreeMap::new(), None);
            for (upload, said) in generations(&self.of.objects, page.clone()).await {
                match said {
                    Ok(generation) => drop(seen.insert(upload, generation)),
                    Err(error) => failed = self.left(upload, error),
                }
            }
            page.retain_mut(|object| {
                object.generation = seen.get(&object.blob).copied();
                object.generation.is_some()
            });
            let mut gone = BTreeSet::new();
            for (upload, said) in deletions(&self.of.objects, page.clone()).await {
                match said {
                    // Another object of that name is none of the upload's.
                    Ok(Gone::Deleted | Gone::Missing | Gone::Replaced) => drop(gone.insert(upload)),
                    Err(error) => failed = self.left(upload, error),
                }
            }
            page.retain(|object| gone.contains(&object.blob));
            self.of.store.left_over_gone(&page).await?;
            self.counts.left_over += page.len() as u64;
            unless_away(failed, page.is_empty())?;
            self.turn().await?;
        }
    }

    /// Says that the final object of an upload that came to nothing is still there.
    fn left(&mut self, upload: Uuid, error: StoreError) -> Option<StoreError> {
        self.counts.failed += 1;
        tracing::warn!(
            "the object that upload {upload} left behind is not deleted: {error}; it is tried again by the next run"
        );
        Some(error)
    }

    /// Marks anew, or lets live, what an earlier run marked and did not sweep.
    pub(super) async fn mark_left(&mut self) -> Result<(), Cut> {
        let mut behind = Uuid::nil();
        loop {
            let page = self.of.store.eligible(self.ours.id, false, behind, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            behind = *last;
            self.mark(&page).await?;
            self.turn().await?;
        }
    }

    /// Marks what has lost its last reference, and whose deadline has passed.
    pub(super) async fn mark_due(&mut self) -> Result<(), Cut> {
        let mut behind = Some(Place::start());
        while let Some(place) = behind {
            let page = self.of.store.tombstoned(&place, PAGE).await?;
            behind = page.next;
            self.mark(&page.ids).await?;
            self.turn().await?;
        }
        Ok(())
    }

    async fn mark(&mut self, ids: &[Uuid]) -> Result<(), Cut> {
        // What came another way than by an upload has no generation yet.
        let unread = self.of.store.unread(ids).await?;
        let (mut generation, mut unreadable, mut failed) = (BTreeMap::new(), BTreeSet::new(), None);
        for (blob, said) in generations(&self.of.objects, unread).await {
            match said {
                Ok(seen) => {
                    generation.insert(blob, seen);
                }
                // What cannot be looked at is not marked, and so not swept: it stops nobody else.
                Err(error) => {
                    tracing::warn!(
                        "the object of blob {blob} cannot be looked at: {error}; it stays, and the next run looks again"
                    );
                    unreadable.insert(blob);
                    failed = Some(error);
                }
            }
        }
        self.counts.unreadable += unreadable.len() as u64;
        unless_away(failed, generation.is_empty())?;
        let (store, run, actor) = (&self.of.store, self.ours.id, &self.of.actor);
        let (generation, unreadable) = (&generation, &unreadable);
        let marked = store
            .pool()
            .keyed_transaction("gc_mark", async |tx| {
                let mut writes = Vec::new();
                for (row, known) in store.known(&tx, ids).await? {
                    let Some(transition) = decide::mark(known, run)? else { continue };
                    if unreadable.contains(&row.id) && transition.to() == State::Eligible {
                        continue;
                    }
                    let mut columns = serde_json::json!({"marked_run": run});
                    // A recall that ended meanwhile has written that of another name.
                    if let (Some(seen), None) = (generation.get(&row.id), row.columns.generation) {
                        columns["generation"] = (*seen).into();
                    }
                    let columns = (transition.to() == State::Eligible).then_some(columns);
                    writes.push(Write { columns, ..Write::plain(row.id, Fence::Locked, transition) });
                }
                let revived = writes.iter().filter(|write| write.transition.to() == State::Live).count();
                Ok((store.write(&tx, actor, &writes).await?.len(), revived))
            })
            .await?;
        let (written, revived) = marked;
        self.counts.revived += revived as u64;
        self.counts.marked += written.saturating_sub(revived) as u64;
        Ok(())
    }

    pub(super) async fn sweep(&mut self) -> Result<(), Cut> {
        let mut behind = Uuid::nil();
        loop {
            let page = self.of.store.eligible(self.ours.id, true, behind, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            behind = *last;
            let (store, run, actor) = (&self.of.store, self.ours.id, &self.of.actor);
            let swept = store
                .pool()
                .keyed_transaction("gc_sweep", async |tx| {
                    let mut writes = Vec::new();
                    for (row, known) in store.known(&tx, &page).await? {
                        if let Some(transition) = decide::sweep(known, run)? {
                            writes.push(Write::plain(row.id, Fence::Locked, transition));
                        }
                    }
                    store.write(&tx, actor, &writes).await
                })
                .await?;
            self.counts.swept += swept.len() as u64;
            let swept: Vec<Uuid> = swept.into_iter().collect();
            self.delete(&swept).await?;
            self.turn().await?;
        }
    }

    /// Deletes objects, and records what the store said.
    async fn delete(&mut self, blobs: &[Uuid]) -> Result<(), Cut> {
        let objects = self.of.store.ask(blobs).await?;
        let mut restorable = BTreeMap::new();
        for object in &objects {
            restorable.insert(object.blob, self.soft_delete(&object.bucket).await);
        }
        let (mut gone, mut failed) = (Vec::with_capacity(objects.len()), None);
        for (blob, said) in deletions(&self.of.objects, objects).await {
            match said {
                Ok(how) => gone.push((blob, how, restorable.get(&blob).copied().unwrap_or_default())),
                Err(error) => {
                    self.counts.failed += 1;
                    tracing::warn!(
                        "the object of blob {blob} is not deleted: {error}; it is tried again by the next run"
                    );
                    failed = Some(error);
                }
            }
        }
        let recorded = self.of.store.record_gone(&gone, self.ours.id).await?;
        for (blob, how) in recorded {
            let run = self.ours.id;
            match how {
                Gone::Deleted => self.counts.deleted += 1,
                Gone::Missing => {
                    self.counts.missing += 1;
                    journal!(error, EventName::ObjectMissing, blob = %blob, run,
                        "the object of blob {blob} was gone before run {run} deleted it: somebody else removes objects (rb-013)");
                }
                Gone::Replaced => {
                    self.counts.replaced += 1;
                    journal!(error, EventName::ObjectReplaced, blob = %blob, run,
                        "another object has the name of blob {blob}: run {run} leaves it alone (rb-013)");
                }
            }
        }
        unless_away(failed, gone.is_empty())
    }

    /// How long a bucket keeps what is deleted; asked once. A receipt without it says less, and is written all the same.
    async fn soft_delete(&mut self, bucket: &str) -> Duration {
        if let Some(known) = self.soft_delete.get(bucket) {
            return *known;
        }
        let facts = self.of.objects.bucket(bucket).await;
        let found = facts.map(|facts| facts.soft_delete).unwrap_or_default();
        self.soft_delete.insert(bucket.to_owned(), found);
        found
    }
}

/// Ends the run where the store did `nothing` of a page and will do nothing of the next. One object that it refuses stops nobody.
pub(super) fn unless_away(failed: Option<StoreError>, nothing: bool) -> Result<(), Cut> {
    match failed {
        Some(error) if nothing && (error.is_about_us() || matches!(error, StoreError::Away { .. })) => {
            Err(RunError::Store(error).into())
        }
        _ => Ok(()),
    }
}
