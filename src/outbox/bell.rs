//! The bell: rings when the program has written to the outbox (a redrive, an operator's event, a canary; LISTEN), so that nobody
//! waits for the next look. The triggers ring it only where 003 is not applied.
//!
//! Only makes things faster: what is not heard, because the connection was gone or a proxy does not carry it, is found by
//! the next look. If we die, nothing is owed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::config::Database;
use crate::db::connector::{Listener, PoolOptions};
use crate::scrub::scrub;

/// Channel that schema `router` notifies.
pub const CHANNEL: &str = "maple_router_outbox";
/// Between two tries to connect.
const REST: Duration = Duration::from_secs(5);

/// Rings until dropped.
#[derive(Debug)]
pub struct Bell {
    rung: Arc<Notify>,
    listening: Option<JoinHandle<()>>,
}

impl Bell {
    /// A bell on a connection of its own. Must be called inside a tokio runtime.
    #[must_use]
    pub fn hang(settings: Database, options: PoolOptions) -> Self {
        let rung = Arc::new(Notify::new());
        let listening = Some(tokio::spawn(listen(settings, options, Arc::clone(&rung))));
        Self { rung, listening }
    }

    /// One that never rings: the poll alone finds what there is.
    #[must_use]
    pub fn silent() -> Self {
        Self { rung: Arc::default(), listening: None }
    }

    /// Resolves when it has rung since this was last asked.
    pub async fn rung(&self) {
        self.rung.notified().await;
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        if let Some(listening) = &self.listening {
            listening.abort();
        }
    }
}

async fn listen(settings: Database, options: PoolOptions, rung: Arc<Notify>) {
    let mut told = false;
    loop {
        match Listener::connect(&settings, &options, CHANNEL).await {
            Ok(mut listener) => {
                told = false;
                // What was notified before we listened is not told again.
                rung.notify_one();
                while listener.next().await.is_some() {
                    rung.notify_one();
                }
            }
            Err(error) if !std::mem::replace(&mut told, true) => {
                tracing::warn!(
                    "the outbox is not listened to, only polled: {}; see database.listen_url",
                    scrub(&error.to_string())
                );
            }
            Err(_) => {}
        }
        tokio::time::sleep(REST).await;
    }
}
