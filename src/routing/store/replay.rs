//! Replay (protocol, "Crash, doubt, stop, replay"): an ended submission is opened again, because a person says so.
//!
//! If we die before the commit nothing happened; after it the row is `received`, and the sweep finds it even when no
//! event follows. Never touches a row that has not ended, and forgets no fact.

use serde_json::Value;
use uuid::Uuid;

use super::overrides::Override;
use super::stored::Stored;
use super::{MISSING, Store, sql, versions};
use crate::db::DbError;
use crate::db::pool::Transaction;
use crate::kernel::Transition;
use crate::kernel::rows::word_in;
use crate::routing::decide::replay::{Replay, ReplayOptions, ReplayRefusal, ReplayView, replay};
use crate::routing::submission::plan::PlannedAction;
use crate::routing::table::Submission;

/// The outcome of a replay.
#[derive(Debug, Clone, PartialEq)]
pub enum Replayed {
    /// The submission is `received` again; in a dry run, it would be.
    Done {
        /// The submission's form.
        form_id: String,
        /// The decision.
        replay: Replay,
    },
    /// The submission stays as it is.
    Refused(ReplayRefusal),
    /// No row has this id.
    Unknown,
}

/// What is written of a submission that is open again.
pub(super) struct Reopened<'a> {
    /// Keys of the ledger to be set.
    pub(super) keys: &'a Value,
    /// Content of the override, besides its author and reason.
    pub(super) note: &'a Value,
    /// The way to its new status.
    pub(super) transition: Transition<Submission>,
}

impl Replayed {
    /// Why the submission stays as it is, in words for people.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        match self {
            Self::Done { .. } => None,
            Self::Refused(refusal) => Some(refusal.to_string()),
            Self::Unknown => Some(MISSING.to_owned()),
        }
    }
}

impl Store {
    /// Opens an ended submission again; with `dry_run` only decides whether it would. `note.more` is extended by the
    /// decision's facts.
    ///
    /// # Errors
    /// [`DbError`]: where the commit's answer was lost, the row shows it: a replayed row has not ended any more.
    pub async fn replay(
        &self,
        id: Uuid,
        options: ReplayOptions<'_>,
        note: Override<'_>,
        dry_run: bool,
    ) -> Result<Replayed, DbError> {
        self.pool
            .transaction("replay", async |tx| self.replay_in(&tx, id, options, note, dry_run).await)
            .await
    }

    /// [`Self::replay`] in the caller's transaction: its commit decides whether it stands.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn replay_in(
        &self,
        tx: &Transaction,
        id: Uuid,
        options: ReplayOptions<'_>,
        note: Override<'_>,
        dry_run: bool,
    ) -> Result<Replayed, DbError> {
        // Only a plan that is taken anew has a version to be read; otherwise the transaction, which is the caller's, never
        // depends on schema content.
        let versioned = options.replan && self.versions_are_there(tx).await?;
        let texts = &self.statements.replay_read;
        let text = if versioned { &texts.versioned } else { &texts.plain };
        let lock = tx.prepare_cached(sql::LOCK_ONE).await?;
        let read = tx.prepare_cached(text).await?;
        let (_, row) = futures::future::try_join(
            tx.query(&lock, &[&id]),
            tx.query_opt(&read, &[&id, &self.settings.pin_bodies]),
        )
        .await?;
        let Some(row) = row else { return Ok(Replayed::Unknown) };
        let status = word_in(&row, "submissions", "status")?;
        let stored: Stored = row.try_get("routing_result")?;
        let (ledger, stored) = (stored.ledger(), stored.original());
        let current: Value = row.try_get("plan")?;
        let current: Option<Vec<PlannedAction>> = serde_json::from_value(current).ok();
        let version = versions::version(&row)?;
        let view = ReplayView {
            status,
            stored: &stored,
            ledger: ledger.as_ref(),
            infected: row.try_get("infected")?,
            current: current.as_deref(),
            version: version.as_ref(),
            expansion: self.settings.expansion,
        };
        let replay = match replay(&view, options, row.try_get("now")?) {
            Ok(replay) => replay,
            Err(refusal) => return Ok(Replayed::Refused(refusal)),
        };
        let form_id = row.try_get::<_, Option<String>>("form_id")?.unwrap_or_default();
        if !dry_run {
            let reopened = Reopened { keys: &replay.keys, note: &replay.note, transition: replay.transition };
            Self::reopen(tx, id, reopened, note).await?;
        }
        Ok(Replayed::Done { form_id, replay })
    }

    /// Whether this role can read which versions forms follow.
    async fn versions_are_there(&self, tx: &Transaction) -> Result<bool, DbError> {
        let ask = tx.prepare_cached(&self.statements.versions).await?;
        Ok(tx.query_one(&ask, &[]).await?.try_get("versions")?)
    }

    /// Writes that an ended submission is open again, under its lock, with the override that says who and why.
    pub(super) async fn reopen(
        tx: &Transaction,
        id: Uuid,
        Reopened { keys, note: decided, transition }: Reopened<'_>,
        note: Override<'_>,
    ) -> Result<(), DbError> {
        let mut entry = note.entry();
        if let (Value::Object(entry), Value::Object(decided)) = (&mut entry, decided) {
            entry.extend(decided.clone());
        }
        let write = tx.prepare_cached(sql::REPLAY).await?;
        if tx.execute(&write, &[&id, keys, &entry, &transition.to().label()]).await? != 1 {
            // Impossible under the lock.
            return Err(DbError::Shape("the row changed under our lock".to_owned()));
        }
        Ok(())
    }

    /// Locks a submission's row in the caller's transaction, as every guarded write does; harmless where there is none.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn lock_in(&self, tx: &Transaction, id: Uuid) -> Result<(), DbError> {
        let lock = tx.prepare_cached(sql::LOCK_ONE).await?;
        tx.query(&lock, &[&id]).await?;
        Ok(())
    }
}
