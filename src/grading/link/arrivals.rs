//! Arrivals: whether what the other side has sent has come. Absence is no proof: a subscription that was out of reach, or that brings old messages, may have
//! more of them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time within which whatever was kept back while the subscription was out of reach comes: the other relay's longest pause, the stream's
/// own, and some.
const SETTLES: Duration = Duration::from_secs(60);
/// Age from which on a message is taken to have been kept back.
const OLD: Duration = Duration::from_secs(10);
/// Time without an old message after which there are no more of them.
const LULL: Duration = Duration::from_secs(15);

/// The knowledge of messages to this side. Cheap to clone: all clones know the same.
#[derive(Debug, Clone)]
pub struct Arrivals {
    known: Arc<Mutex<Known>>,
    settles: Duration,
}

#[derive(Debug, Default, Clone, Copy)]
struct Known {
    /// Start of the time in which the subscription has been within reach.
    reached: Option<Instant>,
    /// Start of the time in which it has not.
    lost: Option<Instant>,
    /// Arrival of the last old message.
    old: Option<Instant>,
}

impl Default for Arrivals {
    fn default() -> Self {
        Self::settling(SETTLES)
    }
}

impl Arrivals {
    /// Arrivals of which nothing is known yet; what was kept back comes within `settles`.
    #[must_use]
    pub fn settling(settles: Duration) -> Self {
        Self { known: Arc::default(), settles }
    }

    /// Notes that the subscription is within reach, as far as is known since `now`.
    pub(super) fn reached(&self, now: Instant) {
        self.with(|known| {
            known.reached = known.reached.or(Some(now));
            known.lost = None;
        });
    }

    /// Notes that it is out of reach, as far as is known since `now`.
    pub(super) fn lost(&self, now: Instant) {
        self.with(|known| {
            known.reached = None;
            known.lost = known.lost.or(Some(now));
        });
    }

    /// Returns for how long the subscription has been out of reach.
    #[must_use]
    pub fn lost_for(&self, now: Instant) -> Duration {
        let known = self.known();
        known.lost.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Notes a message of this age.
    pub(super) fn came(&self, age: Duration, now: Instant) {
        if age >= OLD {
            self.with(|known| known.old = Some(now));
        }
    }

    /// Returns whether nothing that was sent a while ago is still to come.
    #[must_use]
    pub fn are_complete(&self, now: Instant) -> bool {
        let for_long = |at: Instant, least: Duration| now.saturating_duration_since(at) >= least;
        let known = self.known();
        known.reached.is_some_and(|since| for_long(since, self.settles))
            && known.old.is_none_or(|at| for_long(at, LULL))
    }

    fn known(&self) -> Known {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn what_was_kept_back_has_time_to_come() {
        let began = Instant::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let arrivals = Arrivals::default();
        assert!(!arrivals.are_complete(at(1_000)), "nothing is known");
        arrivals.reached(at(0));
        arrivals.reached(at(50));
        assert!(!arrivals.are_complete(at(59)));
        assert!(arrivals.are_complete(at(60)), "said twice, it is no younger");
        // A young message says nothing; an old one has others behind it.
        arrivals.came(Duration::from_secs(9), at(70));
        assert!(arrivals.are_complete(at(70)));
        arrivals.came(Duration::from_secs(10), at(70));
        assert!(!arrivals.are_complete(at(84)));
        assert!(arrivals.clone().are_complete(at(85)));
        arrivals.lost(at(190));
        arrivals.lost(at(195));
        assert!(!arrivals.are_complete(at(200)));
        assert_eq!(arrivals.lost_for(at(200)), Duration::from_secs(10));
        arrivals.reached(at(200));
        assert_eq!(arrivals.lost_for(at(250)), Duration::ZERO);
        assert_eq!([at(259), at(260)].map(|now| arrivals.are_complete(now)), [false, true]);
    }
}
