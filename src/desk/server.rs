//! The desk's listener: a thread, a runtime, connections to the database of its own. Nothing but the
//! processors and PostgreSQL is shared with the routing; limits bound what people and programs take of these.
//!
//! A desk that cannot be opened (no secret, an address that is taken) is an incident, and tried again every half minute; the
//! daemon routes on. A stop is done within two seconds, whatever streams are open. If we die, nothing is owed.

mod accept;
mod middleware;
mod opening;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::limits::Bounds;
use super::templates::Templates;
use crate::config::{Config, Database};
use crate::db::Pool;
use crate::kernel::tasks::Task;
use crate::ops::incident::Incidents;
use crate::ops::rng::Rng;
use crate::ports::Clock;

/// Longest stop.
const STOP: Duration = Duration::from_secs(2);
/// Connections to the database.
const CONNECTIONS: usize = 4;
/// Longest wait for a lock.
const LOCK: Duration = Duration::from_secs(2);
/// Longest statement.
const STATEMENT: Duration = Duration::from_secs(5);

/// The parts of the desk.
#[derive(Debug, Clone)]
pub struct DeskParts {
    /// The configuration in force. Users follow it; address, origin and login are those of the start.
    pub config: watch::Receiver<Arc<Config>>,
    /// The desk's own connections: [`database`] has their settings.
    pub pool: Pool,
    /// The clock of limits and rests.
    pub clock: Arc<dyn Clock>,
    /// The origin of credentials.
    pub rng: Arc<Rng>,
    /// Where a desk that cannot be opened is told of.
    pub incidents: Incidents,
    /// The pages of the ground.
    pub templates: Templates,
    /// The bounds.
    pub bounds: Bounds,
}

/// What the desk shows besides the login.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    /// Shown without a login; asks no database.
    pub open: Router,
    /// Shown to a [`Visitor`](super::access::Visitor) alone.
    pub closed: Router,
}

/// The settings of the desk's own connections: few, and soon tired of waiting.
#[must_use]
pub fn database(config: &Config) -> Database {
    let all = &config.database;
    Database {
        max_connections: CONNECTIONS,
        lock_timeout: LOCK.min(all.lock_timeout),
        statement_timeout: STATEMENT.min(all.statement_timeout),
        ..all.clone()
    }
}

/// The running desk.
#[derive(Debug)]
pub struct Desk {
    stop: CancellationToken,
    listening: watch::Receiver<Option<SocketAddr>>,
    ended: oneshot::Receiver<()>,
}

impl Desk {
    /// Starts the desk's thread, which opens the desk and keeps at it until `stop`.
    ///
    /// # Errors
    /// No thread or no runtime.
    pub fn start(parts: DeskParts, routes: Routes, stop: &CancellationToken) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let stop = stop.child_token();
        let (tell, listening) = watch::channel(None);
        let (last, ended) = oneshot::channel();
        let stopping = stop.clone();
        let keep_open = {
            let stopping = stopping.clone();
            move |_| opening::keep_open(parts.clone(), routes.clone(), tell.clone(), stopping.clone())
        };
        std::thread::Builder::new().name("desk".to_owned()).spawn(move || {
            runtime.block_on(async {
                let task = Task::again("the desk", keep_open);
                stopping.cancelled().await;
                task.stop(STOP).await;
            });
            // What does not end is not waited for: a resolver's thread may hang.
            runtime.shutdown_background();
            drop(last);
        })?;
        Ok(Self { stop, listening, ended })
    }

    /// Resolves with the address once the desk answers there.
    pub async fn listening(&mut self) -> Option<SocketAddr> {
        self.listening.wait_for(Option::is_some).await.ok().and_then(|address| *address)
    }

    /// Ends the desk: open requests are answered, streams end. Never longer than two seconds.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if tokio::time::timeout(STOP, &mut self.ended).await.is_err() {
            tracing::warn!("the desk did not end in time: its open requests are cut off");
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
