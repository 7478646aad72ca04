//! Whether Slack may be tried now, and the pause after trouble.
//!
//! Pure: time and randomness are arguments. One channel for all causes, so that an hour without Slack costs a few attempts,
//! however many alerts are pending.

use std::time::{Duration, Instant};

use super::sender::why;
use crate::ports::Posted;

/// The first pause is drawn from this, each later one from twice the one before.
const FIRST: Duration = Duration::from_secs(5);
/// Longest pause for trouble that passes by itself.
const LONGEST: Duration = Duration::from_secs(300);
/// Pause where a person has to act first: between this and thrice this.
pub(super) const LONG: Duration = Duration::from_secs(300);
/// Shortest pause.
const SHORTEST: Duration = Duration::from_secs(1);

/// The connection to Slack, with its recent trouble.
#[derive(Debug, Default)]
pub struct Channel {
    failures: u32,
    shut_until: Option<Instant>,
    trouble: Option<String>,
}

/// The result of a failed message for the channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shut {
    /// The pause before the next message.
    pub pause: Duration,
    /// The trouble.
    pub why: String,
    /// Whether a person has to act.
    pub human: bool,
    /// Whether the trouble differs from the one before, and is worth a loud log line.
    pub changed: bool,
}

impl Channel {
    /// Returns whether a message may be posted.
    #[must_use]
    pub fn is_open(&self, now: Instant) -> bool {
        self.shut_until.is_none_or(|until| until <= now)
    }

    /// Returns when a message may be posted, if not now.
    #[must_use]
    pub fn opens(&self) -> Option<Instant> {
        self.shut_until
    }

    /// Records a success; returns whether there was trouble before.
    pub fn worked(&mut self) -> bool {
        let recovered = self.failures > 0;
        *self = Self::default();
        recovered
    }

    /// Records a failure. `rng` is between 0 and 1. `None`: the trouble is that one message's, not the channel's.
    pub fn failed(&mut self, posted: &Posted, now: Instant, rng: f64) -> Option<Shut> {
        let (pause, why, human) = match posted {
            Posted::Sent | Posted::Rejected { only_this: true, .. } => return None,
            Posted::RetryAfter(pause) => (*pause, why(posted), false),
            Posted::Retry(said) => {
                let most = FIRST.saturating_mul(2_u32.saturating_pow(self.failures)).min(LONGEST);
                (most.mul_f64(rng.clamp(0.0, 1.0)).max(SHORTEST), said.clone(), false)
            }
            Posted::Rejected { said, only_this: false } => (long(rng), said.clone(), true),
        };
        let changed = self.trouble.as_ref() != Some(&why);
        self.failures = self.failures.saturating_add(1);
        self.shut_until = Some(now + pause);
        self.trouble = Some(why.clone());
        Some(Shut { pause, why, human, changed })
    }
}

/// Returns a pause for trouble that a person has to mend.
#[must_use]
pub fn long(rng: f64) -> Duration {
    LONG + (LONG * 2).mul_f64(rng.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_are_jittered_and_bounded() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Instant::now();
        let s = Duration::from_secs;
        let retry = || Posted::Retry("gone".to_owned());
        let gone = || Posted::Rejected { said: "no_service".to_owned(), only_this: false };
        // Earlier failures, the result, rng, pause, whether it is logged aloud.
        let cases = [
            (0, retry(), 1.0, s(5), true),
            (0, retry(), 0.0, s(1), true),
            (1, retry(), 1.0, s(10), false),
            (3, retry(), 0.5, s(20), false),
            (60, retry(), 1.0, s(300), false),
            (60, retry(), 0.0, s(1), false),
            (0, Posted::RetryAfter(s(77)), 0.0, s(77), true),
            (9, Posted::RetryAfter(s(77)), 1.0, s(77), true),
            (0, gone(), 0.0, s(300), true),
            (9, gone(), 1.0, s(900), true),
        ];
        for (before, posted, rng, pause, changed) in cases {
            let mut channel = Channel::default();
            for _ in 0..before {
                channel.failed(&retry(), now, 1.0);
            }
            let shut = channel.failed(&posted, now, rng).expect("the channel's trouble");
            assert_eq!((shut.pause, shut.changed), (pause, changed), "{posted:?} after {before}");
            assert!(!channel.is_open(now) && channel.is_open(now + pause));
            assert!(channel.worked() && channel.is_open(now) && !channel.worked());
        }
        let mut channel = Channel::default();
        let payload = Posted::Rejected { said: "invalid_payload".to_owned(), only_this: true };
        assert_eq!(channel.failed(&payload, now, 0.5), None);
        assert!(channel.is_open(now));
    }
}
