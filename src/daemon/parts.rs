//! Everything that is made from the configuration before anybody is connected to: what cannot be made ends the start.
//!
//! Touches files, never the network, so that `check --config-only` finds what `run` would refuse, and nothing else.

use std::sync::Arc;

use super::DaemonError;
use super::source::Source;
use crate::config::{Config, secret};
use crate::db::pool::Pool;
use crate::gateway::heartbeat::Heartbeat;
use crate::ops::alerting::Desk;
use crate::ops::chance::Chance;
use crate::ops::clock::SystemClock;
use crate::parts::{self, PartError};
use crate::ports::Clock;
use crate::routing::delivery::book::Book;
use crate::routing::pauses::PauseBoard;
use crate::routing::prepare::Preparer;
use crate::routing::store::Store;

/// What the daemon is put together from.
pub(super) struct Parts {
    pub(super) pool: Pool,
    pub(super) board: PauseBoard,
    pub(super) store: Store,
    pub(super) preparer: Preparer,
    pub(super) source: Source,
    /// Absent: nobody is alerted.
    pub(super) desk: Option<Desk>,
    /// Lost mails nobody was told of.
    pub(super) book: Book,
    /// Absent: nobody listens for signs of life.
    pub(super) heartbeat: Option<Heartbeat>,
}

impl Parts {
    pub(super) async fn make(
        config: &Config,
        clock: &Arc<dyn Clock>,
        chance: &Arc<Chance>,
    ) -> Result<Self, DaemonError> {
        // Also those that are needed later only: a name that leads nowhere is found now.
        for read in secret::every_one(config) {
            read.map_err(PartError::from)?;
        }
        let pool = parts::pool(config, Arc::clone(clock))?;
        let board = PauseBoard::default();
        let store = parts::store(config, pool.clone())?.with_pauses(board.clone());
        let preparer = parts::preparer(config, store.clone(), Arc::clone(chance))?;
        let source = Source::of(config).await?;
        let mut desk = parts::alert_desk(config, pool.clone(), Arc::clone(clock), Arc::clone(chance))?;
        let book = parts::lost_mails(config, pool.clone(), Arc::clone(clock), Arc::clone(chance));
        if let Some(desk) = &mut desk {
            desk.failures.push(Arc::new(book.clone()));
        }
        let heartbeat = parts::heartbeat(config)?;
        Ok(Self { pool, board, store, preparer, source, desk, book, heartbeat })
    }
}

/// Whether a daemon could be made from this configuration; nothing is connected to.
///
/// # Errors
/// What `run` would refuse to start with.
pub async fn preflight(config: &Config) -> Result<(), DaemonError> {
    Parts::make(config, &(Arc::new(SystemClock) as Arc<dyn Clock>), &Arc::new(Chance::from_system()))
        .await
        .map(drop)
}
