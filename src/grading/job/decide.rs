//! Consequences of a failed try. Pure.

use std::time::Duration;

use rand::Rng;

use crate::backoff::backoff;
use crate::grading::core::message::ErrorType;

/// Tries after the first one.
pub const MOST_RETRIES: u32 = 3;
/// Shortest and longest pause before another try, unless the server asks for more.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// A failed try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Its kind.
    pub kind: ErrorType,
    /// A word of ours, for people; never a text of the job.
    pub code: String,
    /// Whether another try may succeed.
    pub retryable: bool,
    /// The pause that the server asked for.
    pub retry_after: Option<Duration>,
}

/// The consequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another try, after this pause.
    Retry(Duration),
    /// None.
    GiveUp,
}

/// The consequence of a failed try of a job that was tried again `retries` times; `is_over`: nobody waits for it any more.
#[must_use]
pub fn after(failed: &Failed, retries: u32, is_over: bool, rng: &mut impl Rng) -> Next {
    if is_over || !failed.retryable || retries >= MOST_RETRIES {
        return Next::GiveUp;
    }
    // Below 2 s before the first of them, 4 s before the second, and so on.
    let pause = backoff(retries.saturating_add(2), PAUSES.0, PAUSES.1, rng);
    Next::Retry(failed.retry_after.map_or(pause, |asked| asked.max(pause)))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::*;

    fn failed(retryable: bool, retry_after: Option<Duration>) -> Failed {
        Failed { kind: ErrorType::Model, code: "invalid".to_owned(), retryable, retry_after }
    }

    #[test]
    fn four_tries_are_all_and_some_need_no_other() {
        let mut rng = StdRng::seed_from_u64(1);
        for retries in 0..MOST_RETRIES {
            assert!(matches!(after(&failed(true, None), retries, false, &mut rng), Next::Retry(_)));
        }
        assert_eq!(after(&failed(true, None), MOST_RETRIES, false, &mut rng), Next::GiveUp);
        assert_eq!(after(&failed(false, None), 0, false, &mut rng), Next::GiveUp);
        assert_eq!(after(&failed(true, None), 0, true, &mut rng), Next::GiveUp, "nobody waits for it");
    }

    #[test]
    fn pauses_are_spread_below_a_ceiling_that_doubles_and_never_shorter_than_asked() {
        let mut rng = StdRng::seed_from_u64(2);
        for (retries, most) in [(0, 2), (1, 4), (2, 8)] {
            let pauses: Vec<Duration> = (0..200)
                .filter_map(|_| match after(&failed(true, None), retries, false, &mut rng) {
                    Next::Retry(pause) => Some(pause),
                    Next::GiveUp => None,
                })
                .collect();
            assert_eq!(pauses.len(), 200);
            let most = Duration::from_secs(most);
            assert!(pauses.iter().all(|pause| *pause <= most), "{retries}");
            let least = Duration::from_secs(1);
            assert!(pauses.iter().all(|pause| *pause >= least), "{retries}");
            let above = (most - least) / 4;
            assert!(pauses.iter().any(|pause| *pause < least + above), "{retries}");
            assert!(pauses.iter().any(|pause| *pause > most - above), "{retries}");
        }
        let asked = Duration::from_secs(400);
        assert_eq!(after(&failed(true, Some(asked)), 0, false, &mut rng), Next::Retry(asked));
    }
}
