//! The settler: writes how jobs ended, and extends the leases of the others.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Answer, BATCH, ConsumerParts, Ending, Leases, REST, is_gone};
use crate::db::DbError;
use crate::db::batch::{Batch, divided};
use crate::kernel::rows::{Row, Stored, Write};
use crate::scrub::scrub;

/// The task that settles.
pub(super) struct Settler<L: Stored> {
    pub(super) parts: ConsumerParts<L>,
    pub(super) answered: mpsc::UnboundedReceiver<Answer<L>>,
    pub(super) leases: Leases<L::Id>,
    pub(super) halt: CancellationToken,
}

impl<L: Stored> Settler<L> {
    /// Runs until every sender of answers is gone.
    pub(super) async fn run(mut self) {
        let clock = Arc::clone(&self.parts.clock);
        let every = self.parts.settings.lease / 3;
        let mut extend_at = clock.monotonic() + every;
        loop {
            let mut answers = Vec::new();
            tokio::select! {
                biased;
                () = clock.sleep(extend_at.saturating_duration_since(clock.monotonic())) => {
                    extend_at = clock.monotonic() + every;
                    self.extend().await;
                }
                answered = self.answered.recv_many(&mut answers, BATCH) => {
                    if answered == 0 {
                        return;
                    }
                    self.settle(answers).await;
                }
            }
        }
    }

    /// Repeats until all rows are written; rows that the database refuses come again after their lease. Settling twice is
    /// harmless, and a lease that ran out meanwhile meets the fence.
    async fn settle(&self, answers: Vec<Answer<L>>) {
        let ConsumerParts { settings, clock, rng, .. } = &self.parts;
        let halted = self.halt.is_cancelled();
        let settled = |answer: Answer<L>| {
            // The next daemon need not wait out this row's pause.
            let at_once = halted && answer.ending == Ending::Again;
            let ending = if at_once { Ending::AtOnce } else { answer.ending };
            let write = rng.with(|rng| settings.retries.settle(&answer.row, ending, rng));
            match write {
                Ok(write) => Some(Settling { write, row: answer.row, _room: answer._room }),
                Err(error) => {
                    // The table has no such edge: the lease runs out.
                    tracing::error!(row = %answer.row.id, "{}: {error}", L::NAME);
                    self.leases.lock().remove(&answer.row.id);
                    None
                }
            }
        };
        let all: Vec<Settling<L>> = answers.into_iter().filter_map(settled).collect();
        let (mut left, mut notified) = ((0..all.len()).collect::<Vec<_>>(), false);
        while let Some(error) = self.write(&all, &mut left).await {
            if is_gone(&error) {
                break;
            }
            if !std::mem::replace(&mut notified, true) {
                tracing::warn!(
                    rows = left.len(),
                    "{}: what was done could not be settled, it is tried again; after their lease rows come again: {}",
                    L::NAME,
                    scrub(&error.to_string())
                );
            }
            clock.sleep(REST).await;
        }
        let mut leases = self.leases.lock();
        for Settling { row, .. } in &all {
            if leases.get(&row.id) == row.token.as_ref() {
                leases.remove(&row.id);
            }
        }
    }

    /// Writes the rows of `left`, and leaves there those not known to be written. Returns the fault that stopped it.
    async fn write(&self, all: &[Settling<L>], left: &mut Vec<usize>) -> Option<DbError> {
        let ConsumerParts { rows, observer, .. } = &self.parts;
        let batch = divided(left, |part: Vec<usize>| async move {
            let some: Vec<Write<L>> =
                part.iter().filter_map(|at| all.get(*at)).map(|one| one.write.clone()).collect();
            rows.settle(&some).await.map(|settled| (part, settled))
        });
        let Batch { done, refused, fault } = batch.await;
        let mut took: Vec<&Row<L>> = Vec::new();
        for (part, settled) in &done {
            for Settling { row, write, .. } in part.iter().filter_map(|at| all.get(*at)) {
                observer.settled(row, write, settled.contains(&row.id));
                took.push(row);
            }
        }
        let unwritten: Vec<(&Row<L>, &DbError)> =
            refused.iter().filter_map(|refused| Some((&all.get(refused.id)?.row, &refused.error))).collect();
        observer.written(&took, &unwritten);
        left.retain(|at| {
            !done.iter().any(|(part, _)| part.contains(at)) && !refused.iter().any(|row| row.id == *at)
        });
        fault
    }

    async fn extend(&self) {
        let leased: Vec<(L::Id, Uuid)> = self.leases.lock().iter().map(|(id, token)| (*id, *token)).collect();
        if leased.is_empty() {
            return;
        }
        match self.parts.rows.extend(&leased, self.parts.settings.lease).await {
            Ok(ours) => {
                let lost = leased.iter().filter(|(id, _)| !ours.contains(id)).count();
                if lost > 0 {
                    tracing::warn!(rows = lost, "{}: leases were lost, these rows come again", L::NAME);
                }
                self.leases.lock().retain(|id, token| ours.contains(id) || !leased.contains(&(*id, *token)));
            }
            Err(error) => tracing::warn!(
                rows = leased.len(),
                "{}: leases could not be made longer: {}",
                L::NAME,
                scrub(&error.to_string())
            ),
        }
    }
}

/// A row and its write; its permit is free again when this is dropped.
struct Settling<L: Stored> {
    row: Row<L>,
    write: Write<L>,
    _room: tokio::sync::OwnedSemaphorePermit,
}
