//! The worker: one claimed submission, from its first action to the settled outcome. Start reading at
//! [`Worker::route`]; the steps are numbered as the protocol page numbers them.
//!
//! If we die in the middle, the row stays `processing` until it is taken back; what was begun is then in doubt.
//! What never happens here: a send without a begin mark, a transition without the token, a verdict from memory.

mod journey;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use journey::Journey;
pub use journey::Luggage;

use super::claims::Claim;
use super::decide;
use super::delivery::doubt::Doubts;
use super::journal;
use super::ledger::{FailReason, Ledger};
use super::outages::Outages;
use super::outcome::Entries;
use super::persist::{GaveUp, Persist, Persisted};
use super::prepare::{ActionScope, Decided, Prepared, Preparer, Ready};
use super::settlement::Settlement;
use super::spool::Spool;
use super::store::{Begun, ClaimRequest, Conclusion, RecordScope, Recorded, Store};
use super::unrecorded::{Place, Unrecorded};
use crate::backoff::backoff;
use crate::config::InDoubt;
use crate::db::DbError;
use crate::gateway::smtp::{Envelope, Lane, Lanes};
use crate::ops::chance::Chance;
use crate::ops::metrics::{self, Resolution, SubmissionOutcome};
use crate::ports::{Clock, Outcome};

/// What the worker works with; one for the whole daemon.
#[derive(Debug)]
pub struct Worker {
    /// The submission's rows.
    pub store: Store,
    /// Connections to the relay.
    pub lanes: Lanes,
    /// Bounds what a crash leaves in doubt.
    pub unrecorded: Unrecorded,
    /// Makes mails.
    pub preparer: Preparer,
    /// Repeats what must be recorded.
    pub persist: Persist,
    /// Keeps facts that the database does not take.
    pub spool: Spool,
    /// Resolves what is perhaps sent.
    pub doubts: Doubts,
    /// The breakers, and the gate before new work.
    pub outages: Outages,
    /// Pause before another attempt.
    pub pauses: Pauses,
    /// Measures.
    pub clock: Arc<dyn Clock>,
    /// Spreads the pauses.
    pub chance: Arc<Chance>,
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
        chance.with(|rng| backoff(attempts, self.min, self.max, rng))
    }
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
    pub async fn route(&self, claim: Claim, mut ledger: Ledger, luggage: Luggage) -> Routed {
        let mut journey = Journey::of(&claim, luggage);
        loop {
            let entries = match decide::next_action(&ledger, &journey.tried) {
                Some(order) => match self.carry_out(&mut journey, &ledger, order).await {
                    Step::Outcomes(entries) => entries,
                    Step::Ended(routed) => return routed,
                },
                None => Entries::default(),
            };
            // 5. Record; 6. Finish in the same transaction when nothing is left to try; 7. Settle.
            match self.record(&mut journey, &entries).await {
                Ok(Persisted { value: Recorded::Continue(then), .. }) => ledger = *then,
                Ok(Persisted { value: Recorded::Concluded(conclusion), .. }) => {
                    return self.settle(&claim, conclusion);
                }
                Ok(Persisted { value: Recorded::Stale, repeated }) => {
                    return self.stale(&claim, repeated).await;
                }
                // It comes again, and who asks for the row then is told that there is none.
                Ok(Persisted { value: Recorded::NoRow, .. }) => {
                    return Routed { settlement: Settlement::Nack, conclusion: None };
                }
                Err(gave_up) => return abandon(&claim, &gave_up),
            }
        }
    }

    /// One action: 3. Begin and 4. Send, or why not.
    async fn carry_out(&self, journey: &mut Journey<'_>, ledger: &Ledger, order: i32) -> Step {
        let (claim, started) = (journey.claim, self.clock.monotonic());
        journey.tried.insert(order);
        // Of the first mail; whatever comes between gives its place back.
        let begun = journey.begun.take();
        if self.is_over(claim) {
            drop(begun);
            return self.give_back(journey).await;
        }
        if let Some(entries) = self.resolve(journey, ledger, order).await {
            journey.tried.remove(&order);
            return Step::Outcomes(entries);
        }
        let ready = match self.preparer.prepare(claim, ledger, order, &journey.dossier).await {
            Prepared::Ready(ready) => ready,
            Prepared::Decided(decided) => {
                let entries = self.decided(claim, &decided);
                journey.notice(&decided);
                self.outages.decided(claim, &decided.outcomes, &mut journey.tally).await;
                return Step::Outcomes(entries);
            }
            Prepared::Unreadable(error) => {
                journal::database_fault(claim, "the submission could not be read", &error);
                self.outages.database_under(claim, &error).await;
                return self.give_back(journey).await;
            }
        };
        let (place, lane) = match begun.filter(|(keys, _)| *keys == ready.keys) {
            Some((_, place)) => (place, None),
            None => match self.begin(journey, &ready).await {
                Ok(start) => start,
                Err(step) => return step,
            },
        };
        journal::begun(claim, &ready.beside.scope, ready.keys.len());
        let lane = match lane {
            Some(lane) => Some(lane),
            None => self.unless_over(claim, self.turn()).await,
        };
        let Some(mut lane) = lane else {
            drop(place);
            return self.give_back(journey).await;
        };
        let mail = Envelope { from: &ready.sender, recipients: &ready.recipients, message: &ready.message };
        let asked = self.clock.monotonic();
        let outcomes = lane.send(&mail, &|| claim.may_send(self.clock.monotonic())).await;
        drop(lane);
        self.unrecorded.sent(&outcomes, self.clock.monotonic().saturating_duration_since(asked));
        journey.unrecorded = Some(place);
        let took = self.clock.monotonic().saturating_duration_since(started);
        metrics::action_duration(ready.beside.scope.action_type, took);
        let entries = self.sent(claim, &ready, &outcomes, took);
        journey.notice(&ready.beside);
        self.outages.decided(claim, &ready.beside.outcomes, &mut journey.tally).await;
        self.outages.sent(claim, &ready.recipients, &outcomes, &mut journey.tally).await;
        Step::Outcomes(entries)
    }

    /// 3. Begin: the place of a mail that is begun, and the lane it may have; or what is to be done instead.
    async fn begin(&self, journey: &mut Journey<'_>, ready: &Ready) -> Result<(Place, Option<Lane>), Step> {
        let claim = journey.claim;
        let Some(start) = self.place(claim).await else {
            return Err(self.give_back(journey).await);
        };
        let touched = self.clock.monotonic();
        let mark = self.doubts.mark();
        // What is not begun leaves its lane to others before its end is written, which may take long.
        match self.store.begin_after(claim.id, &claim.token, &ready.keys, mark.as_deref()).await {
            Ok(Begun::Marked) => {
                claim.touched(touched);
                Ok(start)
            }
            Ok(Begun::Infected) => {
                drop(start);
                Err(self.fail(journey, FailReason::Infected).await)
            }
            Ok(Begun::NotClean) => {
                drop(start);
                Err(self.give_back(journey).await)
            }
            Ok(Begun::Stale) => Err(self.ended_elsewhere(claim).await),
            Ok(Begun::Changed) => {
                journey.tried.remove(&ready.beside.scope.action_order);
                Err(Step::Outcomes(Entries::default()))
            }
            Err(error) => {
                drop(start);
                journal::database_fault(claim, "the begin mark could not be written", &error);
                self.outages.database_under(claim, &error).await;
                Err(self.give_back(journey).await)
            }
        }
    }

    /// What the relay proves about deliveries of an action that are perhaps sent: asked once under a claim, and recorded
    /// before anything is sent again.
    async fn resolve(&self, journey: &mut Journey<'_>, ledger: &Ledger, order: i32) -> Option<Entries> {
        let claim = journey.claim;
        if !journey.asked.insert(order) {
            return None;
        }
        let resolved = self.doubts.resolve(claim, ledger, order).await;
        for (key, how) in &resolved.how {
            metrics::in_doubt(*how, 1);
            journal::resolved(claim, ledger, key, *how);
        }
        (!resolved.entries.is_empty()).then_some(resolved.entries)
    }

    /// Nothing more is begun: the daemon stops, or the gate is shut.
    fn is_over(&self, claim: &Claim) -> bool {
        claim.is_given_up() || !self.outages.gate.is_open()
    }

    /// Places for mails that may be begun with their claims, `most` at most: none where each has its lane first.
    pub fn ahead(&self, most: usize) -> Vec<Place> {
        let next = || if self.is_in_turn() { None } else { self.unrecorded.try_ahead() };
        std::iter::from_fn(next).take(most).collect()
    }

    /// Whether a mail has its lane before it is begun: who must wait for a turn, and everybody where doubt is held, because
    /// a crash meanwhile would make a failure of it.
    fn is_in_turn(&self) -> bool {
        self.lanes.is_paced() || self.preparer.rules.now().in_doubt == InDoubt::Hold
    }

    /// A place for one mail that is begun; and its lane and turn, unless the relay is so fast that it gets them at once
    /// when it is begun.
    async fn place(&self, claim: &Claim) -> Option<(Place, Option<Lane>)> {
        let start = async {
            let place = self.unrecorded.place(self.is_in_turn()).await;
            let lane = if place.ahead { None } else { Some(self.turn().await) };
            (place, lane)
        };
        let start = self.unless_over(claim, start).await;
        start.filter(|_| claim.may_send(self.clock.monotonic()).is_ok())
    }

    /// A lane and its turn.
    async fn turn(&self) -> Lane {
        let mut lane = self.lanes.acquire().await;
        lane.turn().await;
        lane
    }

    /// What is waited for; `None` when the daemon stops or the gate shuts, or when waiting takes so long that the fence
    /// would not let the send end: then nothing is sent, and no turn is taken from those who can still use it.
    async fn unless_over<T>(&self, claim: &Claim, waiting: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = claim.given_up() => None,
            () = self.outages.gate.shut() => None,
            () = self.clock.sleep(claim.may_wait(self.clock.monotonic())) => None,
            ready = waiting => Some(ready),
        }
    }

    /// The entries of a send and of what was decided beside it, counted and journalled.
    fn sent(&self, claim: &Claim, ready: &Ready, outcomes: &[Outcome], took: Duration) -> Entries {
        let mut entries = self.decided(claim, &ready.beside);
        let scope = &ready.beside.scope;
        let beside = ready.beside.outcomes.len() + ready.beside.held.len();
        for (place, (key, outcome)) in ready.keys.iter().zip(outcomes).enumerate() {
            metrics::action_attempt(scope.action_type, outcome);
            journal::outcome(claim, scope, beside + place, outcome, took);
            if ready.resend.contains(key) {
                resent(claim, scope, beside + place, outcome);
            }
            entries.add(&scope.context(claim), key, outcome);
        }
        entries
    }

    /// The entries of deliveries decided without a send, counted and journalled.
    fn decided(&self, claim: &Claim, decided: &Decided) -> Entries {
        for (place, (_, outcome)) in decided.outcomes.iter().enumerate() {
            metrics::action_attempt(decided.scope.action_type, outcome);
            journal::outcome(claim, &decided.scope, place, outcome, Duration::ZERO);
        }
        for place in 0..decided.held.len() {
            metrics::in_doubt(Resolution::NeitherHeld, 1);
            journal::doubt(claim, &decided.scope, decided.outcomes.len() + place, Resolution::NeitherHeld);
        }
        decided.entries(claim)
    }

    async fn record(
        &self,
        journey: &mut Journey<'_>,
        entries: &Entries,
    ) -> Result<Persisted<Recorded>, GaveUp> {
        // One that cannot be recorded keeps nobody from sending: the breaker or the sweep ends that.
        let place = Mutex::new(journey.unrecorded.take());
        let scope = self.scope(journey);
        let touched = self.clock.monotonic();
        let watched = self.spool.watch(scope.id, scope.token, &entries.facts);
        let record = async || {
            let recorded = watched.over(self.store.record(scope, entries)).await;
            drop(place.lock().unwrap_or_else(PoisonError::into_inner).take());
            recorded
        };
        let at_stake = (watched.has_facts().then_some(&watched), journey.slot.as_ref());
        let recorded = self.persist.until_recorded(journey.claim, at_stake, &self.outages, record).await;
        match &recorded {
            Ok(Persisted { value: Recorded::NoRow, .. }) => {
                journal::no_row(journey.claim, watched.facts());
                watched.without_row(&self.store).await;
            }
            Ok(_) => watched.recorded().await,
            Err(_) => {}
        }
        if let Ok(Persisted { value: Recorded::Continue(_), .. }) = &recorded {
            journey.claim.touched(touched);
        }
        recorded
    }

    /// Gives the submission back because a stop, a shut gate, an attachment or a wait came in between: by itself that costs
    /// no attempt, but what was left open before it may have (P8). Marks that stand were never followed by a send: they go
    /// with the claim.
    async fn give_back(&self, journey: &Journey<'_>) -> Step {
        let scope = self.scope(journey);
        let refund = journey.tally.is_unspent();
        self.end(journey, || self.store.release(scope, refund)).await
    }

    /// Gives back what claims without an answer may have taken. Nothing was sent under them, so no attempt is spent; where
    /// such a claim does not stand, nothing happens.
    ///
    /// # Errors
    /// [`DbError`]: of some of them it is not known whether they stand.
    pub async fn let_go(&self, unanswered: &[ClaimRequest]) -> Result<(), DbError> {
        let tried = BTreeSet::new();
        let releases = unanswered.iter().map(async |ClaimRequest { id, token }| {
            let pause = self.pauses.after(1, &self.chance);
            let scope = RecordScope { id: *id, token, tried: &tried, pause, refund: true };
            if let Recorded::Concluded(Conclusion::Released { due }) = self.store.release(scope, true).await?
            {
                journal::let_go(*id, due);
            }
            Ok(())
        });
        futures::future::join_all(releases).await.into_iter().collect()
    }

    async fn fail(&self, journey: &Journey<'_>, reason: FailReason) -> Step {
        let scope = self.scope(journey);
        self.end(journey, || self.store.fail(scope, reason)).await
    }

    async fn end<Ending>(&self, journey: &Journey<'_>, end: impl Fn() -> Ending) -> Step
    where
        Ending: Future<Output = Result<Recorded, DbError>>,
    {
        let claim = journey.claim;
        let at_stake = (None, journey.slot.as_ref());
        Step::Ended(match Box::pin(self.persist.until_recorded(claim, at_stake, &self.outages, end)).await {
            Ok(Persisted { value: Recorded::Concluded(conclusion), .. }) => self.settle(claim, conclusion),
            Ok(Persisted { value: Recorded::Continue(_) | Recorded::Stale | Recorded::NoRow, repeated }) => {
                self.stale(claim, repeated).await
            }
            Err(gave_up) => abandon(claim, &gave_up),
        })
    }

    async fn ended_elsewhere(&self, claim: &Claim) -> Step {
        Step::Ended(self.stale(claim, false).await)
    }

    /// The claim is not ours any more. Somebody else has it, and its event, if it is needed, is theirs to settle. But
    /// where an earlier try of ours failed, its commit may stand and only the answer was lost: then the row tells how the
    /// claim ended, and what it does not tell (a release) comes again.
    async fn stale(&self, claim: &Claim, repeated: bool) -> Routed {
        if !repeated {
            journal::stale(claim);
            metrics::stale_settle();
            return Routed { settlement: Settlement::Ack, conclusion: None };
        }
        match self.store.ended_by(claim.id, &claim.token).await {
            Ok(Some(conclusion)) => self.settle(claim, conclusion),
            Ok(None) | Err(_) => {
                journal::answer_lost(claim);
                Routed { settlement: Settlement::Nack, conclusion: None }
            }
        }
    }

    fn scope<'a>(&self, journey: &'a Journey<'_>) -> RecordScope<'a> {
        let claim = journey.claim;
        let pause = self.pauses.after(claim.attempt, &self.chance);
        let refund = journey.tally.refunds();
        RecordScope { id: claim.id, token: &claim.token, tried: &journey.tried, pause, refund }
    }

    /// 7. Settle.
    fn settle(&self, claim: &Claim, conclusion: Conclusion) -> Routed {
        journal::concluded(claim, &conclusion);
        metrics::submission(match &conclusion {
            Conclusion::Routed { .. } => SubmissionOutcome::Routed,
            Conclusion::Failed { .. } => SubmissionOutcome::Failed,
            Conclusion::Released { .. } => SubmissionOutcome::Released,
        });
        let settlement = Settlement::of_end(&conclusion, self.outages.gate.is_open());
        Routed { settlement, conclusion: Some(conclusion) }
    }
}

/// Doubt that was resolved by sending again. What was deferred was not sent: its doubt is as it was.
fn resent(claim: &Claim, scope: &ActionScope, place: usize, outcome: &Outcome) {
    match outcome {
        Outcome::Deferred(_) => {}
        Outcome::Accepted { .. } | Outcome::Refused(_) | Outcome::Unknown(_) | Outcome::NotImplemented => {
            metrics::in_doubt(Resolution::NeitherResent, 1);
            journal::doubt(claim, scope, place, Resolution::NeitherResent);
        }
    }
}

/// The row stays `processing` until it is taken back; the event comes again meanwhile.
fn abandon(claim: &Claim, gave_up: &GaveUp) -> Routed {
    journal::gave_up(claim, gave_up);
    Routed { settlement: Settlement::Nack, conclusion: None }
}
