//! The pace of one client, shared by all who use it: whoever comes first goes first, and a waiter that is dropped has taken
//! nothing.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::pace::Pace;
use crate::ports::Clock;

/// The pace, the line before it, and the clock.
pub(super) struct Limits {
    pace: Mutex<Pace>,
    line: tokio::sync::Mutex<()>,
    /// Rings when the pace has changed: who waits reckons anew.
    changed: Notify,
    clock: Arc<dyn Clock>,
}

impl Limits {
    pub(super) fn new(max_per_minute: u32, clock: Arc<dyn Clock>) -> Self {
        Self {
            pace: Mutex::new(Pace::new(max_per_minute)),
            line: tokio::sync::Mutex::default(),
            changed: Notify::new(),
            clock,
        }
    }

    pub(super) fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the pace, for those too who wait already.
    pub(super) fn change(&self, change: impl FnOnce(&mut Pace)) {
        change(&mut self.pace());
        self.changed.notify_waiters();
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.monotonic()
    }

    /// Waits for the next creation's place and takes it.
    ///
    /// # Errors
    /// The rest of a throttle: it may take minutes, in which the caller had better hold nothing.
    pub(super) async fn acquire(&self) -> Result<(), Duration> {
        let _first = self.line.lock().await;
        loop {
            let changed = pin!(self.changed.notified());
            let now = self.now();
            let until = {
                let mut pace = self.pace();
                if let Some(wait) = pace.throttled(now) {
                    return Err(wait);
                }
                match pace.take(now) {
                    Ok(()) => return Ok(()),
                    Err(until) => until,
                }
            };
            self.wait(until.saturating_duration_since(now), changed).await;
        }
    }

    /// Waits until a creation may go, through a throttle as well; takes nothing.
    pub(super) async fn ready(&self) {
        loop {
            let changed = pin!(self.changed.notified());
            let now = self.now();
            let until = self.pace().ready_at(now);
            if until <= now {
                return;
            }
            self.wait(until.saturating_duration_since(now), changed).await;
        }
    }

    /// Waits until the time has passed or the pace is another one. A [`Notified`] hears of every change since it was made.
    async fn wait(&self, time: Duration, changed: Pin<&mut Notified<'_>>) {
        tokio::select! {
            () = self.clock.sleep(time) => {}
            () = changed => {}
        }
    }

    /// The rest of a throttle.
    pub(super) fn throttled(&self) -> Option<Duration> {
        self.pace().throttled(self.now())
    }

    /// The help desk throttles; `asked` is the wait that it named, zero for none. Returns the wait that follows.
    pub(super) fn throttle(&self, asked: Duration) -> Duration {
        self.pace().throttle(self.now(), (!asked.is_zero()).then_some(asked))
    }
}
