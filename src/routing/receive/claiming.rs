//! Claims, a batch at a time (protocol §2): the choice of submissions, and the consequence of each answer.
//!
//! One batch is under way at once, in a task; its requests stay in `claiming` until their answers are here. If we die, the
//! sweep takes back the claimed rows.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::super::claims::TakenRow;
use super::super::decide::NackReason;
use super::super::journal;
use super::super::store::{Ahead, ClaimRequest, Claimed};
use super::super::worker::ClaimContext;
use super::{ASIDE, Done, ROUND, Receiver};
use crate::db::DbError;
use crate::db::batch::{Batch, Refused};
use crate::ops::gate::GateState;
use crate::ops::set_aside::{Refusal, Writing};
use crate::routing::claims::in_doubt_permits::InDoubtPermit;
use crate::routing::claims::slots;
use crate::routing::claims::slots::Slot;
use crate::routing::decide::settlement::Settlement;
use crate::routing::metrics::{self, SubmissionOutcome};
use crate::routing::submission::ledger::FailReason;
use crate::scrub::scrub;

/// Wait before a claim is tried again after a database fault.
const CLAIM_RETRY: Duration = Duration::from_secs(2);
/// Wait of a trial for a submission that was not denied yet: the source is built anew when the gate opens, and a distant one
/// needs a token, a TLS session and a stream before the first event comes.
const OTHERS: Duration = Duration::from_secs(3);
/// Wait before a row that another session had locked is looked at again.
const BUSY_RETRY: Duration = Duration::from_secs(1);

impl Receiver {
    /// Claims (protocol §2) one batch at a time, never more than there are free slots: a single submission goes at once, and
    /// under load the next batch gathers while this one commits, and while those in work keep the relay busy.
    pub(super) fn claim_what_fits(&mut self) {
        let (waiting, working) = (self.pending.claimable(), self.working.len());
        let slots = self.slots.under(self.state, self.bounds.get().max_in_flight);
        // A mail without a permit now would have its intent recorded later, by a write of its own.
        let slots = self.worker.free_ahead().map_or(slots, |free| slots.min(working + free));
        let busy = self.worker.mails.in_doubt_permits.busy();
        let stalled = self.worker.clock.monotonic() >= self.last_end + ROUND;
        let worth = slots::worth_claiming(waiting, slots, working, busy, self.batch, stalled);
        if self.claiming.is_some()
            || worth == 0
            || (self.state == GateState::HalfOpen && !self.choose_trial())
        {
            return;
        }
        let requests = self.pending.take_for_claim(worth);
        let requests = self.claimable(requests);
        if requests.is_empty() {
            return;
        }
        self.claiming = Some(requests.clone());
        let worker = Arc::clone(&self.worker);
        let permits = if self.state == GateState::Open { worker.ahead(requests.len()) } else { Vec::new() };
        let ids = requests.iter().map(|request| request.id).take(permits.len()).collect();
        let ahead = Ahead { ids, log_position: worker.mails.doubts.log_position() };
        self.tasks.spawn(async move {
            let before = worker.clock.monotonic();
            let batch = worker.store.claim_each(&requests, &ahead).await;
            let after = worker.clock.monotonic();
            if let Some(error) = &batch.fault {
                worker.outages.database(error);
                if batch.done.is_empty() {
                    drop(permits);
                    worker.clock.sleep(CLAIM_RETRY).await;
                    return Done::Claim { before, after, batch, permits: Vec::new() };
                }
            }
            Done::Claim { before, after, batch, permits }
        });
    }

    /// Filters requests that may be claimed now. Facts of some submissions lie in the spool, unknown to the row: a claim
    /// would send their mails again. Rows that have refused their claims rest.
    fn claimable(&mut self, requests: Vec<ClaimRequest>) -> Vec<ClaimRequest> {
        let mut claimable = Vec::with_capacity(requests.len());
        for request in requests {
            if self.worker.spool.holds(request.id) {
                self.nack(request.id, NackReason::FactsInSpool);
            } else if self.is_set_aside(request.id) {
                self.rest(request.id);
            } else {
                claimable.push(request);
            }
        }
        claimable
    }

    fn is_set_aside(&self, id: Uuid) -> bool {
        self.worker.outages.set_aside.is_resting(Writing::Claim, id)
    }

    /// Keeps a row that refuses its claim until its next try; at most [`ASIDE`] rows, as others need the room.
    fn rest(&mut self, id: Uuid) {
        match self.worker.outages.set_aside.rests_for(Writing::Claim, id) {
            Some(pause) if self.pending.deferred() < ASIDE => {
                self.pending.defer(id, self.worker.clock.monotonic() + pause);
            }
            Some(_) | None => self.nack(id, NackReason::SetAside),
        }
    }

    fn nack(&mut self, id: Uuid, why: NackReason) {
        journal::nacked(id, why);
        self.pending.settle(id, Settlement::of_unclaimed(why));
    }

    /// Gives back claims without an answer while the gate is shut: such a claim is not repeated, and nothing would touch the
    /// row it may have taken. The release comes before the sweep takes the attempt for spent.
    pub(super) fn let_go(&mut self) {
        let postgres = &self.worker.outages.postgres;
        if self.state != GateState::Shut || self.claiming.is_some() || postgres.is_open() {
            return;
        }
        let unanswered = self.pending.take_unanswered();
        if unanswered.is_empty() {
            return;
        }
        self.claiming = Some(unanswered.clone());
        let worker = Arc::clone(&self.worker);
        self.tasks.spawn(async move {
            let let_go = worker.let_go(&unanswered).await;
            if let Err(error) = &let_go {
                worker.outages.database(error);
                worker.clock.sleep(CLAIM_RETRY).await;
            }
            Done::LetGo(let_go)
        });
    }

    /// Puts the submission on trial first, and returns whether there is one. Others that it lets in have [`OTHERS`] to come.
    fn choose_trial(&mut self) -> bool {
        let breaker = &self.worker.outages.relay;
        let others_came = self.worker.clock.monotonic() >= self.state_since + OTHERS;
        self.pending.choose_trial(|id| breaker.was_denied(id), others_came)
    }

    /// Takes in a batch's answers; requests without one stay in `claiming`. Returns the fault that ended it early.
    pub(super) fn answered(
        &mut self,
        batch: Batch<usize, HashMap<Uuid, Claimed>>,
        when: (Instant, Instant),
        mut permits: Vec<InDoubtPermit>,
    ) -> Option<DbError> {
        let Batch { done, refused, fault } = batch;
        let mut asked = self.claiming.take().unwrap_or_default();
        let of = |refused: Refused<usize>| {
            asked.get(refused.id).map(|request| (request.id, refused.error.named()))
        };
        let refused: Vec<Refusal> = refused.into_iter().filter_map(of).collect();
        let mut answers: HashMap<Uuid, Claimed> = done.into_iter().flatten().collect();
        let written = |(id, answer): (&Uuid, &Claimed)| {
            matches!(answer, Claimed::Taken(_) | Claimed::Failed { .. }).then_some(*id)
        };
        self.worker.outages.set_aside.note(
            Writing::Claim,
            answers.iter().filter_map(written).collect::<Vec<_>>(),
            &refused,
        );
        for (id, _) in &refused {
            self.rest(*id);
        }
        asked.retain(|request| match answers.remove(&request.id) {
            Some(answer) => {
                self.claimed(request.id, when, answer, &mut permits);
                false
            }
            None => !refused.iter().any(|(id, _)| *id == request.id),
        });
        self.claiming = fault.is_some().then_some(asked);
        fault
    }

    pub(super) fn not_claimed(&mut self, error: &DbError) {
        tracing::warn!("nothing could be claimed, it is tried again: {}", scrub(&error.to_string()));
        self.claim_again();
    }

    /// Halves the next batches, so that one row that cannot be claimed stops no other.
    pub(super) fn claim_again(&mut self) {
        self.batch = (self.batch / 2).max(1);
        self.pending.claim_again(self.claiming.take().unwrap_or_default());
    }

    fn claimed(
        &mut self,
        id: Uuid,
        (before, after): (Instant, Instant),
        answer: Claimed,
        permits: &mut Vec<InDoubtPermit>,
    ) {
        match answer {
            Claimed::Taken(row) => {
                self.pending.waits(id, row.waiting);
                let claim = self.live.enter(id, &row, before);
                journal::claimed(&claim, row.ledger.deliveries.len());
                let worker = Arc::clone(&self.worker);
                let TakenRow { ledger, content, intents, .. } = *row;
                let intents = Some(intents).filter(|keys| !keys.is_empty()).zip(permits.pop());
                let context =
                    ClaimContext { content, intents, slot: Some(Slot::of(self.given_back.0.clone())) };
                // On the heap, since a task's future is moved when it is spawned, polled first and ended, and this one is large.
                let work = Box::pin(async move { worker.route(claim, ledger, context).await });
                let task = self.tasks.spawn(async move { Done::Work(work.await) });
                self.working.insert(task.id(), id);
            }
            Claimed::Dropped(why) => {
                journal::dropped(id, why);
                self.pending.ack_seen(id);
            }
            Claimed::Busy => self.pending.defer(id, after + BUSY_RETRY),
            Claimed::NotDue { due, now } => {
                let pause = Duration::try_from(due.duration_since(now)).unwrap_or_default();
                journal::deferred(id, pause);
                self.pending.defer(id, after + pause);
            }
            Claimed::Nacked(why) => {
                journal::nacked(id, why);
                self.pending.settle(id, Settlement::of_unclaimed(why));
            }
            Claimed::Failed { form_id, reason, waiting, at } => {
                journal::refused(id, &form_id, reason);
                metrics::submission(SubmissionOutcome::Failed);
                self.pending.waits(id, waiting);
                // What is infected or screened out was never ready.
                if !matches!(reason, FailReason::Infected | FailReason::ScreenedOut) {
                    self.measure(id, at);
                }
                self.pending.settle(id, Settlement::of_failure(reason));
            }
        }
    }
}
