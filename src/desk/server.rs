//! The desk's listener: a thread, a runtime ([`web::listener`](crate::web::listener)), connections to the database of its own.
//! Nothing but the processors and PostgreSQL is shared with the routing; limits bound what people and programs take of these.

mod middleware;
mod opening;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::opening::Opening;
use super::limits::Bounds;
use super::templates::Templates;
use crate::config::{Config, Database};
use crate::db::Pool;
use crate::ops::incident::Incidents;
use crate::ops::rng::Rng;
use crate::ports::Clock;
use crate::web::listener::{Listener, Shared};

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
pub struct Desk(Listener);

impl Desk {
    /// Starts the desk's thread, which opens the desk and keeps at it until `stop`.
    ///
    /// # Errors
    /// No thread or no runtime.
    pub fn start(parts: DeskParts, routes: Routes, stop: &CancellationToken) -> io::Result<Self> {
        let shared = Shared { clock: Arc::clone(&parts.clock), incidents: parts.incidents.clone() };
        Listener::start(Opening::new(parts, routes), shared, stop).map(Self)
    }

    /// Resolves with the address once the desk answers there.
    pub async fn listening(&mut self) -> Option<SocketAddr> {
        self.0.listening().await
    }

    /// Ends the desk: open requests are answered, streams end. Never longer than two seconds.
    pub async fn stop(self) {
        self.0.stop().await;
    }
}
