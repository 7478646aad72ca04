//! A listener: hears when the program has written rows to be taken (LISTEN), so that nobody waits for the next look. The triggers
//! notify only where 003 is not applied.
//!
//! Only makes things faster: what is not heard, because the connection was gone or a proxy does not carry it, is found by
//! the next look. If we die, nothing is owed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::config::Database;
use crate::db::connector::{self, PoolOptions};
use crate::scrub::scrub;

/// Between two tries to connect.
const REST: Duration = Duration::from_secs(5);

/// Listens until dropped.
#[derive(Debug)]
pub struct Listener {
    heard: Arc<Notify>,
    listening: Option<JoinHandle<()>>,
}

impl Listener {
    /// A listener to `channel` on a connection of its own. Must be called inside a tokio runtime.
    #[must_use]
    pub fn start(channel: &'static str, settings: Database, options: PoolOptions) -> Self {
        let heard = Arc::new(Notify::new());
        let listening = Some(tokio::spawn(listen(channel, settings, options, Arc::clone(&heard))));
        Self { heard, listening }
    }

    /// One that never hears anything: the poll alone finds what there is.
    #[must_use]
    pub fn silent() -> Self {
        Self { heard: Arc::default(), listening: None }
    }

    /// Resolves when something was notified since this was last asked.
    pub async fn heard(&self) {
        self.heard.notified().await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(listening) = &self.listening {
            listening.abort();
        }
    }
}

async fn listen(channel: &'static str, settings: Database, options: PoolOptions, heard: Arc<Notify>) {
    let mut notified = false;
    loop {
        match connector::Listener::connect(&settings, &options, channel).await {
            Ok(mut listener) => {
                notified = false;
                // A notification from before this connection does not come again.
                heard.notify_one();
                while listener.next().await.is_some() {
                    heard.notify_one();
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
