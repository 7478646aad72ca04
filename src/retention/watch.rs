//! The daemon's look at collection, once a minute: what runs did comes to the metrics, and people are notified of a run that failed, of
//! none for days, and of objects that somebody else removed.
//!
//! It removes nothing, and has no right to. If we die, the next look begins with what ends after it.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::card::{FAILED, LOST, OVERDUE};
use super::counts::Counts;
use super::metrics::{BLOBS, DELETES, Deletion, HOLDS, Outcome, PURGED, SINCE_RUN, Waiting};
use super::store::RetentionStore;
use super::store::watched::Standing;
use crate::db::DbError;
use crate::ops::incident::{Incident, Incidents};
use crate::ports::Clock;
use crate::scrub::scrub;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(60);
/// Time without a run after which people are notified.
const WITHOUT_A_RUN: Duration = Duration::from_secs(3 * 86_400);

/// What a look needs.
#[derive(Debug)]
pub struct RetentionWatch {
    /// The rows, as the daemon's role.
    pub store: RetentionStore,
    /// The clock of pauses.
    pub clock: Arc<dyn Clock>,
    /// Who is notified.
    pub incidents: Incidents,
}

impl RetentionWatch {
    /// Looks once a minute until `stop`, wherever 003 of schema content is there.
    pub async fn run(&self, stop: &CancellationToken) {
        let mut seen = None;
        while !stop.is_cancelled() {
            if let Ok(true) = self.store.is_there().await
                && let Err(error) = self.look(&mut seen).await
            {
                // The breaker reports a database that does not answer.
                tracing::debug!("collection is looked at again: {}", scrub(&error.to_string()));
            }
            stop.run_until_cancelled(self.clock.sleep(INTERVAL)).await;
        }
    }

    /// One look: how things stand, and runs that ended behind `seen`; nothing at the first look.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn look(&self, seen: &mut Option<i64>) -> Result<(), DbError> {
        let standing = self.store.standing().await?;
        if let Some(before) = *seen {
            for ended in self.store.ended_runs(before).await? {
                count(&Counts::read(&ended.counts));
            }
        }
        *seen = Some(standing.ended.unwrap_or_default());
        BLOBS.set(Waiting::Tombstoned, standing.tombstoned);
        BLOBS.set(Waiting::Eligible, standing.eligible);
        BLOBS.set(Waiting::Owed, standing.owed);
        HOLDS.set((), standing.holds);
        SINCE_RUN.set((), standing.since_done.unwrap_or_default());
        self.tell(&standing);
        Ok(())
    }

    fn tell(&self, standing: &Standing) {
        let status = "maple-router gc status";
        match overdue(standing) {
            Some(since) => {
                let what = format!(
                    "No run of the collector has come to its end for {}: {} blobs without a reference wait, {} deleted ones still have \
                     their object. What should be gone is still there.",
                    crate::ops::alerting::message::span(since),
                    standing.tombstoned,
                    standing.owed
                );
                self.incidents.raise(Incident::new(
                    OVERDUE,
                    what,
                    &[status, "systemctl status maple-router-gc.timer"],
                ));
            }
            None => self.incidents.resolve(OVERDUE),
        }
        match (&standing.trouble, standing.ended) {
            (Some(trouble), Some(run)) => {
                let what = format!(
                    "Run {run} of the collector ended early: {}. Nothing is lost; the next run goes on from there.",
                    scrub(trouble)
                );
                self.incidents.raise(Incident::new(
                    FAILED,
                    what,
                    &[status, "journalctl -u maple-router-gc -n 50"],
                ));
            }
            _ => self.incidents.resolve(FAILED),
        }
        match standing.lost_sample {
            Some(blob) => {
                let what = format!(
                    "{} objects were gone, or others had their names, when the collector came to delete them: somebody else removes or \
                     writes objects. One of them: blob {blob}.",
                    standing.lost
                );
                let commands = ["maple-router gc reconcile"];
                self.incidents.raise(Incident::new(LOST, what, &commands));
            }
            None => self.incidents.resolve(LOST),
        }
    }
}

/// For how long no run has come to its end, where that is too long. A schema without a run yet has nobody who runs one: it counts from
/// the first deadline that has passed.
fn overdue(standing: &Standing) -> Option<Duration> {
    let since = match (standing.since_done, standing.since_first) {
        (Some(done), _) => done,
        (None, Some(first)) => first,
        (None, None) => standing.overdue,
    };
    (since >= WITHOUT_A_RUN).then_some(since)
}

fn count(counts: &Counts) {
    PURGED.add(Outcome::Purged, counts.purged);
    PURGED.add(Outcome::Kept, counts.kept.values().sum());
    PURGED.add(Outcome::Refused, counts.refused);
    DELETES.add(Deletion::Deleted, counts.deleted);
    DELETES.add(Deletion::Missing, counts.missing);
    DELETES.add(Deletion::Replaced, counts.replaced);
    DELETES.add(Deletion::Failed, counts.failed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_without_a_run_are_too_many_whether_or_not_there_ever_was_one() {
        let days = |n: u64| Duration::from_secs(n * 86_400);
        let quiet = Standing::default();
        assert_eq!(overdue(&quiet), None, "nothing is to be collected, and nobody collects");
        assert_eq!(overdue(&Standing { overdue: days(4), ..quiet.clone() }), Some(days(4)));
        assert_eq!(overdue(&Standing { since_first: Some(days(3)), ..quiet.clone() }), Some(days(3)));
        let ran =
            Standing { since_done: Some(days(2)), since_first: Some(days(90)), overdue: days(9), ..quiet };
        assert_eq!(overdue(&ran), None);
        assert_eq!(overdue(&Standing { since_done: Some(days(3)), ..ran }), Some(days(3)));
    }
}
