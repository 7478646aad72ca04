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
use crate::ops::set_aside::SetAside;
use crate::parts::{self, PartError};
use crate::ports::{Clock, Failures};
use crate::routing::audit_key::AuditKey;
use crate::routing::delivery::book::Book;
use crate::routing::late_infection::LateInfections;
use crate::routing::pauses::PauseBoard;
use crate::routing::prepare::Preparer;
use crate::routing::store::Store;
use crate::scrub::scrub;

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
    /// Attachments that were found infected after they were sent.
    pub(super) late: Arc<LateInfections>,
    /// Absent: nobody listens for signs of life.
    pub(super) heartbeat: Option<Heartbeat>,
}

impl Parts {
    pub(super) async fn make(
        config: &Config,
        clock: &Arc<dyn Clock>,
        chance: &Arc<Chance>,
        set_aside: &SetAside,
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
        let (time, aside) = (|| Arc::clone(clock), || set_aside.clone());
        let mut desk = parts::alert_desk(config, pool.clone(), time(), Arc::clone(chance), aside())?;
        let book = parts::lost_mails(config, pool.clone(), time(), Arc::clone(chance)).setting_aside(aside());
        if let Some(desk) = &mut desk {
            desk.failures.push(Arc::new(book.clone()));
        }
        let late = parts::late_infections(config, pool.clone(), time(), Arc::clone(chance), aside())?;
        if let Some(desk) = &mut desk {
            desk.failures.push(Arc::clone(&late) as Arc<dyn Failures>);
        }
        let heartbeat = parts::heartbeat(config)?;
        Ok(Self { pool, board, store, preparer, source, desk, book, late, heartbeat })
    }
}

/// What the audit log's digests are made with. A state directory that cannot be used costs the digests, no mail; a configured
/// key that cannot be used ends the start.
pub(super) fn audit_key(config: &Config, chance: &Chance) -> Result<AuditKey, DaemonError> {
    match parts::audit_key(config, chance) {
        Err(PartError::Audit(why)) if matches!(config.audit_key(), Ok(None)) => {
            tracing::error!("the audit log names recipients by their domains alone: {}", scrub(&why));
            Ok(AuditKey::default())
        }
        made => Ok(made?),
    }
}

/// Whether a daemon could be made from this configuration; nothing is connected to.
///
/// # Errors
/// What `run` would refuse to start with.
pub async fn preflight(config: &Config) -> Result<(), DaemonError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let aside = SetAside::new(Arc::clone(&clock), None);
    Parts::make(config, &clock, &Arc::new(Chance::from_system()), &aside).await.map(drop)
}
