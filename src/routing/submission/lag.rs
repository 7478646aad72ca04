//! People's waiting time: from a submission's readiness to its end, the metric `routing_lag_seconds` and the service
//! level computed from it. For measuring only: no decision depends on it.

use jiff::Timestamp;
use serde_json::Value;

use super::ledger::Ledger;

/// Known instants of a submission's waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waiting {
    /// Time of readiness: known where there are no attachments.
    pub ready_at: Option<Timestamp>,
    /// Time of submission.
    pub created_at: Option<Timestamp>,
    /// Time at which an operator last had it routed again, by a replay or a back-fill.
    pub replayed_at: Option<Timestamp>,
}

impl Waiting {
    /// Reads the instants of a row and its ledger; a damaged ledger gives none.
    #[must_use]
    pub fn of<Fault>(
        ready_at: Option<Timestamp>,
        created_at: Option<Timestamp>,
        ledger: &Result<Ledger, Fault>,
    ) -> Self {
        Self { ready_at, created_at, replayed_at: ledger.as_ref().ok().and_then(replayed_at) }
    }

    /// Waiting time at `now`. The database's readiness counts first; where there is none, the event's publication, which
    /// follows the end of the last scan; where no event ever came, all the time since the submission. Time before a
    /// replay is none of this routing's. Never negative.
    #[must_use]
    pub fn until(&self, now: Timestamp, published_at: Option<Timestamp>) -> Option<std::time::Duration> {
        let began = self.ready_at.or(published_at).or(self.created_at)?;
        let began = self.replayed_at.map_or(began, |replayed| replayed.max(began));
        Some(std::time::Duration::try_from(now.duration_since(began)).unwrap_or_default())
    }
}

/// Verbs that have an ended submission routed again.
const AGAIN: [&str; 2] = ["replay", "backfill"];

/// Time of the last of [`AGAIN`] in the ledger.
fn replayed_at(ledger: &Ledger) -> Option<Timestamp> {
    let is_again = |verb: &Value| verb.as_str().is_some_and(|verb| AGAIN.contains(&verb));
    let replays = ledger.overrides.iter().filter(|entry| entry.get("verb").is_some_and(is_again));
    replays.filter_map(|entry| entry.get("at")?.as_str()?.parse().ok()).max()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + second).expect("a time")
    }

    #[test]
    fn waiting_begins_when_it_could_have_been_routed() {
        let (ready, event, created, replay) = (Some(at(10)), Some(at(40)), Some(at(0)), Some(at(70)));
        let cases = [
            // The database's readiness comes first: an event that was late is part of the waiting.
            (ready, created, None, event, Some(90)),
            // Attachments are being scanned: the event comes when the last scan has ended.
            (None, created, None, event, Some(60)),
            // No event was ever published.
            (None, created, None, None, Some(100)),
            (ready, created, None, None, Some(90)),
            // Replayed: time before the replay does not count, with the old event and with a new one.
            (ready, created, replay, event, Some(30)),
            (None, created, replay, Some(at(80)), Some(20)),
            (None, None, None, None, None),
            // Clocks of two parties.
            (None, created, None, Some(at(101)), Some(0)),
        ];
        for (ready_at, created_at, replayed_at, published, expected) in cases {
            let waiting = Waiting { ready_at, created_at, replayed_at };
            let expected = expected.map(Duration::from_secs);
            assert_eq!(waiting.until(at(100), published), expected, "{waiting:?} {published:?}");
        }
    }

    #[test]
    fn the_last_replay_or_back_fill_is_read_from_the_ledger_and_nothing_else() {
        let mut ledger = Ledger::default();
        assert_eq!(Waiting::of(None, None, &Ok::<_, ()>(ledger.clone())).replayed_at, None);
        ledger.overrides = vec![
            json!({"at": at(5).to_string(), "verb": "replay"}),
            json!({"at": at(7).to_string(), "verb": "backfill"}),
            json!({"at": at(9).to_string(), "verb": "links"}),
            json!({"at": "yesterday", "verb": "replay"}),
            json!("damaged"),
        ];
        assert_eq!(Waiting::of(None, None, &Ok::<_, ()>(ledger)).replayed_at, Some(at(7)));
        assert_eq!(Waiting::of(None, None, &Err::<Ledger, ()>(())).replayed_at, None);
    }
}
