//! The only module that reads the machine's clocks.

use std::time::{Duration, Instant, SystemTime};

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::ports::Clock;

/// The machine's monotonic clock, through tokio, so that a paused test runtime moves it.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that everything else is given")]
    fn monotonic(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
        tokio::time::sleep(pause).boxed()
    }
}

/// The machine's own time, since 1970: for `start_timestamp_seconds` alone, which only the scraper compares, by its own
/// clock. Times that the daemon compares or stores are database time.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "shown to Prometheus, and neither compared nor stored")]
pub fn since_epoch() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
