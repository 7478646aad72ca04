//! Whether the daemon makes progress, judged by what was counted and when it last changed. Pure: time is an argument.
//!
//! systemd is told "alive" only while every proof is fresh; a bare timer would go on ticking in a process that does
//! nothing any more. Silence is legal where nothing comes in: what is proved is that the loops make their rounds, not
//! that events flow. Waiting for a dependency on purpose is no standstill. Invariant: nothing here does I/O.

use std::fmt;
use std::time::{Duration, Instant};

/// How often and how strictly it is looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Between two looks: four for each time systemd waits.
    pub look: Duration,
    /// A proof that has not been renewed for so long is missing.
    pub stale_after: Duration,
    /// Between two questions to the database.
    pub ask: Duration,
}

impl Pace {
    /// For a unit with this `WatchdogSec=`.
    #[must_use]
    pub fn of(limit: Duration) -> Self {
        Self {
            look: limit / 4,
            stale_after: limit / 2,
            ask: (limit / 12).clamp(Duration::from_millis(100), Duration::from_secs(10)),
        }
    }
}

/// What has to be proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proof {
    /// A task that is spawned is run, and a timer fires.
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
    /// It waits for work.
    pub parked: bool,
    /// Grows whenever it parks, wakes, or ends a stretch of work.
    pub moves: u64,
}

/// The database, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Database {
    /// It has answered so many times.
    Answers(u64),
    /// Its breaker is open: that it does not answer is known, told, and waited for.
    KnownToBeOut,
}

/// What was counted by now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// Tasks that were spawned for this and have run.
    pub turns: u64,
    /// Each thread of the event loop.
    pub workers: Vec<Worker>,
    /// Rounds of the receiver; nothing before it starts and once it stops.
    pub rounds: Option<u64>,
    /// See [`Database`].
    pub database: Database,
}

/// Remembers when each count last changed.
#[derive(Debug)]
pub struct Watch {
    stale_after: Duration,
    /// By proof: what was counted, and when it changed.
    seen: Vec<(Proof, Option<u64>, Instant)>,
}

impl Watch {
    /// A watch that takes everything for proved at first.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        Self { stale_after: pace.stale_after, seen: Vec::new() }
    }

    /// What is not proved at `now`; empty means alive.
    pub fn look(&mut self, now: Instant, counted: &Counted) -> Vec<Proof> {
        let mut counts = vec![(Proof::EventLoop, Some(counted.turns)), (Proof::Reader, counted.rounds)];
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

    /// Without a count nothing is asked for.
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

    /// What is counted `n` looks after the start, where all is well.
    fn well(n: u64) -> Counted {
        let workers = vec![Worker { parked: true, moves: 1 }, Worker { parked: false, moves: n }];
        Counted { turns: n, workers, rounds: Some(n), database: Database::Answers(n) }
    }

    /// What is missing after four looks, a look apart, at which `change` was done to what is well.
    fn missing_after(change: impl Fn(u64, &mut Counted)) -> Vec<Proof> {
        let pace = Pace::of(Duration::from_secs(120));
        let (mut watch, start) = (Watch::new(pace), SystemClock.monotonic());
        let mut missing = Vec::new();
        for n in 0..4_u32 {
            let mut counted = well(n.into());
            change(n.into(), &mut counted);
            missing = watch.look(start + pace.look * n, &counted);
        }
        missing
    }

    #[test]
    fn what_stands_still_is_missed_and_nothing_else() {
        type Change = fn(u64, &mut Counted);
        let table: &[(&str, Change, &[Proof])] = &[
            ("all is well", |_, _| {}, &[]),
            ("no task runs", |_, c| c.turns = 0, &[Proof::EventLoop]),
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
            ("it moves again", |n, c| c.turns = n / 3, &[]),
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
        let pace = Pace::of(Duration::from_secs(120));
        let (mut watch, start) = (Watch::new(pace), SystemClock.monotonic());
        assert_eq!(watch.look(start, &well(0)), []);
        let still = Counted { turns: 0, ..well(1) };
        assert_eq!(watch.look(start + Duration::from_millis(59_999), &still), []);
        let still = Counted { turns: 0, ..well(2) };
        assert_eq!(watch.look(start + Duration::from_secs(60), &still), [Proof::EventLoop]);
    }

    #[test]
    fn there_is_time_for_an_outage_to_be_known_before_it_looks_like_a_standstill() {
        let pace = Pace::of(Duration::from_secs(120));
        // The unit's WatchdogSec; a hanging database: our question gives up, then two probes of the breaker, a second apart.
        let known = pace.ask + Duration::from_secs(15 + 8 + 1 + 8);
        assert!(known < pace.stale_after, "{known:?} < {:?}", pace.stale_after);
        assert!(pace.look * 2 <= pace.stale_after);
    }
}
