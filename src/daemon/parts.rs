//! Everything that is made from the configuration before any connection: a part that cannot be made ends the start.
//!
//! Touches files, never the network, so that `check --config-only` finds what `run` would refuse, and nothing else.

use std::sync::Arc;

use super::DaemonError;
use super::source::Source;
use crate::config::{Config, secret};
use crate::db::pool::Pool;
use crate::gateway::happyfox::HelpDeskClient;
use crate::gateway::heartbeat::Heartbeat;
use crate::grey_queue::store::Notice;
use crate::ops::alerting::AlertSender;
use crate::ops::clock::SystemClock;
use crate::ops::rng::Rng;
use crate::ops::set_aside::SetAside;
use crate::parts::{self, PartError};
use crate::ports::{Clock, Failures};
use crate::routing::follow::pending_notices::PendingNotices;
use crate::routing::pause::PauseBoard;
use crate::routing::store::Store;
use crate::routing::store::audit_key::AuditKey;
use crate::routing::upkeep::late_infection::LateInfections;
use crate::routing::worker::prepare::Preparer;
use crate::scrub::scrub;

/// Parts of the daemon.
pub(super) struct DaemonParts {
    pub(super) pool: Pool,
    pub(super) board: PauseBoard,
    pub(super) store: Store,
    pub(super) preparer: Preparer,
    pub(super) help_desk: Option<Arc<HelpDeskClient>>,
    pub(super) source: Source,
    /// Absent: nobody is alerted.
    pub(super) alert_sender: Option<AlertSender>,
    pub(super) security_sender: Option<AlertSender>,
    /// Lost mails of which nobody was notified.
    pub(super) pending_notices: PendingNotices,
    /// Attachments that were reported infected after they were sent.
    pub(super) late: Arc<LateInfections>,
    /// Absent: no heartbeat URL is configured.
    pub(super) heartbeat: Option<Heartbeat>,
}

impl DaemonParts {
    pub(super) async fn make(
        config: &Config,
        clock: &Arc<dyn Clock>,
        rng: &Arc<Rng>,
        set_aside: &SetAside,
    ) -> Result<Self, DaemonError> {
        // Secrets needed later are read too: a name that leads nowhere is reported now.
        for read in secret::every_one(config) {
            read.map_err(PartError::from)?;
        }
        let pool = parts::pool(config, Arc::clone(clock))?;
        let board = PauseBoard::default();
        let store = parts::store(config, pool.clone())?.with_pauses(board.clone());
        let preparer = parts::preparer(config, store.clone(), Arc::clone(rng))?;
        let help_desk = parts::help_desk(config, Arc::clone(clock))?;
        let source = Source::of(config).await?;
        let (time, aside) = (|| Arc::clone(clock), || set_aside.clone());
        let mut alert_sender = parts::alert_sender(config, pool.clone(), time(), Arc::clone(rng), aside())?;
        let pending_notices =
            parts::lost_mails(config, pool.clone(), time(), Arc::clone(rng)).setting_aside(aside());
        if let Some(alert_sender) = &mut alert_sender {
            alert_sender.failures.push(Arc::new(pending_notices.clone()));
        }
        let mut security_sender = parts::security_sender(config)?;
        for notices in parts::review_notices(config, &pool, rng) {
            let sender = match (notices.notice, &mut security_sender) {
                (Notice::Escalated, Some(security)) => Some(security),
                (Notice::Escalated | Notice::Expiring | Notice::Failed, _) => alert_sender.as_mut(),
            };
            if let Some(sender) = sender {
                sender.failures.push(Arc::new(notices));
            }
        }
        let late = parts::late_infections(config, pool.clone(), time(), Arc::clone(rng), aside())?;
        if let Some(alert_sender) = &mut alert_sender {
            alert_sender.failures.push(Arc::clone(&late) as Arc<dyn Failures>);
        }
        let heartbeat = parts::heartbeat(config)?;
        Ok(Self {
            pool,
            board,
            store,
            preparer,
            help_desk,
            source,
            alert_sender,
            security_sender,
            pending_notices,
            late,
            heartbeat,
        })
    }
}

/// The key of the audit log's digests. A state directory that cannot be used costs the digests, no mail; a
/// configured key that cannot be used ends the start.
pub(super) fn audit_key(config: &Config, rng: &Rng) -> Result<AuditKey, DaemonError> {
    match parts::audit_key(config, rng) {
        Err(PartError::Audit(why)) if matches!(config.audit_key(), Ok(None)) => {
            tracing::error!("the audit log names recipients by their domains alone: {}", scrub(&why));
            Ok(AuditKey::default())
        }
        made => Ok(made?),
    }
}

/// Checks that a daemon could be made from this configuration; connects to nothing.
///
/// # Errors
/// The error with which `run` would refuse to start.
pub async fn preflight(config: &Config) -> Result<(), DaemonError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let aside = SetAside::new(Arc::clone(&clock), None);
    DaemonParts::make(config, &clock, &Arc::new(Rng::from_system()), &aside).await.map(drop)
}
