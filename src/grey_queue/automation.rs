//! A remedy's course: carried out once for each attempt, then looked at until evidence is sufficient, a new failure shows, or
//! the time is over.
//!
//! The entry is the job; between two looks nobody has a lease. A look is no attempt: only a new failure, a refusal and the
//! end of the time are. While routing is held up (the gate), nothing is looked at, and that time does not count. If we die in
//! the middle, the lease runs out; the remedy and its mark on the entry are one transaction.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::commands::Subjects;
use super::decide::resolution;
use super::entry::Job;
use super::metrics::{REMEDIES, RemedyOutcome};
use super::store::GreyQueueStore;
use super::table::{Command, GreyQueue};
use crate::db::DbError;
use crate::kernel::jobs::retries::Ending;
use crate::kernel::jobs::works::Work;
use crate::kernel::rows::Row;
use crate::kernel::subject::{Looked, OnAccount, Remedied, Remedy, Subject};
use crate::scrub::scrub;

/// Shortest and longest pause between two looks; a pause grows with the time since the remedy.
const LOOKS: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(600));
/// A look that comes later than this was kept from its time.
const LATE: Duration = Duration::from_secs(60);
/// Pause after a fault of the database.
const REST: Duration = Duration::from_secs(30);

/// The work of an entry whose remedy is under way.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The entries.
    pub store: GreyQueueStore,
    /// The rooms that own subjects.
    pub subjects: Subjects,
    /// The daemon's name in records.
    pub actor: Arc<str>,
    /// Longest wait for evidence.
    pub evidence_timeout: Duration,
}

/// What a look at a subject means for the attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Means {
    /// Evidence is sufficient.
    Success(super::entry::Resolution),
    /// Nothing yet: again after a pause.
    Wait(Duration),
    /// The attempt has failed.
    Failure(String),
    /// The subject is gone.
    Over,
}

/// Pure. `since`: time since the remedy was carried out.
fn means(looked: &Looked, remedy: Remedy, since: Duration, timeout: Duration) -> Means {
    match looked {
        Looked::Sufficient(evidence) => Means::Success(resolution(*evidence)),
        Looked::Gone => Means::Over,
        Looked::Missing { what, failure: Some(_), .. } => Means::Failure(what.join("; ")),
        Looked::Missing { what, failure: None, .. } if remedy == Remedy::Check => {
            Means::Failure(what.join("; "))
        }
        Looked::Missing { what, failure: None, .. } if since >= timeout => Means::Failure(format!(
            "no evidence within {}: {}",
            humantime::format_duration(timeout),
            what.join("; ")
        )),
        Looked::Missing { failure: None, .. } => Means::Wait((since / 2).clamp(LOOKS.0, LOOKS.1)),
    }
}

impl Work for Attempt {
    type Of = GreyQueue;

    fn run<'a>(&'a self, row: &'a Row<GreyQueue>) -> BoxFuture<'a, Ending<GreyQueue>> {
        async move {
            self.course(row).await.unwrap_or_else(|error| {
                tracing::warn!(entry = %row.id, "the entry cannot be looked at now: {}", scrub(&error.to_string()));
                Ending::After(REST)
            })
        }
        .boxed()
    }
}

impl Attempt {
    async fn course(&self, row: &Row<GreyQueue>) -> Result<Ending<GreyQueue>, DbError> {
        let (entry, Some(token)) = (&row.columns, row.token) else { return Ok(Ending::AtOnce) };
        let (Some(job), Some(room)) = (&entry.job, self.subjects.of(&entry.subject.kind)) else {
            return Ok(Ending::After(LOOKS.1));
        };
        let Some(carried_out_at) = job.carried_out_at else {
            return Ok(match self.carry_out(row, token, job, room.as_ref()).await? {
                Carried::Out => Ending::After(LOOKS.0),
                Carried::Refused(why) => failed(job, why),
                Carried::Lost => Ending::AtOnce,
            });
        };
        let now =
            self.store.pool().transaction("grey_queue_now", async |tx| self.store.now(&tx).await).await?;
        let gap = elapsed(job.next_at, now);
        if gap >= LATE {
            self.store.forgive(row.id, token, gap).await?;
        }
        let since =
            elapsed(carried_out_at, now).saturating_sub(if gap >= LATE { gap } else { Duration::ZERO });
        let looked = room.look(entry.subject.id).await?;
        Ok(match means(&looked, job.remedy, since, self.evidence_timeout) {
            Means::Success(how) => {
                let by = job.requested_by.as_deref().unwrap_or(&self.actor);
                let columns = Some(json!({"resolution": how, "resolved_by": by}));
                Ending::Done { command: Command::Succeed, to: None, columns }
            }
            Means::Wait(pause) => Ending::After(pause),
            Means::Failure(why) => failed(job, why),
            Means::Over => {
                Ending::GivenUp { why: "retention has emptied its subject".to_owned(), columns: None }
            }
        })
    }

    /// Carries the remedy out, and marks it on the entry, in one transaction.
    async fn carry_out(
        &self,
        row: &Row<GreyQueue>,
        token: Uuid,
        job: &Job,
        room: &dyn Subject,
    ) -> Result<Carried, DbError> {
        let (subject, version) = (row.columns.subject.id, row.version.unwrap_or_default());
        let review = format!("{}:{version}", row.id);
        // One delivery alone was forced when it was asked for; another attempt sends what is open.
        let remedy = if job.remedy == Remedy::ForceDelivery { Remedy::Replay } else { job.remedy };
        let carried = self
            .store
            .pool()
            .transaction("grey_queue_remedy", async |tx| {
                room.lock(&tx, subject).await?;
                if !self.store.carried_out(&tx, row.id, token).await? {
                    return Ok(Carried::Lost);
                }
                if remedy == Remedy::Check {
                    return Ok(Carried::Out);
                }
                let reason = "the review's policy";
                let account = OnAccount { actor: &self.actor, reason, review: &review, delivery: None };
                Ok(match room.remedy(&tx, subject, remedy, account).await? {
                    Remedied::Done => Carried::Out,
                    // The mark stands as well: this attempt is over.
                    Remedied::Refused(why) => Carried::Refused(why),
                })
            })
            .await?;
        match &carried {
            Carried::Out => REMEDIES.add(RemedyOutcome::Tried, 1),
            Carried::Refused(_) => REMEDIES.add(RemedyOutcome::Refused, 1),
            Carried::Lost => {}
        }
        Ok(carried)
    }
}

/// Whoever asked has the entry again; what the policy began is tried again.
fn failed(job: &Job, why: String) -> Ending<GreyQueue> {
    if let Some(asker) = &job.requested_by {
        let columns = json!({"assignee": asker, "requested_by": null, "why": why});
        return Ending::Done { command: Command::HandOver, to: None, columns: Some(columns) };
    }
    Ending::Failed { why, columns: Some(json!({"remedied_at": null})) }
}

enum Carried {
    Out,
    Refused(String),
    /// The lease is another's.
    Lost,
}

fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grey_queue::entry::Resolution;
    use crate::kernel::subject::Evidence;

    #[test]
    fn evidence_a_new_failure_and_the_end_of_the_time_end_an_attempt_and_nothing_else_does() {
        let missing = |failure: Option<&str>| Looked::Missing {
            what: vec!["1 of 2 deliveries is not reported yet".to_owned()],
            failure: failure.map(ToOwned::to_owned),
            mendable: true,
        };
        let (hour, timeout) = (Duration::from_secs(3600), Duration::from_secs(6 * 3600));
        let of = |looked: &Looked, remedy, since| means(looked, remedy, since, timeout);
        let sufficient = Looked::Sufficient(Evidence::Routed);
        assert_eq!(of(&sufficient, Remedy::Replay, hour), Means::Success(Resolution::Routed));
        assert_eq!(of(&sufficient, Remedy::Check, Duration::ZERO), Means::Success(Resolution::Routed));
        assert_eq!(of(&missing(None), Remedy::Replay, Duration::ZERO), Means::Wait(LOOKS.0));
        assert_eq!(
            of(&missing(None), Remedy::Replay, hour),
            Means::Wait(LOOKS.1),
            "pauses grow to their longest"
        );
        assert!(
            matches!(of(&missing(None), Remedy::Replay, timeout), Means::Failure(why) if why.contains("within 6h"))
        );
        assert!(
            matches!(of(&missing(None), Remedy::Check, Duration::ZERO), Means::Failure(_)),
            "a check only looks"
        );
        assert!(matches!(of(&missing(Some("t")), Remedy::Replay, Duration::ZERO), Means::Failure(_)));
        assert_eq!(of(&Looked::Gone, Remedy::Replay, Duration::ZERO), Means::Over);
    }
}
