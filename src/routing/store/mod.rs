//! The mission's SQL beside its row mapping (protocol §2, §3, §5, §6).
//!
//! If we die in the middle of a transaction nothing happened; if we die after its commit the row says so. What never happens
//! here: network I/O inside a transaction, a decision on what was read before the lock, a write that is neither fenced by
//! the claim token nor a merge of facts.

pub mod alerts;
pub mod audit_key;
pub mod backfill;
mod begin;
mod claim;
mod content;
pub mod contract;
pub mod dead_letters;
pub mod delivery;
pub mod delivery_notified;
mod due;
pub mod ends;
mod group;
mod locked;
pub mod overrides;
pub mod pauses;
mod record;
mod refusal;
mod replay;
mod sql;
mod stored;
pub mod sweep;
mod versions;
pub mod view;
mod writing;

use std::sync::Arc;

use group::Group;

pub use begin::BeginAnswer;
pub use claim::{Ahead, ClaimRequest, Claimed};
pub use record::{Conclusion, GoesOn, Merged, RecordScope, Recorded};
pub use replay::Replayed;
pub use writing::NextMail;

use tokio_postgres::Row;

use self::audit_key::AuditKey;
use super::pause::PauseBoard;
use super::pause::Pauses;
use super::submission::expand::Expansion;
use crate::config::Config;
use crate::db::DbError;
use crate::db::pool::{Pool, Transaction};
use crate::db::readiness::Readiness;

/// Words for people about a submission that is not found.
pub const MISSING: &str = "there is no such submission that this database role can see";

/// The store of the mission: a pool, the statements, and what every write is signed with.
#[derive(Debug, Clone)]
pub struct Store {
    pool: Pool,
    statements: Arc<sql::Statements>,
    settings: Arc<StoreSettings>,
    versions: versions::Noticed,
    /// Pauses that operators have made.
    pauses: PauseBoard,
    writes: Group<writing::Writing, writing::Written>,
}

/// Settings that the statements need from the configuration.
#[derive(Debug, Clone)]
struct StoreSettings {
    /// `maple-router@host`, the audit log's actor.
    actor: String,
    /// `host/pid`, the claim's worker.
    worker: String,
    max_attempts: u32,
    expansion: Expansion,
    claim_deadline: std::time::Duration,
    /// Due times further ahead than this are not believed.
    longest_pause: std::time::Duration,
    pin_bodies: bool,
    /// The key that seals recipients in the audit log.
    audit: AuditKey,
}

/// Checks that rows with a column `visible` (`Readiness::is_visible`) were read while every attachment could be seen.
///
/// # Errors
/// [`DbError::Hidden`] where not: nothing may be concluded from an attachment that was not found.
fn seen<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Result<(), DbError> {
    for row in rows {
        if !row.try_get::<_, bool>("visible")? {
            return Err(DbError::Hidden("attachments"));
        }
    }
    Ok(())
}

/// Checks that a submission that was not found does not exist: row-level security shows submissions to this role. To be
/// asked in the transaction that has locked the table, and only where a row is missing.
///
/// # Errors
/// [`DbError::Hidden`] where it does not: a fact may not be called stale, nor an event's submission unknown.
async fn shown(tx: &Transaction) -> Result<(), DbError> {
    let statement = tx.prepare_cached(sql::SUBMISSIONS_SHOWN).await?;
    if tx.query_one(&statement, &[]).await?.try_get("shown")? {
        return Ok(());
    }
    Err(DbError::Hidden("submissions"))
}

impl Store {
    /// A store over `pool`; `host` and `worker` sign what it writes.
    #[must_use]
    pub fn new(pool: Pool, readiness: &Readiness, config: &Config, host: &str, worker: &str) -> Self {
        Self {
            pool,
            statements: Arc::new(sql::Statements::new(readiness)),
            settings: Arc::new(StoreSettings {
                actor: format!("maple-router@{host}"),
                worker: worker.to_owned(),
                max_attempts: config.routing.max_attempts,
                expansion: config.into(),
                claim_deadline: config.routing.claim_deadline,
                longest_pause: config.routing.backoff_max,
                pin_bodies: config.mail.body == crate::config::MailBody::Template,
                audit: AuditKey::default(),
            }),
            versions: versions::Noticed::default(),
            pauses: PauseBoard::default(),
            writes: Group::default(),
        }
    }

    /// Returns the store, going by these pauses.
    #[must_use]
    pub fn with_pauses(self, pauses: PauseBoard) -> Self {
        Self { pauses, ..self }
    }

    /// Returns the store, naming recipients in the audit log by digests with this key; without one, by domain alone.
    #[must_use]
    pub fn with_audit_key(self, audit: AuditKey) -> Self {
        let settings = StoreSettings { audit, ..StoreSettings::clone(&self.settings) };
        Self { settings: Arc::new(settings), ..self }
    }

    /// The pauses in force at this moment.
    #[must_use]
    pub fn pauses(&self) -> Arc<Pauses> {
        self.pauses.now()
    }

    /// Attempts a submission has.
    #[must_use]
    pub fn max_attempts(&self) -> u32 {
        self.settings.max_attempts
    }
}
