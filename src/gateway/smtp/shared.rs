//! State shared by the connections to one relay: kept dialogues, and the rate limit.
//!
//! At most one dialogue is kept per connection, the one used last is handed out first, and one that was idle for long is
//! closed before the relay does it (Postfix waits 300 s). Nothing here outlives the process or is worth keeping.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::SmtpSettings;
use super::dialogue::Dialogue;
use crate::ports::Clock;

/// Longest idle time after which a dialogue is used again.
const IDLE: Duration = Duration::from_secs(100);

struct Kept {
    dialogue: Dialogue,
    since: Instant,
}

/// State shared by the connections.
pub(super) struct Inner {
    pub(super) settings: SmtpSettings,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) rate_limit: RateLimit,
    /// Second limit beside `max_per_minute`: while the relay's own queue is too long.
    pub(super) throttle: RateLimit,
    kept: Mutex<Vec<Kept>>,
    closed: AtomicBool,
    pub(super) watched: AtomicBool,
}

impl Inner {
    pub(super) fn new(settings: SmtpSettings, clock: Arc<dyn Clock>) -> Self {
        Self {
            rate_limit: RateLimit::new(interval(settings.max_per_minute)),
            throttle: RateLimit::new(None),
            settings,
            clock,
            kept: Mutex::default(),
            closed: AtomicBool::new(false),
            watched: AtomicBool::new(false),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says QUIT on every idle connection; from now on none is kept.
    pub(super) async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let kept = std::mem::take(&mut *self.kept());
        futures::future::join_all(kept.into_iter().map(|kept| kept.dialogue.quit())).await;
    }

    /// Keeps a healthy connection for the next send.
    pub(super) fn give_back(&self, dialogue: Dialogue) {
        if self.closed.load(Ordering::SeqCst) {
            dialogue.retire();
            return;
        }
        self.kept().push(Kept { dialogue, since: self.clock.monotonic() });
    }

    /// Takes out the dialogues idle for too long, and the one used last among the others if `wanted`.
    pub(super) fn pick(&self, wanted: bool) -> Option<Dialogue> {
        let now = self.clock.monotonic();
        let mut kept = self.kept();
        let too_old = |kept: &Kept| now.saturating_duration_since(kept.since) > IDLE;
        let old: Vec<Kept> = kept.extract_if(.., |kept| too_old(kept)).collect();
        let picked = if wanted { kept.pop() } else { None };
        drop(kept);
        for Kept { dialogue, .. } in old {
            dialogue.retire();
        }
        picked.map(|kept| kept.dialogue)
    }
}

/// A rate limit of even intervals, so that no minute, wherever it begins, has more mails than allowed.
pub(super) struct RateLimit {
    interval: Mutex<Option<Duration>>,
    next: tokio::sync::Mutex<Option<Instant>>,
}

impl RateLimit {
    fn new(interval: Option<Duration>) -> Self {
        Self { interval: Mutex::new(interval), next: tokio::sync::Mutex::default() }
    }

    pub(super) fn interval(&self) -> MutexGuard<'_, Option<Duration>> {
        self.interval.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next interval. Waiters queue at the lock; a dropped waiter has used no interval.
    pub(super) async fn wait_for_rate_limit(&self, clock: &dyn Clock) {
        if self.interval().is_none() {
            return;
        }
        let mut next = self.next.lock().await;
        let now = clock.monotonic();
        let at = next.map_or(now, |at| at.max(now));
        tokio::time::sleep(at.saturating_duration_since(now)).await;
        // Read again: a reload may have changed the interval during the wait.
        let interval = *self.interval();
        *next = interval.map(|interval| at + interval);
    }
}

/// Interval between two mails.
pub(super) fn interval(max_per_minute: Option<u32>) -> Option<Duration> {
    max_per_minute.map(|max| Duration::from_secs(60) / max.max(1))
}
