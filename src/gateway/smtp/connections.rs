//! The connections to the relay: how many transactions may run at once, and how many a minute.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::SmtpSettings;
use super::connection::Connection;
use super::shared::{Inner, interval};
use super::throttle::Throttle;
use crate::ports::Clock;

/// Interval between two looks for idle connections.
const LOOK: Duration = Duration::from_secs(20);

/// All connections to one relay. Cheap to clone.
#[derive(Clone)]
pub struct Connections {
    inner: Arc<Inner>,
    permits: Arc<Semaphore>,
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections")
            .field("relay", &self.inner.settings.relay())
            .field("free", &self.free())
            .finish_non_exhaustive()
    }
}

impl Connections {
    /// As many connections as the settings say; nothing is connected yet.
    #[must_use]
    pub fn new(settings: SmtpSettings, clock: Arc<dyn Clock>) -> Self {
        let permits = Arc::new(Semaphore::new(settings.connections.max(1)));
        Self { inner: Arc::new(Inner::new(settings, clock)), permits }
    }

    /// Waits for a free connection, first come first served.
    pub async fn acquire(&self) -> Connection {
        // The semaphore is never closed; were it, waiting for ever is what "no connection" means.
        let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else {
            return std::future::pending().await;
        };
        self.watch_idle();
        Connection::new(Arc::clone(&self.inner), self.inner.pick(true), permit)
    }

    /// A connection if one is free now.
    #[must_use]
    pub fn try_acquire(&self) -> Option<Connection> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(Connection::new(Arc::clone(&self.inner), self.inner.pick(true), permit))
    }

    /// Sets another `max_per_minute`, from the next mail on.
    pub fn set_rate_limit(&self, max_per_minute: Option<u32>) {
        *self.inner.rate_limit.interval() = interval(max_per_minute);
    }

    /// Sets or lifts the throttle, from the next mail on; whatever `max_per_minute` says.
    pub fn set_throttle(&self, throttle: Throttle) {
        *self.inner.throttle.interval() = throttle.interval();
    }

    /// Says whether a mail has to wait for the rate limit although a connection is free.
    #[must_use]
    pub fn is_rate_limited(&self) -> bool {
        self.inner.rate_limit.interval().is_some() || self.inner.throttle.interval().is_some()
    }

    /// Connections not in use.
    #[must_use]
    pub fn free(&self) -> usize {
        self.permits.available_permits()
    }

    /// Says QUIT on every idle connection; from now on none is kept. Connections still in use finish their transaction.
    pub async fn close(&self) {
        self.inner.close().await;
    }

    /// Starts the task that closes idle connections, once; it ends with the last handle.
    fn watch_idle(&self) {
        if !self.inner.watched.swap(true, Ordering::SeqCst) {
            let connections: Weak<Inner> = Arc::downgrade(&self.inner);
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(LOOK).await;
                    let Some(inner) = connections.upgrade() else { return };
                    drop(inner.pick(false));
                }
            });
        }
    }
}
