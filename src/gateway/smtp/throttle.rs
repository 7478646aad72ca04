//! The throttle of all connections while the relay's own queue grows: the relay takes mails faster than it delivers them.
//!
//! Pure. Never a full stop: a mail sent slowly still arrives, and a queue that others fill must not stop the daemon
//! for ever (protocol, P2). Each step ends well below its start, so that the throttle does not flutter.

use std::time::Duration;

/// Step of the throttle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Throttle {
    /// No throttle.
    #[default]
    Off,
    /// The queue has reached its limit.
    Slow,
    /// The queue has reached twice its limit.
    Slower,
}

impl Throttle {
    /// The step that follows on a queue of `depth` messages; a `limit` of 0: never.
    #[must_use]
    pub fn next(self, depth: usize, limit: usize) -> Self {
        if limit == 0 {
            return Self::Off;
        }
        let twice = limit.saturating_mul(2);
        match self {
            _ if depth >= twice => Self::Slower,
            Self::Slower if !is_below(depth, twice) => Self::Slower,
            _ if depth >= limit => Self::Slow,
            Self::Slow | Self::Slower if !is_below(depth, limit) => Self::Slow,
            Self::Off | Self::Slow | Self::Slower => Self::Off,
        }
    }

    /// Interval between two mails of all connections together; `None`: no limit.
    #[must_use]
    pub fn interval(self) -> Option<Duration> {
        match self {
            Self::Off => None,
            Self::Slow => Some(Duration::from_secs(1)),
            Self::Slower => Some(Duration::from_secs(5)),
        }
    }
}

/// Below four fifths of a limit.
fn is_below(depth: usize, limit: usize) -> bool {
    depth.saturating_mul(5) < limit.saturating_mul(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_bites_at_the_limit_harder_at_twice_and_lets_go_below_four_fifths() {
        use Throttle::{Off, Slow, Slower};
        // Depth by depth, with a limit of 100.
        let mut throttle = Off;
        for (depth, expected) in [
            (0, Off),
            (99, Off),
            (100, Slow),
            (99, Slow),
            (80, Slow),
            (79, Off),
            (99, Off),
            (199, Slow),
            (200, Slower),
            (199, Slower),
            (160, Slower),
            (159, Slow),
            (199, Slow),
            (usize::MAX, Slower),
            (80, Slow),
            (0, Off),
            (200, Slower),
            (79, Off),
        ] {
            throttle = throttle.next(depth, 100);
            assert_eq!(throttle, expected, "{depth}");
        }
        for throttle in [Off, Slow, Slower] {
            assert_eq!(throttle.next(usize::MAX, 0), Off, "never, where no limit is set");
            assert_eq!(throttle.next(1, 1), Slow, "{throttle:?}");
        }
    }

    #[test]
    fn it_never_stops_anything() {
        assert_eq!(Throttle::Off.interval(), None);
        for throttle in [Throttle::Slow, Throttle::Slower] {
            assert!(
                throttle.interval().is_some_and(|interval| interval <= Duration::from_secs(5)),
                "{throttle:?}"
            );
        }
    }
}
