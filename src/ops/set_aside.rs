//! Rows set aside (protocol, "Rows set aside"): they refuse a write which all others of their batch take. A writer of
//! batches leaves them out during their pause, tries them again after it, and reports the result here.
//!
//! In memory: if we die, the next process meets the same rows, and reports them anew. This module never writes to a row
//! itself, never waits, and stores nothing of a row but its id, and the name of what refused it.

mod rows;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use rows::Rows;
pub use rows::Writing;

use super::incident::{Incident, IncidentKey, Incidents};
use super::telemetry::EventName;
use crate::journal;
use crate::kernel::metric::Gauge;
use crate::ports::Clock;

/// Incident: rows refuse a write that all others take.
pub const SET_ASIDE: IncidentKey = IncidentKey::new("set_aside");
/// Number of submissions set aside.
pub static ROWS_SET_ASIDE: Gauge = Gauge::new(
    "maple_router_rows_set_aside",
    "Submissions that refuse a write which all others take: left for a while, and tried again",
);

/// A row that refused its write, and the culprit: SQLSTATE, constraint, function; nothing of the row.
pub type Refusal = (Uuid, String);

/// The rows set aside of one process. Cheap to clone: all clones are the same.
#[derive(Debug, Clone)]
pub struct SetAside {
    rows: Arc<Mutex<Rows>>,
    clock: Arc<dyn Clock>,
    incidents: Option<Incidents>,
}

impl SetAside {
    /// No rows yet. `incidents` reports them; absent where nobody is notified.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, incidents: Option<Incidents>) -> Self {
        Self { rows: Arc::default(), clock, incidents }
    }

    /// Returns whether the row's pause is not over.
    #[must_use]
    pub fn is_resting(&self, writing: Writing, id: Uuid) -> bool {
        self.rows().is_resting(writing, id, self.clock.monotonic())
    }

    /// Returns the rest of the row's pause; none where the row may be tried now.
    #[must_use]
    pub fn rests_for(&self, writing: Writing, id: Uuid) -> Option<Duration> {
        self.rows().rests_for(writing, id, self.clock.monotonic())
    }

    /// Returns the rows in their pause, in order.
    #[must_use]
    pub fn resting(&self, writing: Writing) -> Vec<Uuid> {
        self.rows().resting(writing, self.clock.monotonic())
    }

    /// Records the result of a batch: some rows `took` their write, others refused it.
    pub fn note(&self, writing: Writing, took: impl IntoIterator<Item = Uuid>, refused: &[Refusal]) {
        let now = self.clock.monotonic();
        let (mut over, mut new) = (Vec::new(), Vec::new());
        let aside = {
            let mut rows = self.rows();
            if rows.count() == 0 && refused.is_empty() {
                return;
            }
            over.extend(took.into_iter().filter(|id| rows.took(writing, *id)));
            for (id, why) in refused {
                if let Some((pause, true)) = rows.refused(writing, *id, now) {
                    new.push((*id, why, pause));
                }
            }
            rows.tend(now);
            rows.count()
        };
        over.into_iter().for_each(|id| taken(writing, id));
        new.iter().for_each(|(id, why, pause)| left(writing, *id, why, *pause));
        self.tell(aside, refused.first().map(|(id, why)| (writing, *id, why.as_str())));
    }

    /// Forgets rows that were not tried again for long; called now and then.
    pub fn tend(&self) {
        let aside = {
            let mut rows = self.rows();
            rows.tend(self.clock.monotonic());
            rows.count()
        };
        self.tell(aside, None);
    }

    /// Keeps one incident open as long as any row is set aside; the metric has their number.
    fn tell(&self, aside: usize, sample: Option<(Writing, Uuid, &str)>) {
        ROWS_SET_ASIDE.set((), aside);
        let Some(incidents) = &self.incidents else { return };
        if aside == 0 {
            incidents.resolve(SET_ASIDE);
        } else if let Some((writing, id, why)) = sample {
            incidents.raise(incident(aside, writing, id, why));
        }
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the incident for people. Pure.
fn incident(aside: usize, writing: Writing, id: Uuid, why: &str) -> Incident {
    let rows = if aside == 1 { "1 submission is".to_owned() } else { format!("{aside} submissions are") };
    let what = format!(
        "{rows} set aside, because the database refuses a write ({why}): of {id}, {}; all others go on, and what is set \
         aside is tried again, at last every 10 min",
        writing.what()
    );
    let explain = format!("maple-router explain {id}");
    Incident::new(SET_ASIDE, what, &[&explain])
        .advising("a constraint or a trigger keeps forms_app from these rows: mend it, or the row; nothing else is to be done")
}

fn left(writing: Writing, id: Uuid, why: &str, pause: Duration) {
    journal!(
        error,
        EventName::SetAside,
        submission_id = %id,
        "set aside, because {}: the database refuses it ({why}); it is tried again in {} s, then less and less often, and the \
         others go on",
        writing.what(),
        pause.as_secs()
    );
}

fn taken(writing: Writing, id: Uuid) {
    journal!(
        info,
        EventName::WrittenAfterAll,
        submission_id = %id,
        "set aside no longer, it was because {}: now it is written",
        writing.what()
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::clock::SystemClock;

    #[test]
    fn people_are_told_once_and_of_the_end_when_the_last_row_takes_its_write() {
        let (incidents, mut seen) = Incidents::new();
        let aside = SetAside::new(Arc::new(SystemClock), Some(incidents));
        let rows: Vec<Uuid> = (1..=3).map(Uuid::from_u128).collect();
        let refused = |id: Uuid| (id, "SQLSTATE 23514, constraint c".to_owned());
        aside.note(Writing::DeliveryStatus, [], &[]);
        aside.note(Writing::DeliveryStatus, [rows[2]], &[refused(rows[0]), refused(rows[1])]);
        let raised = seen.borrow_and_update()[&SET_ASIDE].clone();
        assert!(raised.what.starts_with("2 submissions are set aside"), "{}", raised.what);
        assert!(
            raised.what.contains("constraint c") && raised.what.contains(&rows[0].to_string()),
            "{}",
            raised.what
        );
        assert_eq!(raised.commands, [format!("maple-router explain {}", rows[0])]);
        aside.note(Writing::Claim, [], &[refused(rows[0])]);
        aside.note(Writing::DeliveryStatus, [rows[0]], &[]);
        assert!(!seen.has_changed().unwrap(), "it cannot be claimed still");
        aside.note(Writing::Claim, [rows[0]], &[]);
        assert!(!aside.clone().resting(Writing::DeliveryStatus).is_empty());
        aside.note(Writing::DeliveryStatus, [rows[1]], &[]);
        assert!(seen.borrow_and_update().is_empty());
    }
}
