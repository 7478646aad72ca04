//! The broker's two clocks. Leases and retries follow tokio's clock, so that a test with paused time moves them; publish
//! times are the wall clock's. Holds no state, so there is nothing to lose.

#![expect(
    clippy::disallowed_methods,
    reason = "the broker stands for an outside system: its time is real time"
)]

use std::time::SystemTime;

use tokio::time::Instant;

/// Now, for leases, retries and deadlines.
pub(super) fn monotonic() -> Instant {
    Instant::now()
}

/// Now, for `publish_time`.
pub(super) fn wall() -> SystemTime {
    SystemTime::now()
}
