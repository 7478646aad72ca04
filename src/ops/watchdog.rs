//! Judges whether the daemon makes progress, by counts and the times of their last change. Pure: time is an argument.
//!
//! systemd gets "alive" only while every proof is fresh; a bare timer would go on ticking in a process that does nothing any
//! more. Silence is legal where nothing comes in: the proof is that the loops make their rounds, not that events flow.
//! Waiting for a dependency on purpose is no standstill. Invariant: nothing here does I/O.

use std::fmt;
use std::time::{Duration, Instant};

/// The intervals of the watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchIntervals {
    /// Time between two looks: a quarter of systemd's limit.
    pub look: Duration,
    /// Age at which a proof that was not renewed is missing.
    pub stale_after: Duration,
    /// Time between two probes of the database.
    pub ask: Duration,
}

impl WatchIntervals {
    /// The intervals for a unit with this `WatchdogSec=`.
    #[must_use]
    pub fn of(limit: Duration) -> Self {
        Self {
            look: limit / 4,
            stale_after: limit / 2,
            ask: (limit / 12).clamp(Duration::from_millis(100), Duration::from_secs(10)),
        }
    }
}

/// A proof of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proof {
    /// A spawned task runs, and a timer fires.
    EventLoop,
    /// This thread of the event loop parks, or gets on with its work.
    Worker(usize),
    /// The receiver of events makes its rounds: events come, or none do, or none are taken on purpose.
    Reader,
    /// The database answers, or is deliberately not asked.
    Database,
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EventLoop => f.write_str("the event loop runs no tasks"),
            Self::Worker(n) => write!(f, "thread {n} of the event loop is stuck in one task"),
            Self::Reader => f.write_str("the reader of events makes no rounds"),
            Self::Database => f.write_str("the database neither answers nor is it known to be out"),
        }
    }
}

/// A thread of the event loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worker {
    /// Whether it waits for work.
    pub parked: bool,
    /// A count that grows whenever it parks, wakes, or ends a stretch of work.
    pub moves: u64,
}

/// The known state of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Database {
    /// Number of answers so far.
    Answers(u64),
    /// The breaker is open: the missing answer is known, reported, and waited for.
    KnownToBeOut,
}

/// The current counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// Tasks that were spawned for this proof and have run.
    pub beats: u64,
    /// The threads of the event loop.
    pub workers: Vec<Worker>,
    /// Rounds of the receiver; absent before it starts and once it stops.
    pub rounds: Option<u64>,
    /// The database.
    pub database: Database,
}

/// Remembers when each count last changed.
#[derive(Debug)]
pub struct Watch {
    stale_after: Duration,
    /// The last count of each proof, and the time of its change.
    seen: Vec<(Proof, Option<u64>, Instant)>,
}

impl Watch {
    /// A watch that takes every proof as fresh at first.
    #[must_use]
    pub fn new(intervals: WatchIntervals) -> Self {
        Self { stale_after: intervals.stale_after, seen: Vec::new() }
    }

    /// Returns the proofs missing at `now`; empty means alive.
    pub fn look(&mut self, now: Instant, counted: &Counted) -> Vec<Proof> {
        let mut counts = vec![(Proof::EventLoop, Some(counted.beats)), (Proof::Reader, counted.rounds)];
        counts.push((
            Proof::Database,
            match counted.database {
                Database::Answers(answers) => Some(answers),
                Database::KnownToBeOut => None,
            },
        ));
        counts.extend(counted.workers.iter().enumerate().map(|(n, worker)| {
            let moves = (!worker.parked).then_some(worker.moves);
            (Proof::Worker(n), moves)
        }));
        let mut missing: Vec<Proof> = counts
            .into_iter()
            .filter(|(proof, count)| !self.fresh(*proof, *count, now))
            .map(|(p, _)| p)
            .collect();
        missing.sort_unstable();
        missing
    }

    /// Returns whether a proof is fresh; one without a count always is.
    fn fresh(&mut self, proof: Proof, count: Option<u64>, now: Instant) -> bool {
        let Some((_, seen, since)) = self.seen.iter_mut().find(|(known, _, _)| *known == proof) else {
            self.seen.push((proof, count, now));
            return true;
        };
        if count.is_none() || *seen != count {
            (*seen, *since) = (count, now);
        }
        now.saturating_duration_since(*since) < self.stale_after
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::clock::SystemClock;
    use crate::ports::Clock;

    /// The counts `n` looks after the start, while all is well.
    fn well(n: u64) -> Counted {
        let workers = vec![Worker { parked: true, moves: 1 }, Worker { parked: false, moves: n }];
        Counted { beats: n, workers, rounds: Some(n), database: Database::Answers(n) }
    }

    /// Returns the missing proofs after four looks, a look apart, at which `change` was applied to good counts.
    fn missing_after(change: impl Fn(u64, &mut Counted)) -> Vec<Proof> {
        let intervals = WatchIntervals::of(Duration::from_secs(120));
        let (mut watch, start) = (Watch::new(intervals), SystemClock.monotonic());
        let mut missing = Vec::new();
        for n in 0..4_u32 {
            let mut counted = well(n.into());
            change(n.into(), &mut counted);
            missing = watch.look(start + intervals.look * n, &counted);
        }
        missing
    }

    #[test]
    fn what_stands_still_is_missed_and_nothing_else() {
        type Change = fn(u64, &mut Counted);
        let table: &[(&str, Change, &[Proof])] = &[
            ("all is well", |_, _| {}, &[]),
            ("no task runs", |_, c| c.beats = 0, &[Proof::EventLoop]),
            ("a thread is stuck in one task", |_, c| c.workers[1].moves = 7, &[Proof::Worker(1)]),
            ("a thread without work", |_, c| c.workers[1] = Worker { parked: true, moves: 7 }, &[]),
            ("the receiver is stuck", |_, c| c.rounds = Some(5), &[Proof::Reader]),
            ("the receiver has not begun, or has ended", |_, c| c.rounds = None, &[]),
            ("the database hangs", |_, c| c.database = Database::Answers(2), &[Proof::Database]),
            ("the database is known to be out", |_, c| c.database = Database::KnownToBeOut, &[]),
            (
                "everything",
                |_, c| *c = Counted { workers: vec![Worker { parked: false, moves: 1 }; 2], ..well(0) },
                &[Proof::EventLoop, Proof::Worker(0), Proof::Worker(1), Proof::Reader, Proof::Database],
            ),
            ("it moves again", |n, c| c.beats = n / 3, &[]),
            (
                "the breaker has just closed",
                |n, c| c.database = if n < 3 { Database::KnownToBeOut } else { Database::Answers(2) },
                &[],
            ),
        ];
        for (what, change, expected) in table {
            assert_eq!(missing_after(change), *expected, "{what}");
        }
    }

    #[test]
    fn a_proof_is_stale_after_half_of_the_limit_and_not_before() {
        let intervals = WatchIntervals::of(Duration::from_secs(120));
        let (mut watch, start) = (Watch::new(intervals), SystemClock.monotonic());
        assert_eq!(watch.look(start, &well(0)), []);
        let still = Counted { beats: 0, ..well(1) };
        assert_eq!(watch.look(start + Duration::from_millis(59_999), &still), []);
        let still = Counted { beats: 0, ..well(2) };
        assert_eq!(watch.look(start + Duration::from_secs(60), &still), [Proof::EventLoop]);
    }

    #[test]
    fn there_is_time_for_an_outage_to_be_known_before_it_looks_like_a_standstill() {
        let intervals = WatchIntervals::of(Duration::from_secs(120));
        // The unit's WatchdogSec; a hanging database: our probe gives up, then two probes of the breaker, a second apart.
        let known = intervals.ask + Duration::from_secs(15 + 8 + 1 + 8);
        assert!(known < intervals.stale_after, "{known:?} < {:?}", intervals.stale_after);
        assert!(intervals.look * 2 <= intervals.stale_after);
    }
}
