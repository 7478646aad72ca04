//! Grading as the review sees it: an attempt that waits for a person's grade, one that failed, and a message that nobody could take in.
//!
//! A grade is given before its entry is resolved, in the same transaction, the attempt locked before the entry. If we die before the commit nothing
//! happened.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use uuid::Uuid;

use super::store::GradingStore;
use super::store::people::Regraded;
use super::table::State;
use crate::db::DbError;
use crate::db::pool::Transaction;
use crate::kernel::subject::{Deciding, Decision, Evidence, Looked, OnAccount, Remedied, Remedy, Subject};

/// The kind of attempts that people grade.
pub const ATTEMPT: &str = "assessment";
/// The kind of attempts that failed.
pub const FAILED: &str = "assessment_failed";
/// The kind of messages that nobody could take in.
pub const MESSAGE: &str = "grading_message";

/// The attempts that wait for people.
#[derive(Debug, Clone)]
pub struct AttemptSubject {
    /// The attempts, as the daemon's role.
    pub store: GradingStore,
}

impl Subject for AttemptSubject {
    fn kind(&self) -> &'static str {
        ATTEMPT
    }

    fn remedies(&self) -> &'static [Remedy] {
        &[]
    }

    fn deciding(&self) -> Option<Deciding> {
        Some(Deciding { four_eyes: false })
    }

    fn look(&self, id: Uuid) -> BoxFuture<'_, Result<Looked, DbError>> {
        async move {
            let Some(found) = self.store.one(id).await? else { return Ok(Looked::Gone) };
            if found.attempt.closed_at.is_some() {
                return Ok(Looked::Gone);
            }
            if found.state != State::ReviewPending.label() {
                return Ok(Looked::Sufficient(Evidence::Routed));
            }
            let mut what = vec![format!("a person's grade of {}", found.attempt.skill)];
            what.extend(found.attempt.confidence.map(|sure| format!("the grader is sure to {sure} of 100")));
            Ok(Looked::Missing { what, failure: None, mendable: false })
        }
        .boxed()
    }

    fn lock<'a>(&'a self, tx: &'a Transaction, id: Uuid) -> BoxFuture<'a, Result<(), DbError>> {
        self.store.lock_attempt(tx, id).boxed()
    }

    fn remedy<'a>(
        &'a self,
        _: &'a Transaction,
        _: Uuid,
        remedy: Remedy,
        _: OnAccount<'a>,
    ) -> BoxFuture<'a, Result<Remedied, DbError>> {
        async move { Ok(Remedied::Refused(format!("a person's grade has no remedy {remedy}"))) }.boxed()
    }

    fn decide<'a>(
        &'a self,
        tx: &'a Transaction,
        id: Uuid,
        decision: Decision,
        _: OnAccount<'a>,
    ) -> BoxFuture<'a, Result<Remedied, DbError>> {
        async move {
            let Some(held) = self.store.held_attempt(tx, id).await? else {
                return Ok(Remedied::Refused("there is no such attempt".to_owned()));
            };
            Ok(match decision {
                // Somebody else looks; the attempt waits as before.
                Decision::Escalate => Remedied::Done,
                Decision::Approve if held.state == State::Completed => Remedied::Done,
                Decision::Approve => Remedied::Refused(
                    "a review ends with a grade: give one on this entry's page, or by POST /api/assessments/ID/review".to_owned(),
                ),
                Decision::Reject => Remedied::Refused(
                    "a grade is owed whatever was handed in: give one, or let the mail go without it (grading release)".to_owned(),
                ),
            })
        }
        .boxed()
    }
}

/// The attempts that failed.
#[derive(Debug, Clone)]
pub struct FailedSubject {
    /// The attempts, as the daemon's role.
    pub store: GradingStore,
}

impl Subject for FailedSubject {
    fn kind(&self) -> &'static str {
        FAILED
    }

    fn remedies(&self) -> &'static [Remedy] {
        &[Remedy::Check, Remedy::Redrive]
    }

    fn look(&self, id: Uuid) -> BoxFuture<'_, Result<Looked, DbError>> {
        async move {
            let Some(failed) = self.store.one(id).await? else { return Ok(Looked::Gone) };
            // The latest attempt at the same submission counts.
            let latest = self.store.one(failed.attempt.subject).await?.unwrap_or(failed);
            if latest.attempt.closed_at.is_some() {
                return Ok(Looked::Gone);
            }
            if latest.state == State::Completed.label() || latest.attempt.released_at.is_some() {
                return Ok(Looked::Sufficient(Evidence::Redriven));
            }
            let (what, mendable) = match &latest.attempt.failed_reason {
                Some(reason) => {
                    (format!("attempt {} failed ({reason}): a grade is owed", latest.attempt.attempt), true)
                }
                None => (format!("attempt {} goes on ({})", latest.attempt.attempt, latest.state), false),
            };
            let failure = mendable.then(|| latest.id.to_string());
            Ok(Looked::Missing { what: vec![what], failure, mendable })
        }
        .boxed()
    }

    fn lock<'a>(&'a self, tx: &'a Transaction, id: Uuid) -> BoxFuture<'a, Result<(), DbError>> {
        self.store.lock_attempt(tx, id).boxed()
    }

    fn remedy<'a>(
        &'a self,
        tx: &'a Transaction,
        id: Uuid,
        remedy: Remedy,
        account: OnAccount<'a>,
    ) -> BoxFuture<'a, Result<Remedied, DbError>> {
        async move {
            match remedy {
                Remedy::Check => Ok(Remedied::Done),
                Remedy::Redrive => {
                    let Some(held) = self.store.held_attempt(tx, id).await? else {
                        return Ok(Remedied::Refused("there is no such attempt".to_owned()));
                    };
                    let account = (account.actor, account.reason);
                    let (answer, _) = self.store.regrade(tx, held.subject, account).await?;
                    Ok(match answer {
                        Regraded::Done => Remedied::Done,
                        Regraded::Unknown
                        | Regraded::Purged
                        | Regraded::Ungraded
                        | Regraded::Open
                        | Regraded::Graded => Remedied::Refused(format!(
                            "no other attempt can be opened ({answer}): `grading show` tells"
                        )),
                    })
                }
                Remedy::Replay | Remedy::Replan | Remedy::ForceDelivery | Remedy::Release => {
                    Ok(Remedied::Refused(format!("a failed grading has no remedy {remedy}")))
                }
            }
        }
        .boxed()
    }
}

/// The messages that nobody could take in.
#[derive(Debug, Clone)]
pub struct MessageSubject;

impl Subject for MessageSubject {
    fn kind(&self) -> &'static str {
        MESSAGE
    }

    fn remedies(&self) -> &'static [Remedy] {
        &[]
    }

    fn look(&self, _: Uuid) -> BoxFuture<'_, Result<Looked, DbError>> {
        let what = "whoever sent this message has to be mended: `grading messages --dead` says what is wrong with it; then dismiss this entry";
        async move { Ok(Looked::Missing { what: vec![what.to_owned()], failure: None, mendable: false }) }
            .boxed()
    }

    fn lock<'a>(&'a self, _: &'a Transaction, _: Uuid) -> BoxFuture<'a, Result<(), DbError>> {
        async move { Ok(()) }.boxed()
    }

    fn remedy<'a>(
        &'a self,
        _: &'a Transaction,
        _: Uuid,
        remedy: Remedy,
        _: OnAccount<'a>,
    ) -> BoxFuture<'a, Result<Remedied, DbError>> {
        async move { Ok(Remedied::Refused(format!("a dead message has no remedy {remedy}"))) }.boxed()
    }
}
