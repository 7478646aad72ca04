//! Treatment of a message that was not acked: how long a lease lasts, when the message comes again, when it is
//! given up. Pure arithmetic; never looks at a clock.

use std::time::Duration;

/// Deliver again after a pause that doubles with every failed delivery. Without it, redelivery is immediate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The pause after the first failed delivery.
    pub min: Duration,
    /// The longest pause.
    pub max: Duration,
}

impl Backoff {
    /// The pause after the `failures`-th failed delivery (1 is the first).
    pub(super) fn delay(self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.min.saturating_mul(factor).min(self.max)
    }
}

/// Give a message up after so many failed deliveries, and put a copy on another topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Full name of the topic that gets the copy.
    pub topic: String,
    /// Deliveries a message has, the first included.
    pub max_delivery_attempts: u32,
}

/// The rules of one subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rules {
    /// Lease of a message taken by a unary pull, or by a stream that names none.
    pub(super) ack_deadline: Duration,
    /// The subscription's [`Backoff`].
    pub(super) retry: Option<Backoff>,
    /// The subscription's [`DeadLetter`].
    pub(super) dead_letter: Option<DeadLetter>,
}

impl Rules {
    /// Whether a message that failed `failures` times is given up.
    pub(super) fn exhausted(&self, failures: u32) -> bool {
        self.dead_letter.as_ref().is_some_and(|policy| failures >= policy.max_delivery_attempts)
    }

    /// The pause before the next delivery; zero where there is no retry policy.
    pub(super) fn delay(&self, failures: u32) -> Duration {
        self.retry.map_or(Duration::ZERO, |backoff| backoff.delay(failures))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_its_limit() {
        let backoff = Backoff { min: Duration::from_secs(10), max: Duration::from_secs(600) };
        let table = [(1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (32, 600), (33, 600), (u32::MAX, 600)];
        for (failures, seconds) in table {
            assert_eq!(backoff.delay(failures), Duration::from_secs(seconds), "after {failures}");
        }
        let zero = Backoff { min: Duration::ZERO, max: Duration::from_secs(600) };
        assert_eq!(zero.delay(9), Duration::ZERO);
    }
}
