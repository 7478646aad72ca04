//! Screening as the review sees it: a run that people decide about, and a job that was given up on.
//!
//! A run's entry is its own last word: to escalate, resolve or reject it is the run's transition, in the same transaction, the run locked
//! before the entry. If we die before the commit nothing happened.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use uuid::Uuid;

use super::store::ScreeningStore;
use super::store::people::Decided;
use super::table::{ADMIN, Command, Screening, State};
use crate::db::DbError;
use crate::db::pool::Transaction;
use crate::kernel::Transition;
use crate::kernel::subject::{Deciding, Decision, Evidence, Looked, OnAccount, Remedied, Remedy, Subject};

/// The kind of runs that people decide about.
pub const RUN: &str = "screening_run";
/// The kind of jobs that were given up on.
pub const JOB: &str = "screening_job";

/// The runs that wait for people.
#[derive(Debug, Clone)]
pub struct RunSubject {
    /// The runs, as the daemon's role.
    pub store: ScreeningStore,
    /// Whether whoever escalated may approve.
    pub four_eyes: bool,
}

impl Subject for RunSubject {
    fn kind(&self) -> &'static str {
        RUN
    }

    fn remedies(&self) -> &'static [Remedy] {
        &[]
    }

    fn deciding(&self) -> Option<Deciding> {
        Some(Deciding { four_eyes: self.four_eyes })
    }

    fn look(&self, id: Uuid) -> BoxFuture<'_, Result<Looked, DbError>> {
        async move {
            let Some(found) = self.store.one(id).await? else { return Ok(Looked::Gone) };
            if found.run.closed_at.is_some() {
                return Ok(Looked::Gone);
            }
            let doubts = match found.run.score {
                Some(score) => format!("the judge's score is {score}"),
                None => "no verdict was to be had".to_owned(),
            };
            let bars = found.run.bars.iter().map(|bar| format!("barred from approval: {bar}"));
            let what = std::iter::once(doubts).chain(bars).collect();
            Ok(Looked::Missing { what, failure: None, mendable: false })
        }
        .boxed()
    }

    fn lock<'a>(&'a self, tx: &'a Transaction, id: Uuid) -> BoxFuture<'a, Result<(), DbError>> {
        self.store.lock_run(tx, id).boxed()
    }

    fn remedy<'a>(
        &'a self,
        _: &'a Transaction,
        _: Uuid,
        remedy: Remedy,
        _: OnAccount<'a>,
    ) -> BoxFuture<'a, Result<Remedied, DbError>> {
        let refused = Remedied::Refused(format!("a screening run has no remedy {remedy}: a person decides"));
        async move { Ok(refused) }.boxed()
    }

    fn decide<'a>(
        &'a self,
        tx: &'a Transaction,
        id: Uuid,
        decision: Decision,
        account: OnAccount<'a>,
    ) -> BoxFuture<'a, Result<Remedied, DbError>> {
        async move {
            let Some(held) = self.store.hold_run(tx, id).await? else {
                return Ok(Remedied::Refused("there is no such run".to_owned()));
            };
            if !held.may_decide {
                return Ok(Remedied::Refused(
                    "the database role of the desk may not decide about screening: set [desk] database_url to that of maple_desk (rb-014)"
                        .to_owned(),
                ));
            }
            let edge = match edge(held.state, decision) {
                Ok(edge) => edge,
                Err(why) => return Ok(Remedied::Refused(why)),
            };
            let decided = self.store.decide(tx, (id, held.version), edge, (account.actor, account.reason)).await?;
            Ok(match decided {
                Decided::Done => Remedied::Done,
                Decided::Changed => Remedied::Refused(
                    "the submission is not what was screened: reject it, or have it screened again (screening rescreen)"
                        .to_owned(),
                ),
                Decided::Stale => Remedied::Refused("the run is not what was seen: look again".to_owned()),
                Decided::Closed => Remedied::Refused(
                    "the run is closed: its submission was emptied or ended otherwise, or another run took its place".to_owned(),
                ),
            })
        }
        .boxed()
    }
}

/// The run's own transition of a decision.
fn edge(state: State, decision: Decision) -> Result<Transition<Screening>, String> {
    let command = match (decision, state) {
        (Decision::Escalate, _) => Command::AdminEscalate,
        (Decision::Approve, _) => Command::ReviewerApprove,
        (Decision::Reject, State::Tier3Review) => Command::ReviewerReject,
        (Decision::Reject, _) => Command::AdminReject,
    };
    Transition::of(state, command, ADMIN).map_err(|refusal| refusal.to_string())
}

/// The jobs that were given up on.
#[derive(Debug, Clone)]
pub struct JobSubject {
    /// The runs, as the daemon's role.
    pub store: ScreeningStore,
}

impl Subject for JobSubject {
    fn kind(&self) -> &'static str {
        JOB
    }

    fn remedies(&self) -> &'static [Remedy] {
        &[Remedy::Check, Remedy::Redrive]
    }

    fn look(&self, id: Uuid) -> BoxFuture<'_, Result<Looked, DbError>> {
        async move {
            let Some(found) = self.store.one(id).await? else { return Ok(Looked::Gone) };
            if found.run.closed_at.is_some() {
                return Ok(Looked::Gone);
            }
            if let Some(reason) = &found.run.dead_reason {
                return Ok(Looked::Missing {
                    what: vec![format!("the job was given up on ({reason}) while {}", found.state)],
                    failure: Some(format!("{}:{}", found.state, found.run.attempt)),
                    mendable: true,
                });
            }
            if found.state == State::Published.label()
                && found.run.origin.is_some()
                && self.store.is_blocked(id).await?
            {
                let what = "a rule blocks what its trusted origin brought, and it is published: look whether the origin is to be trusted, \
                            tell whoever uses it, and dismiss this entry";
                return Ok(Looked::Missing { what: vec![what.to_owned()], failure: None, mendable: false });
            }
            if found.run.ended_at.is_some() && self.store.is_as_screened(id).await? {
                return Ok(Looked::Sufficient(Evidence::Redriven));
            }
            let what = if found.run.ended_at.is_some() {
                "the submission is not what was screened: screening rescreen has it looked at again"
                    .to_owned()
            } else {
                format!("its run goes on ({})", found.state)
            };
            Ok(Looked::Missing { what: vec![what], failure: None, mendable: false })
        }
        .boxed()
    }

    fn lock<'a>(&'a self, tx: &'a Transaction, id: Uuid) -> BoxFuture<'a, Result<(), DbError>> {
        self.store.lock_run(tx, id).boxed()
    }

    fn remedy<'a>(
        &'a self,
        tx: &'a Transaction,
        id: Uuid,
        remedy: Remedy,
        _: OnAccount<'a>,
    ) -> BoxFuture<'a, Result<Remedied, DbError>> {
        async move {
            match remedy {
                Remedy::Check => Ok(Remedied::Done),
                Remedy::Redrive => {
                    if self.store.redrive(tx, id).await? {
                        return Ok(Remedied::Done);
                    }
                    let why = "the job is not given up on, or its run is closed: `screening show` tells";
                    Ok(Remedied::Refused(why.to_owned()))
                }
                Remedy::Replay | Remedy::Replan | Remedy::ForceDelivery | Remedy::Release => {
                    Ok(Remedied::Refused(format!("a screening job has no remedy {remedy}")))
                }
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_the_edge_of_the_state_or_a_refusal() {
        let taken = |state, decision| edge(state, decision).ok().map(|edge| (edge.command(), edge.to()));
        let cases = [
            (State::NeedsReview, Decision::Escalate, Some((Command::AdminEscalate, State::Tier3Review))),
            (State::NeedsReview, Decision::Reject, Some((Command::AdminReject, State::Rejected))),
            (State::NeedsReview, Decision::Approve, None),
            (State::Tier3Review, Decision::Approve, Some((Command::ReviewerApprove, State::Published))),
            (State::Tier3Review, Decision::Reject, Some((Command::ReviewerReject, State::Rejected))),
            (State::Tier3Review, Decision::Escalate, None),
        ];
        for (state, decision, expected) in cases {
            assert_eq!(taken(state, decision), expected, "{state} {decision}");
        }
        for state in
            State::ALL.iter().filter(|state| !matches!(state, State::NeedsReview | State::Tier3Review))
        {
            for decision in Decision::ALL {
                assert_eq!(taken(*state, *decision), None, "{state} {decision}");
            }
        }
    }
}
