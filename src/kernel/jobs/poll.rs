//! The pause of a consumer between two looks for new rows. Pure.
//!
//! The triggers notify nobody, since a transaction that has notified cannot be prepared
//! (`migrations/router/003_daemons.sql`), so a row waits for the pause to end: pauses are as short as rows are frequent, and
//! never so short that looks keep the database busy.

use std::time::{Duration, Instant};

/// Pause after a look that found rows.
const SHORTEST: Duration = Duration::from_millis(10);
/// The longest pause while nothing happens: a row waits no longer for a look.
const LONGEST: Duration = Duration::from_millis(250);
/// Part of the time since the last row that a pause may take, beyond the shortest one: where rows come a hundred times a second, a gap of a few of
/// them is no reason to look away. Slow looks make longer pauses all the same ([`REST_PER_LOOK`]).
const PART_OF_GAP: u32 = 4;
/// A pause after a look in vain is this many times as long as the look took, so that such looks take less than a tenth of a
/// connection: index entries of delivered rows are skipped one by one while an older snapshot keeps them.
const REST_PER_LOOK: u32 = 10;

/// The pauses of one consumer.
#[derive(Debug)]
pub(in crate::kernel) struct PollInterval {
    found_at: Instant,
    longest: Duration,
}

impl PollInterval {
    /// Starts at `now` as after a look that found rows; no pause is longer than `poll`.
    pub(in crate::kernel) fn new(poll: Duration, now: Instant) -> Self {
        Self { found_at: now, longest: LONGEST.min(poll) }
    }

    /// Returns the pause after a look that took `took`, is over `now`, and `found` rows or did not.
    pub(in crate::kernel) fn rest(&mut self, found: bool, took: Duration, now: Instant) -> Duration {
        let times = if found {
            self.found_at = now;
            1
        } else {
            REST_PER_LOOK
        };
        let gap = now.saturating_duration_since(self.found_at);
        (gap / PART_OF_GAP).max(SHORTEST).max(took.saturating_mul(times)).min(self.longest)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "any instant will do")]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn rests_grow_with_the_time_in_which_nothing_comes_and_shrink_when_something_does() {
        let began = Instant::now();
        let mut interval = PollInterval::new(Duration::from_secs(1), began);
        let idle: Vec<u128> = [10, 40, 60, 200, 1_000, 90_000]
            .map(|at| interval.rest(false, ms(0), began + ms(at)).as_millis())
            .to_vec();
        assert_eq!(idle, [10, 10, 15, 50, 250, 250]);
        assert_eq!(interval.rest(true, ms(1), began + ms(91_000)), ms(10));
        assert_eq!(interval.rest(false, ms(1), began + ms(91_010)), ms(10));
    }

    /// Where looks cost nothing, a row that comes at any moment of a pause waits for a quarter of the gap before it, or for the shortest pause.
    #[test]
    fn a_row_waits_for_a_part_of_the_gap_before_it() {
        let began = Instant::now();
        let mut interval = PollInterval::new(Duration::from_secs(1), began);
        let (mut now, mut looks) = (began, 0_u32);
        while now < began + Duration::from_secs(10) {
            let pause = interval.rest(false, ms(0), now);
            assert!(pause <= ((now - began) / 4).max(ms(10)), "{pause:?} after {:?}", now - began);
            now += pause;
            looks += 1;
        }
        assert!(looks < 60, "{looks} looks in ten seconds without a row");
    }

    #[test]
    fn a_slow_look_is_not_repeated_at_once() {
        let began = Instant::now();
        let mut interval = PollInterval::new(Duration::from_secs(1), began);
        assert_eq!(interval.rest(true, ms(40), began), ms(40));
        assert_eq!(interval.rest(false, ms(15), began), ms(150));
        assert_eq!(interval.rest(true, ms(0), began), ms(10), "and is not held against the next");
        assert_eq!(
            interval.rest(false, Duration::MAX, began),
            ms(250),
            "nor is anybody who comes for longer than where nothing happens"
        );
    }

    #[test]
    fn nobody_rests_longer_than_configured() {
        let began = Instant::now();
        let rests = |poll: u64| {
            let mut interval = PollInterval::new(ms(poll), began);
            [0, 1_000].map(|at| interval.rest(false, ms(0), began + ms(at)).as_millis())
        };
        assert_eq!((rests(30), rests(5)), ([10, 30], [5, 5]));
    }
}
