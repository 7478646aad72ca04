//! Receive and claim (protocol §1, §2, §7): events in, claims out in batches, settlements back. Start at
//! [`Receiver::run`]; the worker routes the submissions claimed here.
//!
//! One task owns everything in this file, so there are no locks. If we die, unsettled events come again. Never here: an ack
//! before the commit, a claim without a slot, a spawn without a bound, a claim while the gate is shut.

mod claiming;
mod pending;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::pending::Pending;
use super::claims::LiveClaims;
use super::claims::in_doubt_permits::InDoubtPermit;
use super::claims::slots::Slots;
use super::decide::settlement::Settlement;
use super::event::{self, Parsed, Reason};
use super::journal;
use super::store::{ClaimRequest, Claimed, Conclusion};
use super::submission::ledger::FailReason;
use super::worker::{Routed, Worker};
use crate::db::DbError;
use crate::db::batch::Batch;
use crate::ops::gate::GateState;
use crate::ops::live::Live;
use crate::ops::metrics::{CANARIES, CanaryResult};
use crate::ports::{Clock, EventSource, Incoming, SourceError};
use crate::routing::metrics;
use crate::scrub::scrub;

/// Claims written in one transaction.
const BATCH: usize = 64;
/// Longest duration of a round, also where nothing happens.
const ROUND: Duration = Duration::from_millis(500);
/// Submissions that may be in work without a slot. With more of them the rows would not be at fault, and every further mail
/// would only be one more that cannot be recorded.
const ASIDE: usize = 256;

/// Bounds of the work taken on.
#[derive(Debug, Clone, Copy)]
pub struct ReceiveBounds {
    /// Submissions in work at once.
    pub max_in_flight: usize,
    /// Events kept unsettled at once; at this bound the source is not asked for more.
    pub max_waiting: usize,
}

/// Takes events and keeps the worker busy.
pub struct Receiver {
    worker: Arc<Worker>,
    live: LiveClaims,
    bounds: Live<ReceiveBounds>,
    /// Submissions from the sweep, to be claimed although no event names them.
    found: mpsc::Receiver<Uuid>,
    pending: Pending,
    tasks: JoinSet<Done>,
    /// Submissions claimed at once; fewer after a fault, so that a row at fault is isolated.
    batch: usize,
    /// Messages received so far, of whatever kind: each proves that the stream is alive.
    arrivals: watch::Sender<u64>,
    /// Rounds made so far: each proves that this loop is not stuck.
    rounds: Arc<AtomicU64>,
    /// Canary events received so far: each went the whole way.
    canaries: watch::Sender<u64>,
    /// State of the gate in the last round.
    state: GateState,
    /// Time of the last change of `state`.
    state_since: Instant,
    /// Submissions that may be in work at once.
    slots: Slots,
    /// Time when the last piece of work ended.
    last_end: Instant,
    /// The batch being claimed, or given back because its claim had no answer; one at a time.
    claiming: Option<Vec<ClaimRequest>>,
    /// Submissions being routed, by task, so that a task that ends abnormally is known by its submission.
    working: HashMap<Id, Uuid>,
    /// Submissions in work without a slot: their record is refused again and again.
    aside: HashMap<Id, Uuid>,
    /// Channel of tasks that give their slots back: the workers' end, and the receiver's.
    given_back: (mpsc::Sender<Id>, mpsc::Receiver<Id>),
}

/// Result of a task.
enum Done {
    Claim {
        before: Instant,
        after: Instant,
        /// Answers so far; a batch that ended early leaves its other requests claimed or not, which is unknown.
        batch: Batch<usize, HashMap<Uuid, Claimed>>,
        /// In-doubt permits of mails whose intent was recorded with their claims.
        permits: Vec<InDoubtPermit>,
    },
    /// Claims without an answer were given back.
    LetGo(Result<(), DbError>),
    Work(Routed),
}

impl Receiver {
    /// Returns a receiver that hands claims to `worker`: of submissions named by events, and of those sent through `found`.
    #[must_use]
    pub fn new(
        worker: Arc<Worker>,
        live: LiveClaims,
        bounds: impl Into<Live<ReceiveBounds>>,
        found: mpsc::Receiver<Uuid>,
    ) -> Self {
        let bounds = bounds.into();
        let (pending, now) = (Pending::new(Arc::clone(&worker.rng)), worker.clock.monotonic());
        Self {
            worker,
            live,
            slots: Slots::default(),
            bounds,
            found,
            pending,
            tasks: JoinSet::new(),
            batch: BATCH,
            arrivals: watch::Sender::new(0),
            rounds: Arc::default(),
            canaries: watch::Sender::new(0),
            state: GateState::Open,
            state_since: now,
            last_end: now,
            claiming: None,
            working: HashMap::new(),
            aside: HashMap::new(),
            given_back: mpsc::channel(ASIDE),
        }
    }

    /// Counts all messages received: the liveness of the stream.
    #[must_use]
    pub fn arrivals(&self) -> watch::Receiver<u64> {
        self.arrivals.subscribe()
    }

    /// Counts the rounds of [`Self::run`]: a count that stands still shows a stuck loop.
    #[must_use]
    pub fn rounds(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.rounds)
    }

    /// Counts the canary events that came back.
    #[must_use]
    pub fn canaries(&self) -> watch::Receiver<u64> {
        self.canaries.subscribe()
    }

    /// Receives until `stop`, then gives unclaimed submissions back and waits for the claimed ones.
    ///
    /// # Errors
    /// [`SourceError`] of a source that does not mend itself; everything claimed was finished first.
    pub async fn run(
        &mut self,
        source: &mut dyn EventSource,
        stop: &CancellationToken,
    ) -> Result<(), SourceError> {
        let clock = Arc::clone(&self.worker.clock);
        let gate = self.worker.outages.gate.clone();
        let ended = loop {
            self.follow(gate.state(), source).await;
            self.claim_what_fits();
            self.let_go();
            self.rounds.fetch_add(1, Ordering::Relaxed);
            metrics::waiting(self.pending.submissions().saturating_sub(self.working.len()));
            let due = self.pending.next_due();
            let room = self.pending.events() < self.bounds.get().max_waiting && self.state != GateState::Shut;
            tokio::select! {
                biased;
                () = stop.cancelled() => break Ok(()),
                () = gate.changed_from(self.state) => {}
                Some(done) = self.tasks.join_next_with_id() => self.done_with_those_behind(done),
                Some(task) = self.given_back.1.recv() => self.set_aside(task),
                () = until(&*clock, due) => self.pending.wake_due(clock.monotonic()),
                Some(id) = self.found.recv(), if self.pending.submissions() < self.bounds.get().max_waiting => self.pending.find(id),
                incoming = source.next(), if room => if let Err(error) = self.take_with_those_behind(incoming, source) {
                    break Err(error);
                },
                () = clock.sleep(ROUND) => {}
            }
        };
        // The source goes quiet first, so that events given back next go to other processes and not straight back here.
        source.quiet().await;
        let mut unanswered = self.pending.take_unanswered();
        self.pending.give_back();
        while let Some(done) = self.tasks.join_next_with_id().await {
            self.done_with_those_behind(done);
        }
        unanswered.extend(self.pending.take_unanswered());
        if let Err(error) = self.worker.let_go(&unanswered).await {
            tracing::warn!(
                "claims that had no answer may stand until the sweep takes them back: {}",
                scrub(&error.to_string())
            );
        }
        unanswered.iter().for_each(|request| self.pending.settle(request.id, Settlement::Nack));
        // Submissions that came back meanwhile as `Settlement::Keep`.
        self.pending.give_back();
        ended
    }

    /// Follows the gate: a shut gate pauses the source, so that no deliveries are counted there, and pending submissions
    /// stay pending. Afterwards work is taken up slowly.
    async fn follow(&mut self, state: GateState, source: &mut dyn EventSource) {
        let before = std::mem::replace(&mut self.state, state);
        if before != state {
            self.state_since = self.worker.clock.monotonic();
        }
        match (before, state) {
            (GateState::Shut, GateState::Shut) => {}
            (_, GateState::Shut) => {
                source.pause().await;
                self.slots.shut();
            }
            (GateState::Shut, _) => source.resume(),
            (GateState::HalfOpen | GateState::Open, GateState::HalfOpen | GateState::Open) => {}
        }
    }

    /// Takes in a message, and those behind it that are here already: a round for each costs more than the message.
    fn take_with_those_behind(
        &mut self,
        first: Result<Incoming, SourceError>,
        source: &mut dyn EventSource,
    ) -> Result<(), SourceError> {
        let mut next = Some(first);
        while let Some(incoming) = next {
            self.take(incoming?);
            let room = self.pending.events() < self.bounds.get().max_waiting;
            next = if room { source.next().now_or_never() } else { None };
        }
        Ok(())
    }

    /// Takes one message in (protocol §1).
    fn take(&mut self, incoming: Incoming) {
        let Incoming { message_id, published_at, delivery_attempt, attributes, data, settle } = incoming;
        self.arrivals.send_modify(|arrivals| *arrivals = arrivals.wrapping_add(1));
        if delivery_attempt.is_some_and(|count| count > 1) {
            metrics::REDELIVERED.add((), 1);
        }
        match event::parse(&attributes, &data) {
            Parsed::Canary => {
                CANARIES.add(CanaryResult::Returned, 1);
                self.canaries.send_modify(|canaries| *canaries = canaries.wrapping_add(1));
                settle.ack();
            }
            Parsed::Poison { why, sha256, len } => {
                journal::poison(&message_id, delivery_attempt, why, &sha256, len);
                settle.reject();
            }
            Parsed::Event(event) => {
                journal::received(event.submission_id, &message_id, delivery_attempt, event.reason.label());
                // The sweep's own event carries the time of the sweep, not when the submission was ready.
                let published_at = published_at.filter(|_| event.reason != Reason::Sweep);
                self.pending.remember(event.submission_id, published_at, settle);
            }
        }
    }

    /// Takes in a task's result, and those of others that have ended already.
    fn done_with_those_behind(&mut self, first: Result<(Id, Done), JoinError>) {
        let mut next = Some(first);
        while let Some(done) = next {
            self.done(done);
            next = self.tasks.try_join_next_with_id();
        }
        metrics::in_flight(self.working.len());
    }

    fn done(&mut self, done: Result<(Id, Done), JoinError>) {
        match done {
            Ok((_, Done::LetGo(Ok(())))) => {
                let released = self.claiming.take().unwrap_or_default();
                released.iter().for_each(|request| self.pending.keep(request.id));
            }
            Ok((task, Done::Work(routed))) => {
                self.last_end = self.worker.clock.monotonic();
                self.slots.ended(self.bounds.get().max_in_flight);
                if let Some(id) = self.working.remove(&task) {
                    self.finished(id, &routed);
                }
                if let Some(id) = self.aside.remove(&task)
                    && matches!(routed.conclusion, Some(Conclusion::Released { .. }))
                {
                    // Its event came again and was acked meanwhile, because the row was leased.
                    self.pending.find(id);
                }
            }
            Ok((_, Done::Claim { before, after, batch, permits })) => {
                if let Some(error) = self.answered(batch, (before, after), permits) {
                    self.not_claimed(&error);
                } else {
                    self.batch = (self.batch * 2).min(BATCH);
                }
            }
            Ok((_, Done::LetGo(Err(error)))) => self.not_claimed(&error),
            Err(error) => {
                tracing::error!(
                    "a task of ours ended abnormally; its submission is in doubt until the sweep takes it back: {error}"
                );
                match (self.working.remove(&error.id()), self.aside.remove(&error.id())) {
                    (Some(id), _) => self.pending.settle(id, Settlement::Nack),
                    (None, Some(_)) => {}
                    (None, None) => self.claim_again(),
                }
            }
        }
    }

    /// Sets work aside whose record the database refuses: other submissions get its slot and its share of `max_waiting`. The
    /// claim is kept, and its record tried on; its event comes again, and the row shows how the claim ended.
    fn set_aside(&mut self, task: Id) {
        if self.aside.len() >= ASIDE {
            return;
        }
        if let Some(id) = self.working.remove(&task) {
            journal::set_aside(id);
            self.aside.insert(task, id);
            self.pending.settle(id, Settlement::Nack);
            metrics::in_flight(self.working.len());
        }
    }

    fn finished(&mut self, id: Uuid, routed: &Routed) {
        match &routed.conclusion {
            Some(Conclusion::Routed { at, .. }) => self.measure(id, *at),
            Some(Conclusion::Failed { at, reason })
                if !matches!(reason, FailReason::Infected | FailReason::ScreenedOut) =>
            {
                self.measure(id, *at);
            }
            Some(Conclusion::Failed { .. } | Conclusion::Released { .. }) | None => {}
        }
        if let Some(Conclusion::Routed { at, .. }) = &routed.conclusion {
            metrics::LAST_SUCCESS.set((), at.as_second().unsigned_abs());
        }
        match (&routed.conclusion, routed.settlement) {
            (None, Settlement::Ack) => self.pending.ack_seen(id),
            (_, Settlement::Keep) => self.pending.keep(id),
            (None, Settlement::Nack | Settlement::Reject | Settlement::Exhaust) | (Some(_), _) => {
                self.pending.settle(id, routed.settlement);
            }
        }
    }

    /// Measures how long people waited for a submission that ended at `at`.
    fn measure(&self, id: Uuid, at: Timestamp) {
        self.pending.waited(id, at).into_iter().for_each(|lag| metrics::ROUTING_LAG.record((), lag));
    }
}

/// Resolves at `due`; never where that is `None`.
async fn until(clock: &dyn Clock, due: Option<Instant>) {
    match due {
        Some(due) => clock.sleep(due.saturating_duration_since(clock.monotonic())).await,
        None => std::future::pending().await,
    }
}
