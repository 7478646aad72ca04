//! The one place that reads the machine's monotonic clock.

use std::time::{Duration, Instant};

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
