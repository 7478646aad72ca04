//! The pause before something is tried again. Pure: the rng is an argument.

use std::time::Duration;

use backon::BackoffBuilder;
use rand::{Rng, RngExt};

/// Returns a pause, exponential from `min` to `max`, with full jitter above `min` (protocol §7).
///
/// `attempts` is the number already spent (1 after the first).
pub fn backoff(attempts: u32, min: Duration, max: Duration, rng: &mut impl Rng) -> Duration {
    let step = usize::try_from(attempts.saturating_sub(1)).unwrap_or(usize::MAX).min(32);
    let ceiling = backon::ExponentialBuilder::default()
        .with_min_delay(min)
        .with_max_delay(max)
        .with_factor(2.0)
        .without_max_times()
        .build()
        .nth(step)
        .unwrap_or(max)
        .clamp(min, max);
    min + (ceiling - min).mul_f64(rng.random_range(0.0..=1.0))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::SeedableRng;

    use super::*;

    #[test]
    fn the_back_off_grows_within_its_bounds_and_spreads() {
        let (min, max) = (Duration::from_secs(10), Duration::from_secs(300));
        let mut rng = rand::rngs::StdRng::seed_from_u64(7);
        for attempts in 0..200_u32 {
            let ceiling = min.saturating_mul(1 << attempts.clamp(1, 6).saturating_sub(1)).min(max);
            let pause = backoff(attempts, min, max, &mut rng);
            assert!(
                pause >= min && pause <= ceiling,
                "{attempts}: {pause:?} not within {min:?}..={ceiling:?}"
            );
        }
        let spread: BTreeSet<Duration> = (0..20).map(|_| backoff(6, min, max, &mut rng)).collect();
        assert!(spread.len() > 10, "full jitter spreads: {spread:?}");
    }
}
