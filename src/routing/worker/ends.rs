//! The ends of a claim: what was found out is recorded, and the event is settled by what the row says then.
//!
//! If we die before a record stands, the row stays `processing` until it is taken back.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use super::attempt::Attempt;
use super::persist::{GaveUp, Persisted};
use super::{Routed, Step, Worker};
use crate::db::DbError;
use crate::routing::claims::Claim;
use crate::routing::claims::in_doubt_permits::InDoubtPermit;
use crate::routing::decide::settlement::Settlement;
use crate::routing::journal;
use crate::routing::metrics::{self, SubmissionOutcome};
use crate::routing::store::{ClaimRequest, Conclusion, NextMail, RecordScope, Recorded};
use crate::routing::submission::ledger::FailReason;
use crate::routing::submission::outcome::Entries;

impl Worker {
    /// Records outcomes; with `next` also the intent of the mail that comes next, which keeps that permit.
    pub(super) async fn record(
        &self,
        attempt: &mut Attempt<'_>,
        entries: Entries,
        next: Option<InDoubtPermit>,
    ) -> Result<Persisted<Recorded>, GaveUp> {
        // Even a refusal of the record frees the permits, so that other mails are sent: the breaker or the sweep ends that.
        let permits = Mutex::new((attempt.permit.take(), next));
        let of_both = || permits.lock().unwrap_or_else(PoisonError::into_inner);
        let scope = self.scope(attempt);
        let touched = self.clock.monotonic();
        let entries = Arc::new(entries);
        let watched = self.spool.watch(scope.id, scope.token, &entries);
        let record = async || {
            let has_next = of_both().1.is_some();
            let next = has_next.then(|| NextMail { log_position: self.mails.doubts.log_position() });
            let recorded = watched.over(self.store.record_and_begin(scope, &entries, next)).await;
            let mut permits = of_both();
            permits.0 = None;
            if recorded.is_err() {
                permits.1 = None;
            }
            recorded
        };
        let at_stake = (watched.has_facts().then_some(&watched), attempt.slot.as_ref());
        let recorded = self.persist.until_recorded(attempt.claim, at_stake, &self.outages, record).await;
        match &recorded {
            Ok(Persisted { value: Recorded::NoRow, .. }) => {
                journal::no_row(attempt.claim, watched.facts());
                // A row is seldom gone, and this future large: on the heap, or every worker's would have room for it.
                Box::pin(watched.without_row(&self.store)).await;
            }
            Ok(_) => watched.recorded().await,
            Err(_) => {}
        }
        if let Ok(Persisted { value: Recorded::Continue(goes_on), .. }) = &recorded {
            attempt.claim.touched(touched);
            let begun = Some(goes_on.intents.clone()).filter(|keys| !keys.is_empty());
            attempt.intents = begun.zip(of_both().1.take());
        }
        recorded
    }

    /// Gives the submission back because a stop, a shut gate, an attachment or a wait came in between: by itself that costs
    /// no attempt, but deliveries left open before it may have (P8). Intents that stand were never followed by a send: the
    /// release removes them.
    pub(super) async fn give_back(&self, attempt: &Attempt<'_>) -> Step {
        let scope = self.scope(attempt);
        let refund = attempt.tally.is_unspent();
        self.end(attempt, || self.store.release(scope, refund)).await
    }

    /// Gives back rows that claims without an answer may have taken. Nothing was sent under such claims, so no attempt is
    /// spent; a claim that does not stand is left alone.
    ///
    /// # Errors
    /// [`DbError`]: some of the claims may or may not stand.
    pub async fn let_go(&self, unanswered: &[ClaimRequest]) -> Result<(), DbError> {
        let tried = BTreeSet::new();
        let releases = unanswered.iter().map(async |ClaimRequest { id, token }| {
            let pause = self.pauses.after(1, &self.rng);
            let scope = RecordScope { id: *id, token, tried: &tried, pause, refund: true };
            if let Recorded::Concluded(Conclusion::Released { due }) = self.store.release(scope, true).await?
            {
                journal::let_go(*id, due);
            }
            Ok(())
        });
        futures::future::join_all(releases).await.into_iter().collect()
    }

    pub(super) async fn fail(&self, attempt: &Attempt<'_>, reason: FailReason) -> Step {
        let scope = self.scope(attempt);
        self.end(attempt, || self.store.fail(scope, reason)).await
    }

    async fn end<Ending>(&self, attempt: &Attempt<'_>, end: impl Fn() -> Ending) -> Step
    where
        Ending: Future<Output = Result<Recorded, DbError>>,
    {
        let claim = attempt.claim;
        let at_stake = (None, attempt.slot.as_ref());
        Step::Ended(match Box::pin(self.persist.until_recorded(claim, at_stake, &self.outages, end)).await {
            Ok(Persisted { value: Recorded::Concluded(conclusion), .. }) => self.settle(claim, conclusion),
            Ok(Persisted { value: Recorded::Continue(_) | Recorded::Stale | Recorded::NoRow, repeated }) => {
                self.stale(claim, repeated).await
            }
            Err(gave_up) => abandon(claim, &gave_up),
        })
    }

    pub(super) async fn ended_elsewhere(&self, claim: &Claim) -> Step {
        Step::Ended(self.stale(claim, false).await)
    }

    /// Settles the event of a claim that this process has lost. The new owner of the row settles its event, if one is
    /// needed. But where an earlier try of this process failed, its commit may stand and only the answer was lost: then the
    /// row shows how the claim ended, and an end that the row does not show (a release) comes again.
    pub(super) async fn stale(&self, claim: &Claim, repeated: bool) -> Routed {
        if !repeated {
            journal::stale(claim);
            metrics::STALE_SETTLE.add((), 1);
            return Routed { settlement: Settlement::Ack, conclusion: None };
        }
        match Box::pin(self.store.ended_by(claim.id, &claim.token)).await {
            Ok(Some(conclusion)) => self.settle(claim, conclusion),
            Ok(None) | Err(_) => {
                journal::answer_lost(claim);
                Routed { settlement: Settlement::Nack, conclusion: None }
            }
        }
    }

    fn scope<'a>(&self, attempt: &'a Attempt<'_>) -> RecordScope<'a> {
        let claim = attempt.claim;
        let pause = self.pauses.after(claim.attempt, &self.rng);
        let refund = attempt.tally.refunds();
        RecordScope { id: claim.id, token: &claim.token, tried: &attempt.tried, pause, refund }
    }

    /// 7. Settle.
    pub(super) fn settle(&self, claim: &Claim, conclusion: Conclusion) -> Routed {
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

/// Ends a claim whose record was given up: the row stays `processing` until it is taken back; the event comes again.
pub(super) fn abandon(claim: &Claim, gave_up: &GaveUp) -> Routed {
    journal::gave_up(claim, gave_up.facts, &gave_up.error);
    Routed { settlement: Settlement::Nack, conclusion: None }
}
