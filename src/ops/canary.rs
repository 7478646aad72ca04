//! Detects a dead event stream by events that we publish ourselves, because silence proves nothing. Time is an argument.
//!
//! Every arrival proves the stream. An overdue canary is followed by a volley before the stream is doubted: with several
//! daemons on one subscription a single canary may have gone to another. Invariant: nothing here does I/O.

use std::time::{Duration, Instant};

/// Time allowed to a canary beside half an interval.
const BOUND: Duration = Duration::from_secs(15);
/// Canaries of a volley.
const VOLLEY: u32 = 8;
/// Pause between two canaries of a volley.
const STEP: Duration = Duration::from_secs(1);
/// Time allowed after a volley, and to a new stream.
const SETTLE: Duration = Duration::from_secs(5);
/// Pause after a canary that could not be published.
const AGAIN: Duration = Duration::from_secs(5);

/// The next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// None before this time, unless an event arrives.
    Sleep(Instant),
    /// Publish a canary, and report the result.
    Publish,
    /// Nothing comes through: have the stream built anew. The number of rebuilds asked for, from 1; from the second on a new
    /// stream did not help either.
    Overdue(u32),
}

/// The canaries of one stream.
#[derive(Debug, Clone)]
pub struct Canary {
    interval: Duration,
    /// Time of the next canary.
    due: Instant,
    /// Time of the first canary since the last arrival.
    waiting_since: Option<Instant>,
    last_published: Instant,
    volley: u32,
    overdue: u32,
}

impl Canary {
    /// A schedule whose first canary is due at once.
    #[must_use]
    pub fn new(interval: Duration, now: Instant) -> Self {
        Self { interval, due: now, waiting_since: None, last_published: now, volley: 0, overdue: 0 }
    }

    /// Returns the action at `now`.
    pub fn next(&mut self, now: Instant) -> Next {
        let Some(since) = self.waiting_since else {
            return if now < self.due { Next::Sleep(self.due) } else { Next::Publish };
        };
        let bound = if self.overdue == 0 { self.interval / 2 + BOUND } else { SETTLE };
        if now < since + bound {
            return Next::Sleep(since + bound);
        }
        if self.volley < VOLLEY {
            let at = self.last_published + STEP;
            return if now < at { Next::Sleep(at) } else { Next::Publish };
        }
        if now < self.last_published + SETTLE {
            return Next::Sleep(self.last_published + SETTLE);
        }
        self.overdue = self.overdue.saturating_add(1);
        self.volley = 0;
        // The first new stream is checked at once, later ones at the usual interval.
        self.waiting_since = Some(if self.overdue == 1 { now } else { now + self.interval });
        Next::Overdue(self.overdue)
    }

    /// Records that a canary was published, or could not be: then Pub/Sub is away, which is not the stream's fault.
    pub fn published(&mut self, well: bool, now: Instant) {
        if !well {
            (self.waiting_since, self.volley) = (None, 0);
            self.due = now + AGAIN.min(self.interval);
            return;
        }
        match self.waiting_since {
            Some(_) => self.volley = self.volley.saturating_add(1),
            None => self.waiting_since = Some(now),
        }
        self.last_published = now;
        self.due = now + self.interval;
    }

    /// Records an arrival. Returns whether the stream had been given up, so that this is news.
    pub fn arrived(&mut self) -> bool {
        (self.waiting_since, self.volley) = (None, 0);
        std::mem::take(&mut self.overdue) > 0
    }

    /// Starts anew after the stream was closed on purpose.
    pub fn begin_anew(&mut self, now: Instant) {
        *self = Self { overdue: self.overdue, ..Self::new(self.interval, now) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn start() -> Instant {
        Instant::now()
    }

    /// Plays until `until`; canaries arrive where `lives` says so. Returns the times of `Overdue`, and the number published.
    fn play(
        canary: &mut Canary,
        from: Instant,
        until: Duration,
        lives: impl Fn(Duration) -> bool,
    ) -> (Vec<u64>, u32) {
        let (mut now, mut overdue, mut published) = (from, Vec::new(), 0);
        while now < from + until {
            match canary.next(now) {
                Next::Sleep(at) => {
                    assert!(at > now, "it moves on");
                    now = at;
                }
                Next::Publish => {
                    canary.published(true, now);
                    published += 1;
                    if lives(now - from) {
                        canary.arrived();
                    }
                    now += SECOND / 100;
                }
                Next::Overdue(_) => overdue.push((now - from).as_secs()),
            }
        }
        (overdue, published)
    }

    #[test]
    fn a_living_stream_is_left_alone() {
        let t0 = start();
        let (overdue, published) = play(&mut Canary::new(60 * SECOND, t0), t0, 3600 * SECOND, |_| true);
        assert_eq!((overdue, published), (vec![], 60));
    }

    #[test]
    fn a_dead_stream_is_doubted_after_a_volley_and_again_at_the_interval() {
        let t0 = start();
        let mut canary = Canary::new(60 * SECOND, t0);
        let (overdue, _) = play(&mut canary, t0, 600 * SECOND, |_| false);
        assert!((50..=70).contains(&overdue[0]), "half an interval, the bound and a volley: {overdue:?}");
        assert!((overdue[0] + 10..=overdue[0] + 25).contains(&overdue[1]), "at once: {overdue:?}");
        assert!(overdue[2] - overdue[1] >= 60, "then slowly: {overdue:?}");
        assert!(canary.arrived(), "news");
        assert!(!canary.arrived(), "answered once");
    }

    /// Another daemon takes our canaries for a while.
    #[test]
    fn what_others_take_is_no_silence() {
        let t0 = start();
        let mut fresh = Canary::new(60 * SECOND, t0);
        let (overdue, published) = play(&mut fresh, t0, 59 * SECOND, |at| at > 46 * SECOND);
        assert!(overdue.is_empty() && published > 1, "one of a volley is enough: {overdue:?} {published}");
    }

    #[test]
    fn what_cannot_be_published_says_nothing_about_the_stream() {
        let t0 = start();
        let (mut canary, mut now) = (Canary::new(60 * SECOND, t0), t0);
        for _ in 0..100 {
            match canary.next(now) {
                Next::Sleep(at) => now = at,
                Next::Publish => canary.published(false, now),
                Next::Overdue(_) => panic!("nothing was published"),
            }
        }
        assert!(now - t0 >= 200 * SECOND);
    }

    #[test]
    fn a_pause_on_purpose_is_no_silence() {
        let t0 = start();
        let mut canary = Canary::new(60 * SECOND, t0);
        canary.published(true, t0);
        canary.begin_anew(t0 + 3600 * SECOND);
        assert_eq!(canary.next(t0 + 3600 * SECOND), Next::Publish);
    }
}
