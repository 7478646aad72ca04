//! A listener: is notified (LISTEN) when the program has written rows to claim, so that they need not wait for the next
//! look. The triggers notify only where 003 is not applied.
//!
//! The listener only makes things faster: the next look finds rows whose notification was lost, because the connection was
//! gone or a proxy does not carry it. If we die, nothing is owed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::config::Database;
use crate::db::connector::{self, PoolOptions};
use crate::scrub::scrub;

/// Time between two attempts to connect.
const REST: Duration = Duration::from_secs(5);

/// Listens until dropped.
#[derive(Debug)]
pub struct Listener {
    notifications: Arc<Notify>,
    listening: Option<JoinHandle<()>>,
}

impl Listener {
    /// Listens to `channel` on a connection of its own. Must be called inside a tokio runtime.
    #[must_use]
    pub fn start(channel: &'static str, settings: Database, options: PoolOptions) -> Self {
        let notifications = Arc::new(Notify::new());
        let listening = Some(tokio::spawn(listen(channel, settings, options, Arc::clone(&notifications))));
        Self { notifications, listening }
    }

    /// A listener that is never notified: the poll alone finds what there is.
    #[must_use]
    pub fn silent() -> Self {
        Self::to(Arc::default())
    }

    /// A listener to what this process tells itself.
    #[must_use]
    pub fn to(notifications: Arc<Notify>) -> Self {
        Self { notifications, listening: None }
    }

    /// Resolves when a notification has come since the last call.
    pub async fn notifications(&self) {
        self.notifications.notified().await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(listening) = &self.listening {
            listening.abort();
        }
    }
}

async fn listen(channel: &'static str, settings: Database, options: PoolOptions, notifications: Arc<Notify>) {
    let mut notified = false;
    loop {
        match connector::Listener::connect(&settings, &options, channel).await {
            Ok(mut listener) => {
                notified = false;
                // A notification from before this connection does not come again.
                notifications.notify_one();
                while listener.next().await.is_some() {
                    notifications.notify_one();
                }
            }
            Err(error) if !std::mem::replace(&mut notified, true) => {
                tracing::warn!(
                    "{channel} is not listened to, only polled: {}; see database.listen_url",
                    scrub(&error.to_string())
                );
            }
            Err(_) => {}
        }
        tokio::time::sleep(REST).await;
    }
}
