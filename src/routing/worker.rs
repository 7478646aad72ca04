//! The worker: one claimed submission, from its first action to the settled outcome. Start reading at [`route`]; the
//! steps are numbered as the protocol page numbers them.
//!
//! If we die in the middle, the row stays `processing` and the sweep takes it back; what was begun is then in doubt.
//! What never happens here: a send without a begin mark, a transition without the token, a verdict from memory.

use std::collections::BTreeSet;
use std::time::Duration;

use uuid::Uuid;

use super::claims::{Claim, LiveClaims};
use super::decide;
use super::journal;
use super::ledger::{FailReason, Ledger};
use super::outcome::Entries;
use super::persist::{GaveUp, Persist};
use super::prepare::{Prepared, Preparer, Ready};
use super::store::{Begun, Conclusion, RecordScope, Recorded, Store};
use crate::gateway::smtp::{Envelope, Lanes};
use crate::ops::chance::Chance;
use crate::ops::metrics;
use crate::ports::{Clock, Outcome};

/// What the worker works with; one for the whole daemon.
#[derive(Debug)]
pub struct Worker {
    /// The submission's rows.
    pub store: Store,
    /// Connections to the relay.
    pub lanes: Lanes,
    /// Makes mails.
    pub preparer: Preparer,
    /// Claims that are alive in this process.
    pub live: LiveClaims,
    /// Repeats what must be recorded.
    pub persist: Persist,
    /// Measures.
    pub clock: std::sync::Arc<dyn Clock>,
    /// Chance.
    pub chance: std::sync::Arc<Chance>,
    /// Pause before another attempt.
    pub pauses: Pauses,
}

/// How long a released submission rests.
#[derive(Debug, Clone, Copy)]
pub struct Pauses {
    /// The source paces redelivery itself (Pub/Sub's retry policy): the row only has to be due before the event is.
    pub paced_by_source: bool,
    /// Shortest back-off.
    pub min: Duration,
    /// Longest back-off.
    pub max: Duration,
}

impl Pauses {
    fn after(self, attempts: u32, chance: &Chance) -> Duration {
        if self.paced_by_source {
            return Duration::from_secs(1).min(self.min);
        }
        chance.with(|rng| decide::backoff(attempts, self.min, self.max, rng))
    }
}

/// What the event's source is told (protocol §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settlement {
    /// Done, or not ours.
    Ack,
    /// Come again.
    Nack,
}

/// How a claim went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routed {
    /// What to tell the source.
    pub settlement: Settlement,
    /// How it ended; `None` where the claim was lost or had to be abandoned.
    pub conclusion: Option<Conclusion>,
}

/// What one action came to.
enum Step {
    /// Outcomes to record.
    Outcomes(Entries),
    /// The claim ends here.
    Ended(Routed),
}

impl Worker {
    /// Routes one claimed submission. Consumes the claim: whatever happens, it is over afterwards.
    pub async fn route(&self, claim: Claim, mut ledger: Ledger) -> Routed {
        let mut tried = BTreeSet::new();
        loop {
            let next = decide::next_action(&ledger, &tried);
            let entries = match next {
                Some(order) => {
                    tried.insert(order);
                    match self.carry_out(&claim, &ledger, order, &tried).await {
                        Step::Outcomes(entries) => entries,
                        Step::Ended(routed) => return routed,
                    }
                }
                None => Entries::default(),
            };
            // 5. Record, and 6. Finish in the same transaction when nothing is left to try.
            match self.record(&claim, &tried, &entries).await {
                Ok(Recorded::Continue(then)) => ledger = *then,
                Ok(Recorded::Concluded(conclusion)) => return self.settle(&claim, conclusion),
                Ok(Recorded::Stale) => return self.stale(&claim),
                Err(gave_up) => return self.abandon(&claim, &gave_up),
            }
        }
    }

    /// One action: 3. Begin and 4. Send, or why not.
    async fn carry_out(&self, claim: &Claim, ledger: &Ledger, order: i32, tried: &BTreeSet<i32>) -> Step {
        let started = self.clock.monotonic();
        let ready = match self.preparer.prepare(claim, ledger, order).await {
            Prepared::Ready(ready) => ready,
            Prepared::Decided(entries) => return Step::Outcomes(entries),
            Prepared::Unreadable(error) => {
                journal::database_fault(claim, "the submission could not be read", &error);
                return Step::Ended(self.give_back(claim, tried).await);
            }
        };
        let mut lane = tokio::select! {
            lane = self.lanes.acquire() => lane,
            () = claim.given_up() => return Step::Ended(self.give_back(claim, tried).await),
        };
        let touched = self.clock.monotonic();
        match self.store.begin(claim.id, &claim.token, &ready.keys()).await {
            Ok(Begun::Marked) => claim.touched(touched),
            Ok(Begun::Infected) => return Step::Ended(self.fail(claim, tried, FailReason::Infected).await),
            Ok(Begun::NotClean) => return Step::Ended(self.give_back(claim, tried).await),
            Ok(Begun::Stale) => return Step::Ended(self.stale(claim)),
            Err(error) => {
                journal::database_fault(claim, "the begin mark could not be written", &error);
                return Step::Ended(self.give_back(claim, tried).await);
            }
        }
        journal::begun(claim, &ready);
        let outcomes = lane
            .send(
                &Envelope { from: ready.sender(), recipients: &ready.recipients(), message: &ready.message },
                &|| claim.may_send(self.clock.monotonic()),
            )
            .await;
        drop(lane);
        let took = self.clock.monotonic().saturating_duration_since(started);
        metrics::action_duration(ready.action_type, took);
        Step::Outcomes(self.outcomes(claim, ready, &outcomes, took))
    }

    /// The entries of a send, counted and journalled.
    fn outcomes(&self, claim: &Claim, ready: Box<Ready>, outcomes: &[Outcome], took: Duration) -> Entries {
        let Ready { mut entries, deliveries, .. } = *ready.clone_shell();
        for (place, (delivery, outcome)) in deliveries.iter().zip(outcomes).enumerate() {
            entries.add(&ready.context(claim), &delivery.key, outcome);
            metrics::action_attempt(ready.action_type, outcome);
            journal::outcome(claim, &ready, place, outcome, took);
        }
        entries
    }

    async fn record(
        &self,
        claim: &Claim,
        tried: &BTreeSet<i32>,
        entries: &Entries,
    ) -> Result<Recorded, GaveUp> {
        let scope = self.scope(claim, tried);
        let touched = self.clock.monotonic();
        let recorded =
            self.persist.until_recorded(claim, entries, async || self.store.record(scope, entries).await).await;
        if let Ok(Recorded::Continue(_)) = &recorded {
            claim.touched(touched);
        }
        recorded
    }

    fn scope<'a>(&self, claim: &'a Claim, tried: &'a BTreeSet<i32>) -> RecordScope<'a> {
        let pause = self.pauses.after(claim.attempt, &self.chance);
        RecordScope { id: claim.id, token: &claim.token, tried, pause }
    }
}
