//! Which daemons there are, and what each has read: by that an operator knows that a pause is in force. Pure.
//!
//! A daemon says so when what it goes by has changed, and every [`BEAT`]. Who is killed cannot say that he is gone: nobody waits
//! for one that has been silent for [`SILENT`], and the operator is told of him.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Between two signs of life, at most.
pub const BEAT: Duration = Duration::from_secs(10);
/// Nobody waits for a daemon that has been silent for so long.
pub const SILENT: Duration = Duration::from_secs(30);
/// Nobody is told of a daemon that has been silent for so long, and its sign of life is removed.
pub const FORGOTTEN: Duration = Duration::from_secs(3600);

/// A daemon's own description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Of this process, from its start to its end.
    pub id: Uuid,
    /// As in its claims.
    pub worker: String,
    /// Where it runs.
    pub host: String,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { worker, host, .. } = self;
        // A worker that nobody named is called after its host.
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
    /// Whose.
    #[serde(flatten)]
    pub of: Identity,
    /// When, database time.
    pub seen_at: Timestamp,
    /// It goes by the pauses as they were then, database time; absent: it could not read them yet, and everything is paused there.
    pub pauses_at: Option<Timestamp>,
}

/// Who goes by what was changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Standing {
    /// These do.
    pub confirmed_by: Vec<String>,
    /// These may not yet.
    pub unconfirmed: Vec<String>,
    /// Not heard of for [`SILENT`]: gone, or they will when they come back.
    pub silent: Vec<String>,
}

impl Standing {
    /// Who of `all` goes by what was changed before `changed`; `now` is database time, too.
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

    /// Nobody has to be waited for.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.unconfirmed.is_empty()
    }
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
        // Changed at 100, asked at 105.
        let cases = [
            ("read since", presence("h/1", 101, Some(100)), "confirmed"),
            ("read since, and silent", presence("h/1", 60, Some(100)), "confirmed"),
            ("read before", presence("h/1", 104, Some(99)), "unconfirmed"),
            ("has read nothing", presence("h/1", 104, None), "unconfirmed"),
            ("not heard of for 29 s", presence("h/1", 76, Some(76)), "unconfirmed"),
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
    fn they_are_named_as_people_find_them() {
        let all = [presence("h/2", 104, None), presence("blue", 104, None), presence("h/1", 70, None)];
        let standing = Standing::of(&all, at(100), at(105));
        assert_eq!(standing.unconfirmed, ["blue on h", "h/2"]);
        assert_eq!(standing.silent, ["h/1 (35 s ago)"]);
        assert!(!standing.is_settled() && Standing::default().is_settled());
    }
}
