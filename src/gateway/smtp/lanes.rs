//! The lanes to the relay: how many transactions may run at once, how many a minute, and which connections are kept.
//!
//! At most one connection is kept per lane, the one used last is handed out first, and one that was idle for long is
//! closed before the relay does it (Postfix waits 300 s). Nothing here outlives the process or is worth keeping.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::SmtpSettings;
use super::brake::Brake;
use super::connection::Connection;
use super::lane::Lane;
use crate::ports::Clock;

/// A connection idle for longer is not used again.
const IDLE: Duration = Duration::from_secs(100);
/// How often idle connections are looked through.
const LOOK: Duration = Duration::from_secs(20);

struct Kept {
    connection: Connection,
    since: Instant,
}

/// What lanes share.
pub(super) struct Inner {
    pub(super) settings: SmtpSettings,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) pace: Pace,
    /// Beside `max_per_minute`: while the relay's own queue is too long.
    pub(super) brake: Pace,
    kept: Mutex<Vec<Kept>>,
    closed: AtomicBool,
    watched: AtomicBool,
}

impl Inner {
    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a healthy connection for the next send.
    pub(super) fn give_back(&self, connection: Connection) {
        if self.closed.load(Ordering::SeqCst) {
            connection.retire();
            return;
        }
        self.kept().push(Kept { connection, since: self.clock.monotonic() });
    }

    /// Takes out those idle for too long, and the one used last among the others if `wanted`.
    fn pick(&self, wanted: bool) -> Option<Connection> {
        let now = self.clock.monotonic();
        let mut kept = self.kept();
        let too_old = |kept: &Kept| now.saturating_duration_since(kept.since) > IDLE;
        let old: Vec<Kept> = kept.extract_if(.., |kept| too_old(kept)).collect();
        let picked = if wanted { kept.pop() } else { None };
        drop(kept);
        for Kept { connection, .. } in old {
            connection.retire();
        }
        picked.map(|kept| kept.connection)
    }
}

/// All lanes to one relay. Cheap to clone.
#[derive(Clone)]
pub struct Lanes {
    inner: Arc<Inner>,
    permits: Arc<Semaphore>,
}

impl std::fmt::Debug for Lanes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lanes")
            .field("relay", &self.inner.settings.relay())
            .field("free", &self.free())
            .finish_non_exhaustive()
    }
}

impl Lanes {
    /// As many lanes as the settings say; nothing is connected yet.
    #[must_use]
    pub fn new(settings: SmtpSettings, clock: Arc<dyn Clock>) -> Self {
        let permits = Arc::new(Semaphore::new(settings.lanes.max(1)));
        let inner = Inner {
            pace: Pace::new(interval(settings.max_per_minute)),
            brake: Pace::new(None),
            settings,
            clock,
            kept: Mutex::default(),
            closed: AtomicBool::new(false),
            watched: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner), permits }
    }

    /// Waits for a free lane, first come first served.
    pub async fn acquire(&self) -> Lane {
        // The semaphore is never closed; were it, waiting for ever is what "no lane" means.
        let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else {
            return std::future::pending().await;
        };
        self.watch_idle();
        Lane::new(Arc::clone(&self.inner), self.inner.pick(true), permit)
    }

    /// A lane if one is free now.
    #[must_use]
    pub fn try_acquire(&self) -> Option<Lane> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(Lane::new(Arc::clone(&self.inner), self.inner.pick(true), permit))
    }

    /// Another `max_per_minute` from the next turn on.
    pub fn set_pace(&self, max_per_minute: Option<u32>) {
        *self.inner.pace.interval() = interval(max_per_minute);
    }

    /// Slows down or lets go, from the next turn on; whatever `max_per_minute` says.
    pub fn set_brake(&self, brake: Brake) {
        *self.inner.brake.interval() = brake.interval();
    }

    /// Whether a mail has to wait for a turn although a lane is free.
    #[must_use]
    pub fn is_paced(&self) -> bool {
        self.inner.pace.interval().is_some() || self.inner.brake.interval().is_some()
    }

    /// Lanes nobody holds.
    #[must_use]
    pub fn free(&self) -> usize {
        self.permits.available_permits()
    }

    /// Says QUIT on every idle connection; from now on none is kept. Lanes still held finish what they do.
    pub async fn close(&self) {
        self.inner.closed.store(true, Ordering::SeqCst);
        let kept = std::mem::take(&mut *self.inner.kept());
        futures::future::join_all(kept.into_iter().map(|kept| kept.connection.quit())).await;
    }

    /// Starts the look-through of idle connections, once; it ends with the last handle.
    fn watch_idle(&self) {
        if !self.inner.watched.swap(true, Ordering::SeqCst) {
            let lanes: Weak<Inner> = Arc::downgrade(&self.inner);
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(LOOK).await;
                    let Some(inner) = lanes.upgrade() else { return };
                    drop(inner.pick(false));
                }
            });
        }
    }
}

/// Turns at even distance, so that no minute, wherever it begins, holds more than allowed.
pub(super) struct Pace {
    interval: Mutex<Option<Duration>>,
    next: tokio::sync::Mutex<Option<Instant>>,
}

impl Pace {
    fn new(interval: Option<Duration>) -> Self {
        Self { interval: Mutex::new(interval), next: tokio::sync::Mutex::default() }
    }

    fn interval(&self) -> MutexGuard<'_, Option<Duration>> {
        self.interval.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next turn. Waiters queue at the lock; one that is dropped has taken no turn.
    pub(super) async fn turn(&self, clock: &dyn Clock) {
        if self.interval().is_none() {
            return;
        }
        let mut next = self.next.lock().await;
        let now = clock.monotonic();
        let at = next.map_or(now, |at| at.max(now));
        tokio::time::sleep(at.saturating_duration_since(now)).await;
        // As it is now: whoever waited here may have waited through a reload.
        let interval = *self.interval();
        *next = interval.map(|interval| at + interval);
    }
}

/// Distance between two turns.
fn interval(max_per_minute: Option<u32>) -> Option<Duration> {
    max_per_minute.map(|max| Duration::from_secs(60) / max.max(1))
}
