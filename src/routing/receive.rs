//! Receive and claim (protocol §1, §2, §7): events in, claims out in batches, settlements back. Start at
//! [`Receiver::run`]; the worker carries out what is claimed here.
//!
//! One task owns everything in this file, so there are no locks. If we die, unsettled events come again. What never
//! happens here: an ack before the commit, a claim without a slot, a spawn without a bound, a claim while the gate is
//! shut.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::claims::LiveClaims;
use super::event::{self, Parsed, Reason};
use super::in_hand::InHand;
use super::journal;
use super::ledger::FailReason;
use super::settlement::Settlement;
use super::slots::{self, Slots};
use super::store::{Ahead, ClaimRequest, Claimed, Conclusion, TakenRow};
use super::unrecorded::Place;
use super::worker::{Luggage, Routed, Worker};
use crate::db::DbError;
use crate::ops::gate::Passage;
use crate::ops::live::Live;
use crate::ops::metrics::{self, CanaryResult, SubmissionOutcome};
use crate::ports::{Clock, EventSource, Incoming, SourceError};
use crate::scrub::scrub;

/// Claims written in one transaction.
const BATCH: usize = 64;
/// Waits before a claim is tried again after a database fault.
const CLAIM_RETRY: Duration = Duration::from_secs(2);
/// How long a trial waits for somebody who was not denied yet: the source is built anew when the gate opens, and one that is
/// far away needs a token, a TLS session and a stream before the first event comes.
const OTHERS: Duration = Duration::from_secs(3);
/// A round takes no longer than this, also where nothing happens.
const ROUND: Duration = Duration::from_millis(500);
/// Waits before a row that somebody else had locked is looked at again.
const BUSY_RETRY: Duration = Duration::from_secs(1);

/// Bounds of what is taken on.
#[derive(Debug, Clone, Copy)]
pub struct ReceiveBounds {
    /// Submissions claimed at once.
    pub max_in_flight: usize,
    /// Events kept unsettled at once; beyond it the source is not asked for more.
    pub max_waiting: usize,
}

/// Takes events and keeps the worker busy.
pub struct Receiver {
    worker: Arc<Worker>,
    live: LiveClaims,
    bounds: Live<ReceiveBounds>,
    /// Submissions that the sweep found, to be claimed although no event names them.
    found: mpsc::Receiver<Uuid>,
    hand: InHand,
    tasks: JoinSet<Done>,
    /// How many are claimed at once; less after a fault, so that a row at fault is found alone.
    batch: usize,
    /// Messages that came so far, of whatever kind: each proves that the stream is alive.
    arrivals: watch::Sender<u64>,
    /// Rounds made so far: each proves that this loop is not stuck.
    rounds: Arc<AtomicU64>,
    /// Canary events among them: each went the whole way.
    canaries: watch::Sender<u64>,
    /// How far the gate was open when it was last looked at.
    passage: Passage,
    /// Since when it is so.
    passage_since: Instant,
    /// How many may be in work at once.
    slots: Slots,
    /// When the last piece of work ended.
    last_end: Instant,
    /// The batch being claimed, or given back because its claim had no answer; one at a time.
    claiming: Option<Vec<ClaimRequest>>,
    /// What is being routed, by task, so that a task that ends abnormally is known by its submission.
    working: HashMap<Id, Uuid>,
}

/// What a task came back with.
enum Done {
    Claim {
        before: Instant,
        after: Instant,
        answers: Result<HashMap<Uuid, Claimed>, DbError>,
        /// For mails that were begun with their claims.
        places: Vec<Place>,
    },
    /// Claims without an answer were given back.
    LetGo(Result<(), DbError>),
    Work(Routed),
}

impl Receiver {
    /// A receiver that hands claims to `worker`: of submissions named by events, and of those that come through `found`.
    #[must_use]
    pub fn new(
        worker: Arc<Worker>,
        live: LiveClaims,
        bounds: impl Into<Live<ReceiveBounds>>,
        found: mpsc::Receiver<Uuid>,
    ) -> Self {
        let bounds = bounds.into();
        let (hand, now) = (InHand::new(Arc::clone(&worker.chance)), worker.clock.monotonic());
        Self {
            worker,
            live,
            slots: Slots::default(),
            bounds,
            found,
            hand,
            tasks: JoinSet::new(),
            batch: BATCH,
            arrivals: watch::Sender::new(0),
            rounds: Arc::default(),
            canaries: watch::Sender::new(0),
            passage: Passage::Open,
            passage_since: now,
            last_end: now,
            claiming: None,
            working: HashMap::new(),
        }
    }

    /// Counts what arrives, for whoever has to know whether the stream is alive.
    #[must_use]
    pub fn arrivals(&self) -> watch::Receiver<u64> {
        self.arrivals.subscribe()
    }

    /// Counts the rounds of [`Self::run`], for whoever has to know whether it is stuck.
    #[must_use]
    pub fn rounds(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.rounds)
    }

    /// Counts the canary events that came back.
    #[must_use]
    pub fn canaries(&self) -> watch::Receiver<u64> {
        self.canaries.subscribe()
    }

    /// Receives until `stop`, then gives back what is not claimed and waits for what is.
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
            self.follow(gate.passage(), source).await;
            self.claim_what_fits();
            self.let_go();
            self.rounds.fetch_add(1, Ordering::Relaxed);
            metrics::waiting(self.hand.submissions().saturating_sub(self.working.len()));
            let due = self.hand.next_due();
            let room = self.hand.events() < self.bounds.get().max_waiting && self.passage != Passage::Shut;
            tokio::select! {
                biased;
                () = stop.cancelled() => break Ok(()),
                () = gate.changed_from(self.passage) => {}
                Some(done) = self.tasks.join_next_with_id() => self.done(done),
                () = until(&*clock, due) => self.hand.wake_due(clock.monotonic()),
                Some(id) = self.found.recv(), if self.hand.submissions() < self.bounds.get().max_waiting => self.hand.find(id),
                incoming = source.next(), if room => match incoming {
                    Ok(incoming) => self.take(incoming),
                    Err(error) => break Err(error),
                },
                () = clock.sleep(ROUND) => {}
            }
        };
        // First, so that what is given back next goes to others and not straight back here.
        source.quiet().await;
        let mut unanswered = self.hand.take_unanswered();
        self.hand.give_back();
        while let Some(done) = self.tasks.join_next_with_id().await {
            self.done(done);
        }
        unanswered.extend(self.hand.take_unanswered());
        if let Err(error) = self.worker.let_go(&unanswered).await {
            tracing::warn!(
                "claims that had no answer may stand until the sweep takes them back: {}",
                scrub(&error.to_string())
            );
        }
        unanswered.iter().for_each(|request| self.hand.settle(request.id, Settlement::Nack));
        // What came back meanwhile and was to be kept.
        self.hand.give_back();
        ended
    }

    /// Follows the gate: while it is shut the source brings nothing, so that no deliveries are counted there, and what is
    /// in hand stays in hand. Afterwards work is taken up slowly.
    async fn follow(&mut self, passage: Passage, source: &mut dyn EventSource) {
        let before = std::mem::replace(&mut self.passage, passage);
        if before != passage {
            self.passage_since = self.worker.clock.monotonic();
        }
        match (before, passage) {
            (Passage::Shut, Passage::Shut) => {}
            (_, Passage::Shut) => {
                source.pause().await;
                self.slots.shut();
            }
            (Passage::Shut, _) => source.resume(),
            (Passage::Ajar | Passage::Open, Passage::Ajar | Passage::Open) => {}
        }
    }

    /// Takes one message in (protocol §1).
    fn take(&mut self, incoming: Incoming) {
        let Incoming { message_id, published_at, delivery_attempt, attributes, data, settle } = incoming;
        self.arrivals.send_modify(|arrivals| *arrivals = arrivals.wrapping_add(1));
        if delivery_attempt.is_some_and(|count| count > 1) {
            metrics::redelivered();
        }
        match event::parse(&attributes, &data) {
            Parsed::Canary => {
                metrics::canary(CanaryResult::Returned);
                self.canaries.send_modify(|canaries| *canaries = canaries.wrapping_add(1));
                settle.ack();
            }
            Parsed::Poison { why, sha256, len } => {
                journal::poison(&message_id, delivery_attempt, why, &sha256, len);
                settle.reject();
            }
            Parsed::Event(event) => {
                journal::received(event.submission_id, &message_id, delivery_attempt, event.reason.label());
                // The sweep's own event says when it looked, not when the submission was ready.
                let published_at = published_at.filter(|_| event.reason != Reason::Sweep);
                self.hand.remember(event.submission_id, published_at, settle);
            }
        }
    }

    /// Claims (protocol §2) one batch at a time, never more than there are free slots: alone it goes at once, and under
    /// load the next batch gathers while this one commits, and while those in hand keep the relay busy.
    fn claim_what_fits(&mut self) {
        let slots = self.slots.under(self.passage, self.bounds.get().max_in_flight);
        let busy = self.worker.unrecorded.busy();
        let stalled = self.worker.clock.monotonic() >= self.last_end + ROUND;
        let (waiting, working) = (self.hand.claimable(), self.working.len());
        let worth = slots::worth_claiming(waiting, slots, working, busy, self.batch, stalled);
        if self.claiming.is_some() || worth == 0 || (self.passage == Passage::Ajar && !self.choose_trial()) {
            return;
        }
        let requests = self.hand.take_for_claim(worth);
        self.claiming = Some(requests.clone());
        let worker = Arc::clone(&self.worker);
        let places = if self.passage == Passage::Open { worker.ahead(requests.len()) } else { Vec::new() };
        let ids = requests.iter().map(|request| request.id).take(places.len()).collect();
        let ahead = Ahead { ids, log_mark: worker.doubts.mark() };
        self.tasks.spawn(async move {
            let before = worker.clock.monotonic();
            let answers = worker.store.claim_and_begin(&requests, &ahead).await;
            let after = worker.clock.monotonic();
            if let Err(error) = &answers {
                drop(places);
                worker.outages.database(error);
                worker.clock.sleep(CLAIM_RETRY).await;
                return Done::Claim { before, after, answers, places: Vec::new() };
            }
            Done::Claim { before, after, answers, places }
        });
    }

    /// While the gate is shut a claim without an answer is not repeated, and nobody would touch what it may have taken: it is
    /// given back, before the sweep takes its attempt for spent.
    fn let_go(&mut self) {
        let postgres = &self.worker.outages.postgres;
        if self.passage != Passage::Shut || self.claiming.is_some() || postgres.is_open() {
            return;
        }
        let unanswered = self.hand.take_unanswered();
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

    /// Whether anybody goes on trial, who then is put first. Others whom the trial lets in have [`OTHERS`] to come.
    fn choose_trial(&mut self) -> bool {
        let breaker = &self.worker.outages.relay;
        let others_came = self.worker.clock.monotonic() >= self.passage_since + OTHERS;
        self.hand.choose_trial(|id| breaker.was_denied(id), others_came)
    }

    fn done(&mut self, done: Result<(Id, Done), JoinError>) {
        match done {
            Ok((_, Done::LetGo(Ok(())))) => {
                let released = self.claiming.take().unwrap_or_default();
                released.iter().for_each(|request| self.hand.keep(request.id));
            }
            Ok((task, Done::Work(routed))) => {
                self.last_end = self.worker.clock.monotonic();
                self.slots.ended(self.bounds.get().max_in_flight);
                if let Some(id) = self.working.remove(&task) {
                    self.finished(id, &routed);
                }
            }
            Ok((_, Done::Claim { before, after, answers: Ok(mut answers), mut places })) => {
                self.batch = (self.batch * 2).min(BATCH);
                for ClaimRequest { id, .. } in self.claiming.take().unwrap_or_default() {
                    if let Some(answer) = answers.remove(&id) {
                        self.claimed(id, (before, after), answer, &mut places);
                    }
                }
            }
            Ok((_, Done::Claim { answers: Err(error), .. } | Done::LetGo(Err(error)))) => {
                tracing::warn!("nothing could be claimed, it is tried again: {}", scrub(&error.to_string()));
                self.claim_again();
            }
            Err(error) => {
                tracing::error!(
                    "a task of ours ended abnormally; its submission is in doubt until the sweep takes it back: {error}"
                );
                match self.working.remove(&error.id()) {
                    Some(id) => self.hand.settle(id, Settlement::Nack),
                    None => self.claim_again(),
                }
            }
        }
        metrics::in_flight(self.working.len());
    }

    /// The next batches are smaller, so that one row that cannot be claimed stops nobody else.
    fn claim_again(&mut self) {
        self.batch = (self.batch / 2).max(1);
        self.hand.claim_again(self.claiming.take().unwrap_or_default());
    }

    fn claimed(
        &mut self,
        id: Uuid,
        (before, after): (Instant, Instant),
        answer: Claimed,
        places: &mut Vec<Place>,
    ) {
        match answer {
            Claimed::Taken(row) => {
                self.hand.waits(id, row.waiting);
                let claim = self.live.enter(id, &row, before);
                journal::claimed(&claim, row.ledger.deliveries.len());
                let worker = Arc::clone(&self.worker);
                let TakenRow { ledger, dossier, begun, .. } = *row;
                let begun = Some(begun).filter(|keys| !keys.is_empty()).zip(places.pop());
                let luggage = Luggage { dossier, begun };
                let task =
                    self.tasks.spawn(async move { Done::Work(worker.route(claim, ledger, luggage).await) });
                self.working.insert(task.id(), id);
            }
            Claimed::Dropped(why) => {
                journal::dropped(id, why);
                self.hand.ack_seen(id);
            }
            Claimed::Busy => self.hand.hold(id, after + BUSY_RETRY),
            Claimed::Held { due, now } => {
                let pause = Duration::try_from(due.duration_since(now)).unwrap_or_default();
                journal::held(id, pause);
                self.hand.hold(id, after + pause);
            }
            Claimed::Nacked(why) => {
                journal::nacked(id, why);
                self.hand.settle(id, Settlement::of_unclaimed(why));
            }
            Claimed::Failed { form_id, reason, waiting, at } => {
                journal::refused(id, &form_id, reason);
                metrics::submission(SubmissionOutcome::Failed);
                self.hand.waits(id, waiting);
                // What is infected was never ready.
                if reason != FailReason::Infected {
                    self.measure(id, at);
                }
                self.hand.settle(id, Settlement::of_failure(reason));
            }
        }
    }

    fn finished(&mut self, id: Uuid, routed: &Routed) {
        match &routed.conclusion {
            Some(Conclusion::Routed { at, .. }) => self.measure(id, *at),
            Some(Conclusion::Failed { at, reason }) if *reason != FailReason::Infected => {
                self.measure(id, *at);
            }
            Some(Conclusion::Failed { .. } | Conclusion::Released { .. }) | None => {}
        }
        if let Some(Conclusion::Routed { at, .. }) = &routed.conclusion {
            metrics::last_success(*at);
        }
        match (&routed.conclusion, routed.settlement) {
            (None, Settlement::Ack) => self.hand.ack_seen(id),
            (_, Settlement::Keep) => self.hand.keep(id),
            (None, Settlement::Nack | Settlement::Reject | Settlement::Exhaust) | (Some(_), _) => {
                self.hand.settle(id, routed.settlement);
            }
        }
    }

    /// Measures how long people waited for what ended at `at`.
    fn measure(&self, id: Uuid, at: Timestamp) {
        self.hand.waited(id, at).into_iter().for_each(metrics::routing_lag);
    }
}

/// Resolves at `due`; never without one.
async fn until(clock: &dyn Clock, due: Option<Instant>) {
    match due {
        Some(due) => clock.sleep(due.saturating_duration_since(clock.monotonic())).await,
        None => std::future::pending().await,
    }
}
