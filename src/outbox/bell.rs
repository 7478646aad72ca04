//! The bell: rings when somebody's commit has written to the outbox (LISTEN), so that nobody waits for the next poll.
//!
//! Only makes things faster: what is not heard, because the connection was gone or a proxy does not carry it, is found by
//! the poll. If we die, nothing is owed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::config::Database;
use crate::db::connector::{Listener, PoolOptions};
use crate::ports::Clock;
use crate::scrub::scrub;

/// Channel that schema `router` notifies.
pub const CHANNEL: &str = "maple_router_outbox";
/// The database tells nobody of what is written within 50 ms of what it told of, since transactions that tell are
/// committed one after the other: the bell rings again, once when those have surely begun and once when they have ended.
const ECHOES: [Duration; 2] = [Duration::from_millis(60), Duration::from_millis(250)];
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
                ring(&mut listener, &rung, &*options.clock).await;
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

/// Rings, and echoes, until the connection is gone.
async fn ring(listener: &mut Listener, rung: &Notify, clock: &dyn Clock) {
    let mut echoes: VecDeque<Instant> = VecDeque::new();
    loop {
        let echo = echoes.front().map(|at| at.saturating_duration_since(clock.monotonic()));
        tokio::select! {
            heard = listener.next() => {
                if heard.is_none() {
                    return;
                }
                echoes = ECHOES.iter().map(|after| clock.monotonic() + *after).collect();
            }
            () = clock.sleep(echo.unwrap_or_default()), if echo.is_some() => drop(echoes.pop_front()),
        }
        rung.notify_one();
    }
}
