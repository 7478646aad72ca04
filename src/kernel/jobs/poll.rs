//! The pause of a consumer between two looks for new rows. Pure.
//!
//! The triggers notify nobody, since a transaction that has notified cannot be prepared
//! (`migrations/router/003_daemons.sql`), so a row waits for the pause to end: pauses are as short as rows are frequent, and
//! never so short that looks keep the database busy.

use std::time::{Duration, Instant};

/// Pause after a look that found rows.
const SHORTEST: Duration = Duration::from_millis(5);
/// The longest pause after slow looks: a row waits no longer.
const LONGEST: Duration = Duration::from_millis(250);
/// Part of the time since the last row that a pause may take, beyond the shortest one: where rows come a hundred times a second, a gap of a few of
/// them is no reason to look away. Slow looks make longer pauses all the same ([`REST_PER_LOOK`]).
const PART_OF_GAP: u32 = 4;
/// Looks in vain take a tenth of a connection at most: index entries of delivered rows are skipped one by one while an older
/// snapshot keeps them.
const REST_PER_LOOK: u32 = 10;
/// Time for which looks in vain may take more than that, so that one that waited for a processor or a lock is no reason to look away:
/// slow looks are those that are slow again and again.
const AHEAD: Duration = Duration::from_millis(25);

/// The pauses of one consumer.
#[derive(Debug)]
pub(in crate::kernel) struct PollInterval {
    found_at: Instant,
    idle: Duration,
    longest: Duration,
    /// The instant at which the rest that looks in vain have earned is over: at most [`AHEAD`]'s and [`LONGEST`] away, so
    /// that what was slow is forgotten soon.
    rested_at: Instant,
}

impl PollInterval {
    /// Starts at `now` as after a look that found rows. No pause is longer than `poll`, and only slow looks make one that is longer
    /// than `idle`.
    pub(in crate::kernel) fn new(idle: Duration, poll: Duration, now: Instant) -> Self {
        Self { found_at: now, idle, longest: LONGEST.min(poll), rested_at: now }
    }

    /// Returns the pause after a look that took `took`, is over `now`, and `found` rows or did not.
    pub(in crate::kernel) fn rest(&mut self, found: bool, took: Duration, now: Instant) -> Duration {
        let owed = if found {
            self.found_at = now;
            took
        } else {
            let ahead = AHEAD * REST_PER_LOOK;
            let earned = self.rested_at.saturating_duration_since(now);
            let earned = earned.saturating_add(took.saturating_mul(REST_PER_LOOK)).min(ahead + LONGEST);
            self.rested_at = now + earned;
            earned.saturating_sub(ahead)
        };
        let gap = now.saturating_duration_since(self.found_at);
        (gap / PART_OF_GAP).min(self.idle).max(SHORTEST).max(owed).min(self.longest)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "any instant will do")]
mod tests {
    use super::super::IDLE;
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn rests_grow_with_the_time_in_which_nothing_comes_and_shrink_when_something_does() {
        let began = Instant::now();
        let mut interval = PollInterval::new(IDLE, Duration::from_secs(1), began);
        let idle: Vec<u128> = [10, 40, 60, 200, 1_000, 90_000]
            .map(|at| interval.rest(false, ms(0), began + ms(at)).as_millis())
            .to_vec();
        assert_eq!(idle, [5, 10, 15, 50, 250, 250]);
        assert_eq!(interval.rest(true, ms(1), began + ms(91_000)), ms(5));
        assert_eq!(interval.rest(false, ms(1), began + ms(91_010)), ms(5));
    }

    /// Where looks cost nothing, a row that comes at any moment of a pause waits for a quarter of the gap before it, or for the shortest pause.
    #[test]
    fn a_row_waits_for_a_part_of_the_gap_before_it() {
        let began = Instant::now();
        let mut interval = PollInterval::new(IDLE, Duration::from_secs(1), began);
        let (mut now, mut looks) = (began, 0_u32);
        while now < began + Duration::from_secs(10) {
            let pause = interval.rest(false, ms(0), now);
            assert!(pause <= ((now - began) / 4).max(ms(5)), "{pause:?} after {:?}", now - began);
            now += pause;
            looks += 1;
        }
        assert!(looks < 70, "{looks} looks in ten seconds without a row");
    }

    #[test]
    fn one_slow_look_is_no_reason_to_look_away() {
        let began = Instant::now();
        let mut interval = PollInterval::new(IDLE, Duration::from_secs(1), began);
        assert_eq!(interval.rest(true, ms(40), began), ms(40), "whoever finds rows looks half of the time");
        assert_eq!(interval.rest(false, ms(15), began), ms(5));
        assert_eq!(interval.rest(true, ms(0), began + ms(100)), ms(5));
        assert_eq!(interval.rest(false, ms(15), began + ms(150)), ms(25) / 2, "most of its rest is over");
        assert_eq!(interval.rest(false, ms(25), began + ms(150)), ms(150), "two in a row are too many");
        assert_eq!(
            interval.rest(false, Duration::MAX, began + ms(150)),
            ms(250),
            "nobody rests for longer than where nothing happens"
        );
        assert_eq!(interval.rest(false, ms(0), began + ms(900)), ms(200), "and is not held against the next");
    }

    /// Slow looks, however long they take and whether rows come meanwhile or not.
    #[test]
    fn looks_in_vain_take_a_tenth_of_a_connection() {
        for took in [1, 3, 7, 20, 24] {
            for rows_every in [2, 5, usize::MAX] {
                let began = Instant::now();
                let mut interval = PollInterval::new(IDLE, Duration::from_secs(1), began);
                let (mut now, mut in_vain) = (began, Duration::ZERO);
                for look in 1.. {
                    let found = look % rows_every == 0;
                    let took = if found { ms(0) } else { ms(took) };
                    in_vain += took;
                    now += took;
                    now += interval.rest(found, took, now);
                    if now > began + Duration::from_secs(20) {
                        break;
                    }
                }
                let most = (now - began) / REST_PER_LOOK + AHEAD;
                assert!(
                    in_vain <= most + ms(took),
                    "{took} ms, {rows_every}: {in_vain:?} of {:?}",
                    now - began
                );
            }
        }
    }

    #[test]
    fn whoever_waits_for_rows_looks_more_often_unless_looks_are_slow() {
        let began = Instant::now();
        let mut interval = PollInterval::new(ms(50), Duration::from_secs(1), began);
        assert_eq!(interval.rest(false, ms(0), began + ms(90_000)), ms(50));
        assert_eq!(interval.rest(false, ms(40), began + ms(90_000)), ms(150));
    }

    #[test]
    fn nobody_rests_longer_than_configured() {
        let began = Instant::now();
        let rests = |poll: u64| {
            let mut interval = PollInterval::new(IDLE, ms(poll), began);
            [0, 1_000].map(|at| interval.rest(false, ms(0), began + ms(at)).as_millis())
        };
        assert_eq!((rests(30), rests(2)), ([5, 30], [2, 2]));
    }
}
