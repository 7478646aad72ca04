//! When the next request may go: our own pace, and the wait that a throttle names.
//!
//! Pure. Creations keep even intervals, so that no minute, wherever it begins, has more of them than allowed; while the
//! help desk throttles, nothing goes at all. Nothing here outlives the process: after a restart the help desk says it again.

use std::time::{Duration, Instant};

use super::waits;

/// Pace of one client.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    max_per_minute: u32,
    daemons: u32,
    last: Option<Instant>,
    held_until: Option<Instant>,
    throttled_until: Option<Instant>,
    in_a_row: u32,
}

impl Pace {
    /// At most `max_per_minute` creations a minute over all daemons, of which this one is alone until it is told otherwise.
    #[must_use]
    pub(super) fn new(max_per_minute: u32) -> Self {
        Self {
            max_per_minute: max_per_minute.max(1),
            daemons: 1,
            last: None,
            held_until: None,
            throttled_until: None,
            in_a_row: 0,
        }
    }

    /// Sets how many daemons share the allowance; in effect at once.
    pub(super) fn set_share(&mut self, daemons: u32) {
        self.daemons = daemons.max(1);
    }

    /// Sets the allowance of all daemons together; in effect at once.
    pub(super) fn set_max_per_minute(&mut self, max_per_minute: u32) {
        self.max_per_minute = max_per_minute.max(1);
    }

    /// No creation goes before `until`: others may not know yet that they share.
    pub(super) fn hold(&mut self, until: Instant) {
        self.held_until = Some(until);
    }

    /// Time between two creations of this daemon. A share is rounded down, so that all shares together are no more than the
    /// allowance in any minute; only more daemons than creations a minute come down to an average.
    #[must_use]
    pub(super) fn interval(&self) -> Duration {
        let minute = Duration::from_secs(60);
        match self.max_per_minute / self.daemons {
            0 => minute.saturating_mul(self.daemons) / self.max_per_minute,
            // Rounded up: a nanosecond less each would let one more into a minute.
            share => Duration::from_nanos(60_000_000_000_u64.div_ceil(u64::from(share))),
        }
    }

    /// The instant at which the next creation may go; `now` where it may go at once.
    #[must_use]
    pub(super) fn ready_at(&self, now: Instant) -> Instant {
        let by_pace = self.last.map_or(now, |last| last + self.interval());
        by_pace.max(self.throttled_until.unwrap_or(now)).max(self.held_until.unwrap_or(now)).max(now)
    }

    /// Takes the next creation's place, or says when there is one.
    ///
    /// # Errors
    /// The instant of [`Self::ready_at`].
    pub(super) fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let ready = self.ready_at(now);
        if ready > now {
            return Err(ready);
        }
        self.last = Some(now);
        Ok(())
    }

    /// The rest of a throttle, in which neither a creation nor a question goes.
    #[must_use]
    pub(super) fn throttled(&self, now: Instant) -> Option<Duration> {
        let left = self.throttled_until?.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// The help desk throttles: returns the wait that follows, and `asked` is the one it named. A throttle never ends earlier
    /// than one that was named before.
    pub(super) fn throttle(&mut self, now: Instant, asked: Option<Duration>) -> Duration {
        let known = self.throttled(now);
        // Answers to requests that were under way together are one throttle.
        if known.is_none() {
            self.in_a_row = self.in_a_row.saturating_add(1);
        }
        let unasked = || waits::unasked(self.in_a_row.saturating_sub(1));
        let wait = asked.unwrap_or_else(unasked).min(waits::LONGEST).max(known.unwrap_or_default());
        self.throttled_until = Some(now + wait);
        wait
    }

    /// The help desk answered something else than a throttle.
    pub(super) fn answered(&mut self) {
        self.in_a_row = 0;
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "an instant to count from")]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn no_minute_has_more_creations_than_allowed() {
        for (max, daemons) in [(120, 1), (1, 1), (300, 7), (7, 3), (5, 9)] {
            let mut pace = Pace::new(max);
            pace.set_share(daemons);
            let (start, mut now, mut taken) = (Instant::now(), Instant::now(), Vec::new());
            while now.saturating_duration_since(start) < s(600) {
                match pace.take(now) {
                    Ok(()) => taken.push(now),
                    Err(ready) => now = ready,
                }
            }
            let most = taken
                .iter()
                .map(|from| taken.iter().filter(|at| *at >= from && **at < *from + s(60)).count())
                .max()
                .expect("some");
            let share = (max as usize / daemons as usize).max(1);
            assert!(most <= share, "{max} for {daemons}: {most}");
            let least = if max >= daemons { 10 * share } else { 10 * max as usize / daemons as usize };
            assert!(taken.len() >= least, "{max} for {daemons}: {}", taken.len());
        }
    }

    #[test]
    fn a_share_takes_effect_at_once() {
        let (mut pace, now) = (Pace::new(60), Instant::now());
        assert_eq!(pace.ready_at(now), now);
        assert_eq!(pace.take(now), Ok(()));
        assert_eq!(pace.take(now), Err(now + s(1)));
        pace.set_share(4);
        assert_eq!(pace.ready_at(now), now + s(4));
        pace.hold(now + s(9));
        assert_eq!(pace.take(now), Err(now + s(9)), "the others may not know yet that they share");
        pace.set_max_per_minute(0);
        pace.set_share(0);
        assert_eq!(pace.ready_at(now), now + s(60), "never without end, never without a limit");
    }

    #[test]
    fn a_throttle_holds_everything_and_is_never_shortened() {
        let (mut pace, now) = (Pace::new(6000), Instant::now());
        assert_eq!(pace.throttle(now, Some(s(540))), s(540));
        assert_eq!(pace.throttled(now + s(40)), Some(s(500)));
        assert_eq!(pace.throttle(now + s(40), Some(s(1))), s(500), "a second answer names less");
        assert_eq!(pace.take(now + s(539)), Err(now + s(540)));
        assert_eq!(pace.throttled(now + s(540)), None);
        assert_eq!(pace.take(now + s(540)), Ok(()));
        assert_eq!(pace.throttle(now, Some(s(36_000))), s(600));
    }

    #[test]
    fn throttles_that_name_no_wait_double_until_an_answer() {
        let (mut pace, mut now) = (Pace::new(6000), Instant::now());
        for expected in [1, 2, 4, 8] {
            assert_eq!(pace.throttle(now, None), s(expected));
            assert_eq!(pace.throttle(now, None), s(expected), "others were under way together");
            now += s(600);
        }
        pace.answered();
        assert_eq!(pace.throttle(now, None), s(1));
    }
}
