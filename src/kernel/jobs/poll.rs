//! The pause of a consumer between two looks for new rows. Pure.
//!
//! The triggers notify nobody, since a transaction that has notified cannot be prepared
//! (`migrations/router/003_daemons.sql`), so a row waits for the pause to end: pauses are as short as rows are frequent, and
//! never so short that looks keep the database busy.

use std::time::Duration;

/// Pause after a look that found rows.
const SHORTEST: Duration = Duration::from_millis(10);
/// The longest pause while nothing happens: a row waits no longer for a look.
const LONGEST: Duration = Duration::from_millis(250);
/// A pause after a look in vain is this many times as long as the look took, so that such looks take less than a tenth of a
/// connection: index entries of delivered rows are skipped one by one while an older snapshot keeps them.
const REST_PER_LOOK: u32 = 10;

/// The pauses of one consumer.
#[derive(Debug)]
pub(in crate::kernel) struct PollInterval {
    rest: Duration,
    longest: Duration,
}

impl PollInterval {
    /// Starts as after a look that found rows; no pause is longer than `poll`.
    pub(in crate::kernel) fn new(poll: Duration) -> Self {
        Self { rest: SHORTEST.min(poll), longest: LONGEST.min(poll) }
    }

    /// Returns the pause after a look that took `took` and `found` rows or did not.
    pub(in crate::kernel) fn rest(&mut self, found: bool, took: Duration) -> Duration {
        let (rest, times) = if found { (SHORTEST, 1) } else { (self.rest * 2, REST_PER_LOOK) };
        self.rest = rest.min(self.longest);
        self.rest.max(took.saturating_mul(times).min(self.longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn rests_grow_while_nothing_comes_and_shrink_when_something_does() {
        let mut interval = PollInterval::new(Duration::from_secs(1));
        let idle: Vec<u128> = (0..7).map(|_| interval.rest(false, ms(0)).as_millis()).collect();
        assert_eq!(idle, [20, 40, 80, 160, 250, 250, 250]);
        assert_eq!(interval.rest(true, ms(1)), ms(10));
        assert_eq!(interval.rest(false, ms(1)), ms(20));
    }

    #[test]
    fn a_slow_look_is_not_repeated_at_once() {
        let mut interval = PollInterval::new(Duration::from_secs(1));
        assert_eq!(interval.rest(true, ms(40)), ms(40));
        assert_eq!(interval.rest(false, ms(15)), ms(150));
        assert_eq!(interval.rest(true, ms(0)), ms(10), "and is not held against the next");
        assert_eq!(
            interval.rest(false, Duration::MAX),
            ms(250),
            "nor is anybody who comes for longer than where nothing happens"
        );
    }

    #[test]
    fn nobody_rests_longer_than_configured() {
        let mut interval = PollInterval::new(ms(30));
        assert_eq!([(); 4].map(|()| interval.rest(false, ms(0))), [ms(20), ms(30), ms(30), ms(30)]);
        assert_eq!(PollInterval::new(ms(5)).rest(true, ms(0)), ms(5));
    }
}
