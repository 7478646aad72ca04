//! The outbox's upkeep beside its delivery: removes old rows, measures waiting ones, and notifies people when nobody
//! delivers. Each process runs one, whatever its source, and whether an outbox exists yet or not: spawn [`Upkeep::run`]
//! beside the routing, anew when `every` or `keep` change.
//!
//! If we die, rows stay a little longer and nobody is notified; another process does the same. Upkeep never delivers
//! anything, and never touches a row that is not over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::journal::EventName;
use super::store::OutboxStore;
use super::table::State;
use super::{card, metrics};
use crate::db::DbError;
use crate::journal;
use crate::kernel::rows;
use crate::ops::incident::{Incident, Incidents};
use crate::ports::Clock;
use crate::scrub::scrub;

/// Number and age of the rows in a state of the outbox.
type Depth = rows::Depth<State>;

/// Rows removed in one transaction.
const PAGE: usize = 1000;
/// Transactions of one pass; the next pass continues.
const PAGES: usize = 100;
/// Time for which the topic may be away before people are notified.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time for which a row may be due before people are notified.
const OVERDUE: Duration = Duration::from_secs(5 * 60);

/// Whether nothing is delivered on purpose at present: routing is paused, or what it depends on is down.
pub type OnPurpose = Box<dyn Fn() -> bool + Send + Sync>;

/// The parts of the upkeep.
pub struct Upkeep {
    /// The rows.
    pub store: OutboxStore,
    /// Time between two looks.
    pub every: Duration,
    /// Time for which delivered rows are kept.
    pub keep: Duration,
    /// The clock of looks and patience.
    pub clock: Arc<dyn Clock>,
    /// The open incidents, from which people are notified.
    pub incidents: Incidents,
    /// Health of this process's relay, where it has one ([`Relay::reporting_to`](super::relay::Relay::reporting_to)).
    pub relay: Option<watch::Receiver<Option<String>>>,
    /// Asked where the rows go to the routing of this process and to no topic.
    pub on_purpose: OnPurpose,
}

/// The known state of the delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Seen<'a> {
    /// Why nothing can be published, and for how long that has lasted.
    down: Option<(&'a str, Duration)>,
    /// Time for which the longest-waiting row has been due.
    overdue: Duration,
    /// Number of waiting rows.
    waiting: u64,
    /// Nothing is delivered, on purpose.
    on_purpose: bool,
}

/// Returns the incident that follows, if any. Pure.
fn trouble(seen: Seen<'_>) -> Option<Incident> {
    let what = match seen.down {
        Some((why, lasts)) if lasts >= PATIENCE => {
            format!("events wait in the outbox: they cannot be published ({why}); nothing is lost")
        }
        Some(_) => return None,
        None if seen.on_purpose || seen.overdue < OVERDUE => return None,
        None => format!(
            "events wait in the outbox: {} are to be delivered, the first of them for {} min, and nobody does; nothing is \
             lost",
            seen.waiting,
            seen.overdue.as_secs() / 60
        ),
    };
    let commands = ["maple-router status", "maple-router check"];
    Some(Incident::new(card::STALLED, what, &commands).advising(
        "submissions are routed all the same, by the sweep, a quarter of an hour late; what waits is delivered when it can be",
    ))
}

impl Upkeep {
    /// Runs until `stop`.
    pub async fn run(mut self, stop: &CancellationToken) {
        // A stop leaves incidents open for the next process.
        stop.run_until_cancelled(self.keep_up()).await;
    }

    async fn keep_up(&mut self) {
        let clock = Arc::clone(&self.clock);
        let (mut look_at, mut down_since) = (clock.monotonic(), None);
        let (mut waits, mut said) = ((0, Duration::ZERO), false);
        loop {
            if clock.monotonic() >= look_at {
                look_at = clock.monotonic() + self.every;
                match self.look().await {
                    Ok(depths) => {
                        said = false;
                        waits = waiting(&depths);
                    }
                    // The database's own incident reports that it is away.
                    Err(error) => {
                        if !std::mem::replace(&mut said, true) {
                            tracing::warn!("the outbox cannot be looked at: {}", scrub(&error.to_string()));
                        }
                    }
                }
            }
            let now = clock.monotonic();
            let why = self.relay.as_mut().and_then(|relay| relay.borrow_and_update().clone());
            let since = why.as_ref().map(|_| down_since.unwrap_or(now));
            down_since = since;
            self.tell(Seen {
                down: why.as_deref().zip(since.map(|since| now.saturating_duration_since(since))),
                overdue: waits.1,
                waiting: waits.0,
                on_purpose: (self.on_purpose)(),
            });
            let notified_at = since.map(|since| since + PATIENCE).filter(|at| *at > now);
            let next = notified_at.map_or(look_at, |at| at.min(look_at));
            tokio::select! {
                () = clock.sleep(until(next, clock.monotonic())) => {}
                changed = changed(&mut self.relay) => if !changed { self.relay = None },
            }
        }
    }

    /// Removes old rows, and measures the rest.
    async fn look(&self) -> Result<Vec<Depth>, DbError> {
        if !self.store.is_there().await? {
            metrics::OPEN.iter().for_each(|state| metrics::depth(*state, 0, Duration::ZERO));
            return Ok(Vec::new());
        }
        let depths = self.store.depths().await?;
        for depth in &depths {
            metrics::depth(depth.state, depth.count, depth.oldest);
        }
        for _ in 0..PAGES {
            let page = u64::try_from(PAGE).unwrap_or(u64::MAX);
            if self.store.prune(self.keep, PAGE).await? < page {
                break;
            }
        }
        Ok(depths)
    }

    fn tell(&self, seen: Seen<'_>) {
        match trouble(seen) {
            Some(incident) => {
                if !self.incidents.keys().contains(&card::STALLED) {
                    journal!(
                        error,
                        EventName::OutboxStalled,
                        rows = seen.waiting,
                        overdue_s = seen.overdue.as_secs(),
                        "{}",
                        incident.what
                    );
                }
                self.incidents.raise(incident);
            }
            None if self.incidents.keys().contains(&card::STALLED) => {
                journal!(info, EventName::OutboxFlowing, "what waited in the outbox is delivered again");
                self.incidents.resolve(card::STALLED);
            }
            None => {}
        }
    }
}

/// Returns the number of waiting rows, and how long the first of them has been due.
fn waiting(depths: &[Depth]) -> (u64, Duration) {
    let waits = |depth: &&Depth| matches!(depth.state, State::Pending | State::RetryWait);
    let waiting = depths.iter().filter(waits);
    waiting
        .fold((0, Duration::ZERO), |(count, oldest), depth| (count + depth.count, oldest.max(depth.oldest)))
}

fn until(at: Instant, now: Instant) -> Duration {
    at.saturating_duration_since(now)
}

/// Resolves when the relay's health changes; `false` when it never will again.
async fn changed(relay: &mut Option<watch::Receiver<Option<String>>>) -> bool {
    match relay {
        Some(relay) => relay.changed().await.is_ok(),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_when_nothing_moves_that_should() {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        let down = |seconds| Some(("NOT_FOUND: no such topic", Duration::from_secs(seconds)));
        let cases = [
            ("nothing waits", Seen::default(), None),
            ("a blink", Seen { down: down(29), ..Seen::default() }, None),
            ("the topic is away", Seen { down: down(30), ..Seen::default() }, Some("NOT_FOUND")),
            (
                "also while paused",
                Seen { down: down(30), on_purpose: true, ..Seen::default() },
                Some("NOT_FOUND"),
            ),
            ("a backlog", Seen { waiting: 9, overdue: minutes(4), ..Seen::default() }, None),
            (
                "nobody delivers",
                Seen { waiting: 9, overdue: minutes(6), ..Seen::default() },
                Some("9 are to be"),
            ),
            ("paused", Seen { waiting: 9, overdue: minutes(6), on_purpose: true, ..Seen::default() }, None),
        ];
        for (case, seen, expected) in cases {
            let found = trouble(seen);
            assert_eq!(found.is_some(), expected.is_some(), "{case}");
            assert!(found.is_none_or(|found| found.what.contains(expected.unwrap_or_default())), "{case}");
        }
    }

    #[test]
    fn what_is_being_delivered_or_given_up_on_does_not_wait() {
        let depth = |state, count, seconds| Depth { state, count, oldest: Duration::from_secs(seconds) };
        let depths = [
            depth(State::Pending, 3, 10),
            depth(State::Delivering, 5, 900),
            depth(State::RetryWait, 2, 20),
            depth(State::DeadLetter, 7, 9000),
        ];
        assert_eq!(waiting(&depths), (5, Duration::from_secs(20)));
    }
}
