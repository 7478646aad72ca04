//! The daemons and the pauses that each has read, by which an operator knows that a pause is in force. Pure.
//!
//! A daemon writes its presence when its pauses have changed, and every [`BEAT`]. A killed daemon cannot sign off:
//! `pause` does not wait for one silent for [`SILENT`], and shows it to the operator.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Longest interval of a daemon's signs of life.
pub const BEAT: Duration = Duration::from_secs(10);
/// Silence after which `pause` does not wait for a daemon.
pub const SILENT: Duration = Duration::from_secs(30);
/// Silence after which a daemon is no longer shown, and its sign of life is removed.
pub const FORGOTTEN: Duration = Duration::from_secs(3600);

/// A daemon's own description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Id of this process, from its start to its end.
    pub id: Uuid,
    /// Name of the worker, as in its claims.
    pub worker: String,
    /// Host of the process.
    pub host: String,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { worker, host, .. } = self;
        // The default name of a worker starts with its host.
        if worker.starts_with(&format!("{host}/")) {
            f.write_str(worker)
        } else {
            write!(f, "{worker} on {host}")
        }
    }
}

/// A daemon's sign of life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presence {
    /// Identity of the daemon.
    #[serde(flatten)]
    pub of: Identity,
    /// Time of the sign, database time.
    pub seen_at: Timestamp,
    /// Read time of the daemon's pauses, database time; absent: none could be read yet, and everything is paused there.
    pub pauses_at: Option<Timestamp>,
}

/// Daemons by their knowledge of a change.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Standing {
    /// Daemons that have read the change.
    pub confirmed_by: Vec<String>,
    /// Daemons that may not have read it yet.
    pub unconfirmed: Vec<String>,
    /// Daemons silent for [`SILENT`]: gone, or about to read the change when they return.
    pub silent: Vec<String>,
}

impl Standing {
    /// Sorts `all` by their knowledge of a change made at `changed`; `now` is database time, too.
    #[must_use]
    pub fn of(all: &[Presence], changed: Timestamp, now: Timestamp) -> Self {
        let mut standing = Self::default();
        for presence in all {
            let silent = now.duration_since(presence.seen_at).unsigned_abs();
            let past = presence.seen_at < now;
            if presence.pauses_at.is_some_and(|read| read >= changed) {
                standing.confirmed_by.push(presence.of.to_string());
            } else if past && silent >= FORGOTTEN {
            } else if past && silent >= SILENT {
                standing.silent.push(format!("{} ({} s ago)", presence.of, silent.as_secs()));
            } else {
                standing.unconfirmed.push(presence.of.to_string());
            }
        }
        for names in [&mut standing.confirmed_by, &mut standing.unconfirmed, &mut standing.silent] {
            names.sort();
        }
        standing
    }

    /// Whether no daemon needs to be waited for.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.unconfirmed.is_empty()
    }
}

/// Number of daemons that are not known to be gone: silent for less than [`SILENT`] at `now`, database time.
#[must_use]
pub fn living(all: &[Presence], now: Timestamp) -> usize {
    let is_silent = |presence: &&Presence| {
        presence.seen_at < now && now.duration_since(presence.seen_at).unsigned_abs() >= SILENT
    };
    all.iter().filter(|presence| !is_silent(presence)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).expect("a timestamp")
    }

    fn presence(worker: &str, seen: i64, read: Option<i64>) -> Presence {
        let of = Identity { id: Uuid::nil(), worker: worker.to_owned(), host: "h".to_owned() };
        Presence { of, seen_at: at(seen), pauses_at: read.map(at) }
    }

    #[test]
    fn who_is_waited_for() {
        // Changed at 100, checked at 105.
        let cases = [
            ("read since", presence("h/1", 101, Some(100)), "confirmed"),
            ("read since, and silent", presence("h/1", 60, Some(100)), "confirmed"),
            ("read before", presence("h/1", 104, Some(99)), "unconfirmed"),
            ("has read nothing", presence("h/1", 104, None), "unconfirmed"),
            ("not seen for 29 s", presence("h/1", 76, Some(76)), "unconfirmed"),
            ("for 30 s", presence("h/1", 75, Some(75)), "silent"),
            ("for an hour", presence("h/1", 105 - 3600, Some(0)), "nobody"),
            ("its clock's second is ahead", presence("h/1", 200, Some(99)), "unconfirmed"),
        ];
        for (case, presence, expected) in cases {
            let Standing { confirmed_by, unconfirmed, silent } = Standing::of(&[presence], at(100), at(105));
            let found = [("confirmed", confirmed_by), ("unconfirmed", unconfirmed), ("silent", silent)];
            let found: Vec<&str> =
                found.iter().filter(|(_, names)| !names.is_empty()).map(|(list, _)| *list).collect();
            assert_eq!(found, if expected == "nobody" { vec![] } else { vec![expected] }, "{case}");
        }
    }

    #[test]
    fn who_is_not_known_to_be_gone_lives() {
        let all = [presence("h/1", 105, None), presence("h/2", 76, Some(1)), presence("h/3", 75, None)];
        assert_eq!(living(&all, at(105)), 2);
        assert_eq!(living(&all, at(76)), 3, "a sign of the future is one of life");
        assert_eq!(living(&[], at(105)), 0);
    }

    #[test]
    fn they_are_named_as_people_find_them() {
        let all = [presence("h/2", 104, None), presence("blue", 104, None), presence("h/1", 70, None)];
        let standing = Standing::of(&all, at(100), at(105));
        assert_eq!(standing.unconfirmed, ["blue on h", "h/2"]);
        assert_eq!(standing.silent, ["h/1 (35 s ago)"]);
        assert!(!standing.is_settled() && Standing::default().is_settled());
    }
}
