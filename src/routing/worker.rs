//! The worker: one claimed submission, from its first action to the settled outcome. Start reading at
//! [`Worker::route`]; the steps are numbered as the protocol page numbers them.
//!
//! If we die in the middle, the row stays `processing` until the sweep takes it back; deliveries with an intent are then in
//! doubt. Never here: a send without an intent, a transition without the token, a verdict from memory.

mod attempt;
mod carrier;
mod ends;
mod mails;
pub mod persist;
pub mod prepare;
mod tickets;

use std::sync::Arc;
use std::time::Duration;

use attempt::Attempt;
pub use attempt::ClaimContext;
use carrier::{Carrier, Found, Sent, Start};
pub use mails::Mails;
pub use tickets::{TicketParts, Tickets};

use self::ends::abandon;
use self::persist::{Persist, Persisted};
use self::prepare::{Decided, Parcel, Preparation, Prepared, Preparer, Ready};
use super::claims::Claim;
use super::claims::in_doubt_permits::InDoubtPermit;
use super::claims::scope::ActionScope;
use super::decide;
use super::decide::settlement::Settlement;
use super::follow::doubt::Resolved;
use super::journal;
use super::journal::files::OfAction;
use super::outages::Outages;
use super::spool::Spool;
use super::store::{BeginAnswer, Conclusion, Recorded, Store};
use super::submission::ledger::{FailReason, Ledger};
use super::submission::outcome::Entries;
use super::submission::plan::{ActionType, PlannedAction};
use crate::backoff::backoff;
use crate::ops::rng::Rng;
use crate::ports::{Clock, Outcome};
use crate::routing::metrics::{self, Resolution};

/// Carries claimed submissions out; one worker serves the whole daemon.
#[derive(Debug)]
pub struct Worker {
    /// Rows of the submissions.
    pub store: Store,
    /// Makes mails.
    pub preparer: Preparer,
    /// Sends mails.
    pub mails: Mails,
    /// Makes tickets; absent where there is no help desk.
    pub tickets: Option<Tickets>,
    /// Repeats records until they stand.
    pub persist: Persist,
    /// Keeps facts that the database does not take.
    pub spool: Spool,
    /// The breakers, and the gate before new work.
    pub outages: Outages,
    /// Back-off before another attempt.
    pub pauses: Pauses,
    /// Measures durations and deadlines.
    pub clock: Arc<dyn Clock>,
    /// Jitter of the pauses.
    pub rng: Arc<Rng>,
}

/// Back-off of a released submission.
#[derive(Debug, Clone, Copy)]
pub struct Pauses {
    /// The source backs redelivery off itself (Pub/Sub's retry policy): the row only has to be due before the event is.
    pub backed_off_by_source: bool,
    /// Shortest back-off.
    pub min: Duration,
    /// Longest back-off.
    pub max: Duration,
}

impl Pauses {
    fn after(self, attempts: u32, rng: &Rng) -> Duration {
        if self.backed_off_by_source {
            return Duration::from_secs(1).min(self.min);
        }
        rng.with(|rng| backoff(attempts, self.min, self.max, rng))
    }
}

/// End of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routed {
    /// Answer to the source.
    pub settlement: Settlement,
    /// End recorded in the row; `None` where the claim was lost or had to be abandoned.
    pub conclusion: Option<Conclusion>,
}

/// Result of one action.
enum Step {
    /// Outcomes to record.
    Outcomes(Entries),
    /// End of the claim.
    Ended(Routed),
}

/// What was found out about an action's deliveries in doubt.
enum Doubt {
    /// Nothing was in doubt, or what was stays so: the policy decides.
    Unresolved,
    /// Outcomes to be recorded before anything is sent.
    Resolved(Entries),
    /// The search took longer than the daemon, the gate or the claim allows: what was in doubt stays so.
    Interrupted,
    /// Nobody could be asked: nothing of the action is sent under this claim.
    Unasked(Entries),
}

impl Worker {
    /// Routes one claimed submission. Consumes the claim: every end of the routing ends it.
    pub async fn route(&self, claim: Claim, mut ledger: Ledger, context: ClaimContext) -> Routed {
        let mut attempt = Attempt::of(&claim, context);
        loop {
            let entries = match decide::next_action(&ledger, &attempt.tried) {
                Some(order) => match self.carry_out(&mut attempt, &ledger, order).await {
                    Step::Outcomes(entries) => entries,
                    Step::Ended(routed) => return routed,
                },
                None => Entries::default(),
            };
            // 5. Record; 6. Finish in the same transaction when nothing is left to try; 7. Settle. Where a mail follows, its
            // intent (3.) is recorded with the outcomes.
            let next = self.next_ahead(&attempt, &ledger);
            match self.record(&mut attempt, entries, next).await {
                Ok(Persisted { value: Recorded::Continue(goes_on), .. }) => ledger = goes_on.ledger,
                Ok(Persisted { value: Recorded::Concluded(conclusion), .. }) => {
                    return self.settle(&claim, conclusion);
                }
                Ok(Persisted { value: Recorded::Stale, repeated }) => {
                    return self.stale(&claim, repeated).await;
                }
                // The event comes again, and its next claim answers that there is no row.
                Ok(Persisted { value: Recorded::NoRow, .. }) => {
                    return Routed { settlement: Settlement::Nack, conclusion: None };
                }
                Err(gave_up) => return abandon(&claim, &gave_up),
            }
        }
    }

    /// Carries one action out: 3. Begin and 4. Send, or the reason not to.
    async fn carry_out(&self, attempt: &mut Attempt<'_>, ledger: &Ledger, order: i32) -> Step {
        let (claim, started) = (attempt.claim, self.clock.monotonic());
        attempt.tried.insert(order);
        // The intent recorded with the claim covers the first mail only; every other way out of here frees its permit.
        let begun = attempt.intents.take();
        if self.is_over(claim) {
            drop(begun);
            return self.give_back(attempt).await;
        }
        match self.resolve(attempt, ledger, order).await {
            Doubt::Unresolved => {}
            Doubt::Interrupted => return self.give_back(attempt).await,
            Doubt::Resolved(entries) => {
                attempt.tried.remove(&order);
                return Step::Outcomes(entries);
            }
            Doubt::Unasked(entries) => return Step::Outcomes(entries),
        }
        let may_enclose = !attempt.too_large.contains(&order);
        let preparation = Preparation { claim, ledger, order, content: &attempt.content, may_enclose };
        let ready = match self.preparer.prepare(preparation, self.over(claim)).await {
            Prepared::Ready(ready) => ready,
            Prepared::Decided(decided) => {
                let entries = self.decided(claim, &decided);
                attempt.notice(&decided);
                self.outages.decided(claim, &decided.outcomes, &mut attempt.tally).await;
                return Step::Outcomes(entries);
            }
            Prepared::Unreadable(error) => {
                journal::database_fault(claim, "the submission could not be read", &error);
                self.outages.database_under(claim, &error).await;
                return self.give_back(attempt).await;
            }
            Prepared::Interrupted => return self.give_back(attempt).await,
        };
        let Some(carrier) = self.carrier(ready.beside.scope.action_type) else {
            return self.give_back(attempt).await;
        };
        let start = match begun.filter(|(keys, _)| *keys == ready.keys) {
            Some((_, permit)) => Start::ahead(permit),
            None => match self.begin(attempt, carrier, &ready).await {
                Ok(start) => start,
                Err(step) => return step,
            },
        };
        journal::intent(claim, &ready.beside.scope, ready.keys.len());
        let Some(start) = self.unless_over(claim, carrier.made_ready(start)).await else {
            return self.give_back(attempt).await;
        };
        let fence = || claim.may_send(self.clock.monotonic());
        let (sent, permit) = carrier.send(start, &ready, &fence).await;
        attempt.permit = permit;
        let took = self.clock.monotonic().saturating_duration_since(started);
        metrics::ACTION_DURATION.record(ready.beside.scope.action_type, took);
        if ready.parcel.has_files() && sent.is_too_large() {
            let form_id = &claim.form_id;
            OfAction { id: claim.id, form_id, action_order: order }.too_large();
            attempt.too_large.insert(order);
            attempt.tried.remove(&order);
            return Step::Outcomes(Entries::default());
        }
        let entries = self.sent(claim, &ready, &sent.outcomes(), took);
        attempt.notice(&ready.beside);
        self.outages.decided(claim, &ready.beside.outcomes, &mut attempt.tally).await;
        match (&sent, &ready.parcel) {
            (Sent::Mail(outcomes), Parcel::Mail(mail)) => {
                self.outages.sent(claim, &mail.recipients, outcomes, &mut attempt.tally).await;
            }
            (Sent::Ticket(creation), _) => self.outages.ticket(claim, creation, &mut attempt.tally).await,
            (Sent::Mail(_) | Sent::Nothing, _) => {}
        }
        Step::Outcomes(entries)
    }

    /// 3. Begin: a send whose intent is recorded, with its permit; or the next step.
    async fn begin(
        &self,
        attempt: &mut Attempt<'_>,
        carrier: Carrier<'_>,
        ready: &Ready,
    ) -> Result<Start, Step> {
        let claim = attempt.claim;
        let start = match self.unless_over(claim, carrier.permit()).await {
            Some(None) => {
                // The ticket waits, and its submission's mails do not.
                attempt.tally.paused();
                return Err(Step::Outcomes(Entries::default()));
            }
            waited => waited.flatten(),
        };
        let Some(start) = start.filter(|_| claim.may_send(self.clock.monotonic()).is_ok()) else {
            return Err(self.give_back(attempt).await);
        };
        let touched = self.clock.monotonic();
        let log_position = carrier.log_position();
        // What has no intent frees its connection before its end is written, which may take long.
        match self.store.begin_after(claim.id, &claim.token, &ready.keys, log_position.as_deref()).await {
            Ok(BeginAnswer::Stands) => {
                claim.touched(touched);
                Ok(start)
            }
            Ok(BeginAnswer::Infected) => {
                drop(start);
                Err(self.fail(attempt, FailReason::Infected).await)
            }
            Ok(BeginAnswer::NotClean) => {
                drop(start);
                Err(self.give_back(attempt).await)
            }
            Ok(BeginAnswer::Stale) => Err(self.ended_elsewhere(claim).await),
            Ok(BeginAnswer::Changed) => {
                attempt.tried.remove(&ready.beside.scope.action_order);
                Err(Step::Outcomes(Entries::default()))
            }
            Err(error) => {
                drop(start);
                journal::database_fault(claim, "the intent could not be written", &error);
                self.outages.database_under(claim, &error).await;
                Err(self.give_back(attempt).await)
            }
        }
    }

    /// Resolves perhaps sent deliveries of an action by its carrier's evidence, which is asked for once under a claim, and
    /// recorded before anything is sent again.
    async fn resolve(&self, attempt: &mut Attempt<'_>, ledger: &Ledger, order: i32) -> Doubt {
        let claim = attempt.claim;
        let action = ledger.plan.iter().find(|action| action.action_order == order);
        let Some((action, carrier)) =
            action.and_then(|action| Some((action, self.carrier(action.action_type)?)))
        else {
            return Doubt::Unresolved;
        };
        if !attempt.asked.insert(order) {
            return Doubt::Unresolved;
        }
        // A search may take minutes, which a stop does not wait for.
        let Some(found) = self.unless_over(claim, carrier.resolve(claim, ledger, order)).await else {
            return Doubt::Interrupted;
        };
        let resolved = match found {
            Found::Mails(resolved) => resolved,
            Found::Ticket(None) => return Doubt::Unresolved,
            Found::Ticket(Some(looked)) => {
                let scope = self.preparer.scope(claim, ledger, action);
                let mut resolved = Resolved::default();
                match looked.found {
                    Ok(None) => return Doubt::Unresolved,
                    Ok(Some(made)) => {
                        journal::found_again(claim, &made);
                        resolved.entries.add(&scope.context(claim), &looked.key, &made);
                        resolved.how.push((looked.key, Resolution::Found));
                    }
                    Err(unanswered) => {
                        self.outages.unanswered(&unanswered.fault, &mut attempt.tally);
                        let outcome = Outcome::Deferred(unanswered.fault);
                        journal::outcome(claim, &scope, 0, &outcome, Duration::ZERO);
                        resolved.entries.add(&scope.context(claim), &looked.key, &outcome);
                        return Doubt::Unasked(resolved.entries);
                    }
                }
                resolved
            }
        };
        for (key, how) in &resolved.how {
            metrics::IN_DOUBT.add(*how, 1);
            journal::resolved(claim, ledger, key, *how);
        }
        if resolved.entries.is_empty() { Doubt::Unresolved } else { Doubt::Resolved(resolved.entries) }
    }

    /// Whether no further intent may be recorded: the daemon stops, or the gate is shut.
    fn is_over(&self, claim: &Claim) -> bool {
        claim.is_given_up() || !self.outages.gate.is_open()
    }

    /// Permits for mails whose intents are recorded with their claims, `most` at most; none where connections come first.
    pub fn ahead(&self, most: usize) -> Vec<InDoubtPermit> {
        self.mails.ahead(most)
    }

    /// A permit for the mail that comes next, if its intent may be recorded with the outcomes of the one before: as for a
    /// claim, links come before intents, and a claim whose sends are over gets none.
    fn next_ahead(&self, attempt: &Attempt<'_>, ledger: &Ledger) -> Option<InDoubtPermit> {
        let next = decide::next_action(ledger, &attempt.tried)?;
        let is_mail = |action: &PlannedAction| action.action_order == next && action.action_type.is_email();
        let has_links = attempt.content.get().is_none_or(|content| !content.attachments.is_empty());
        if has_links
            || self.is_over(attempt.claim)
            || attempt.claim.may_send(self.clock.monotonic()).is_err()
            || !ledger.plan.iter().any(is_mail)
        {
            return None;
        }
        self.mails.ahead(1).pop()
    }

    /// The number of mails whose intents can be recorded with their claims now; `None`: no claim waits for that.
    pub fn free_ahead(&self) -> Option<usize> {
        self.mails.free_ahead()
    }

    /// What carries actions of this type out; none without a help desk.
    fn carrier(&self, action_type: ActionType) -> Option<Carrier<'_>> {
        match action_type {
            ActionType::EmailTemplate | ActionType::EmailRaw => Some(Carrier::Mails(&self.mails)),
            ActionType::HappyfoxTemplate => self.tickets.as_ref().map(Carrier::Tickets),
        }
    }

    /// The result of `waiting`; `None` when the daemon stops, the gate shuts, or the wait takes so long that the fence would
    /// stop the send: then nothing is sent, and no share of the rate limit is taken from sends that can still use it.
    async fn unless_over<T>(&self, claim: &Claim, waiting: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.over(claim) => None,
            ready = waiting => Some(ready),
        }
    }

    /// Resolves when the daemon stops, the gate shuts, or a further wait would leave the fence no time for a send.
    async fn over(&self, claim: &Claim) {
        tokio::select! {
            biased;
            () = claim.given_up() => {}
            () = self.outages.gate.shut() => {}
            () = self.clock.sleep(claim.may_wait(self.clock.monotonic())) => {}
        }
    }

    /// The entries of a send and of the deliveries decided beside it, counted and journalled.
    fn sent(&self, claim: &Claim, ready: &Ready, outcomes: &[Outcome], took: Duration) -> Entries {
        let mut entries = self.decided(claim, &ready.beside);
        let scope = &ready.beside.scope;
        let beside = ready.beside.outcomes.len() + ready.beside.on_hold.len();
        for (index, (key, outcome)) in ready.keys.iter().zip(outcomes).enumerate() {
            metrics::action_attempt(scope.action_type, outcome);
            journal::outcome(claim, scope, beside + index, outcome, took);
            if ready.resend.contains(key) {
                resent(claim, scope, beside + index, outcome);
            }
            entries.add(&scope.context(claim), key, outcome);
        }
        entries
    }

    /// The entries of deliveries decided without a send, counted and journalled.
    fn decided(&self, claim: &Claim, decided: &Decided) -> Entries {
        for (index, (_, outcome)) in decided.outcomes.iter().enumerate() {
            metrics::action_attempt(decided.scope.action_type, outcome);
            journal::outcome(claim, &decided.scope, index, outcome, Duration::ZERO);
        }
        for index in 0..decided.on_hold.len() {
            metrics::IN_DOUBT.add(Resolution::NeitherOnHold, 1);
            journal::doubt(claim, &decided.scope, decided.outcomes.len() + index, Resolution::NeitherOnHold);
        }
        decided.entries(claim)
    }
}

/// Counts and logs doubt resolved by sending again. A deferred delivery was not sent: its doubt is as it was.
fn resent(claim: &Claim, scope: &ActionScope, index: usize, outcome: &Outcome) {
    match outcome {
        Outcome::Deferred(_) => {}
        Outcome::Accepted { .. }
        | Outcome::Created { .. }
        | Outcome::Refused(_)
        | Outcome::Unknown(_)
        | Outcome::NotImplemented => {
            metrics::IN_DOUBT.add(Resolution::NeitherResent, 1);
            journal::doubt(claim, scope, index, Resolution::NeitherResent);
        }
    }
}
