//! The rows set aside, and their pauses: pure, time is an argument.
//!
//! Bounded: rows beyond [`MOST`] are not remembered, and tried again at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use uuid::Uuid;

/// Pause after the first refusal; it doubles with each.
const SHORTEST: Duration = Duration::from_secs(5);
/// Longest pause.
const LONGEST: Duration = Duration::from_secs(10 * 60);
/// A row not tried again for this long after its pause is no longer to be written, and is forgotten.
const LINGER: Duration = Duration::from_secs(10 * 60);
/// Most rows remembered, counted by row and kind of write.
pub(super) const MOST: usize = 10_000;

/// The write that a row refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Writing {
    /// Its claim is taken back.
    TakeBack,
    /// Its failure before any claim, for an infected attachment.
    Refusal,
    /// Its touch before it is handed on.
    HandOn,
    /// Its claim.
    Claim,
    /// A touch that shows that its claim is alive.
    Touch,
    /// The settlement of its event.
    Settle,
    /// The status of its mails after the relay's acceptance.
    DeliveryStatus,
    /// The lease of its failure's alert, or the confirmation of that.
    Alert,
    /// The confirmation that people were notified of its lost mail.
    Notification,
}

impl Writing {
    /// The failed write, in words that follow "because".
    #[must_use]
    pub const fn what(self) -> &'static str {
        match self {
            Self::TakeBack => "its claim cannot be taken back",
            Self::Refusal => "it cannot be failed for its infected attachment",
            Self::HandOn => "it cannot be handed on",
            Self::Claim => "it cannot be claimed",
            Self::Touch => "its claim cannot be kept alive",
            Self::Settle => "it cannot be written that its event is dealt with",
            Self::DeliveryStatus => "what became of its mail cannot be recorded",
            Self::Alert => "the alert of its failure cannot be recorded",
            Self::Notification => "that people were notified of its lost mail cannot be recorded",
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Rest {
    tries: u32,
    until: Instant,
}

/// The pauses by write and row.
#[derive(Debug, Default)]
pub(super) struct Rows(BTreeMap<(Writing, Uuid), Rest>);

impl Rows {
    /// Records a refusal; returns the pause, and whether the row is new. None where the memory is full.
    pub(super) fn refused(&mut self, writing: Writing, id: Uuid, now: Instant) -> Option<(Duration, bool)> {
        let is_new = !self.0.contains_key(&(writing, id));
        if is_new && self.0.len() >= MOST {
            return None;
        }
        let rest = self.0.entry((writing, id)).or_insert(Rest { tries: 0, until: now });
        let pause = SHORTEST.saturating_mul(1 << rest.tries.min(16)).min(LONGEST);
        (rest.tries, rest.until) = (rest.tries.saturating_add(1), now + pause);
        Some((pause, is_new))
    }

    /// Records a write; returns whether the row had been set aside.
    pub(super) fn took(&mut self, writing: Writing, id: Uuid) -> bool {
        self.0.remove(&(writing, id)).is_some()
    }

    pub(super) fn is_resting(&self, writing: Writing, id: Uuid, now: Instant) -> bool {
        self.rests_for(writing, id, now).is_some()
    }

    /// Returns the rest of the row's pause.
    pub(super) fn rests_for(&self, writing: Writing, id: Uuid, now: Instant) -> Option<Duration> {
        self.0.get(&(writing, id))?.until.checked_duration_since(now).filter(|rest| !rest.is_zero())
    }

    /// Returns the rows in their pause, in order.
    pub(super) fn resting(&self, writing: Writing, now: Instant) -> Vec<Uuid> {
        let of = (writing, Uuid::nil())..=(writing, Uuid::max());
        self.0.range(of).filter(|(_, rest)| now < rest.until).map(|((_, id), _)| *id).collect()
    }

    /// Forgets rows that are not tried any more: another process has mended or ended them.
    pub(super) fn tend(&mut self, now: Instant) {
        self.0.retain(|_, rest| now < rest.until + LINGER);
    }

    /// Returns the number of submissions, each counted once.
    pub(super) fn count(&self) -> usize {
        self.0.keys().map(|(_, id)| id).collect::<BTreeSet<_>>().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::clock::SystemClock;
    use crate::ports::Clock as _;

    fn id(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    #[test]
    fn pauses_grow_to_a_bound_and_begin_anew_once_it_was_written() {
        let (mut rows, mut now) = (Rows::default(), SystemClock.monotonic());
        let mut pauses = Vec::new();
        for n in 0..12 {
            let (pause, is_new) = rows.refused(Writing::DeliveryStatus, id(1), now).expect("room");
            assert_eq!(is_new, n == 0);
            assert!(rows.is_resting(Writing::DeliveryStatus, id(1), now));
            now += pause;
            assert!(!rows.is_resting(Writing::DeliveryStatus, id(1), now), "due after {pause:?}");
            pauses.push(pause.as_secs());
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 600, 600, 600, 600, 600]);
        assert!(rows.took(Writing::DeliveryStatus, id(1)) && !rows.took(Writing::DeliveryStatus, id(1)));
        assert_eq!(rows.refused(Writing::DeliveryStatus, id(1), now), Some((SHORTEST, true)));
    }

    #[test]
    fn each_kind_of_write_rests_for_itself_and_a_submission_counts_once() {
        let (mut rows, now) = (Rows::default(), SystemClock.monotonic());
        for (writing, n) in [
            (Writing::DeliveryStatus, 2),
            (Writing::DeliveryStatus, 1),
            (Writing::TakeBack, 1),
            (Writing::Notification, 3),
        ] {
            rows.refused(writing, id(n), now).expect("room");
        }
        assert_eq!(rows.resting(Writing::DeliveryStatus, now), [id(1), id(2)]);
        assert_eq!(rows.resting(Writing::TakeBack, now), [id(1)]);
        assert!(!rows.is_resting(Writing::Alert, id(1), now));
        assert_eq!(rows.count(), 3);
        assert!(rows.resting(Writing::DeliveryStatus, now + SHORTEST).is_empty());
        rows.tend(now + SHORTEST + LINGER);
        assert_eq!(rows.count(), 0, "nobody tried them again");
    }

    #[test]
    fn memory_has_a_bound() {
        let (mut rows, now) = (Rows::default(), SystemClock.monotonic());
        for n in 0..MOST as u128 {
            assert!(rows.refused(Writing::Claim, id(n), now).is_some());
        }
        assert_eq!(rows.refused(Writing::Claim, id(MOST as u128), now), None);
        assert!(rows.refused(Writing::Claim, id(0), now).is_some(), "one that is known is");
    }
}
