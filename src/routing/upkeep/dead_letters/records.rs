//! Stores of dead-letter records: schema `router` where it exists, for all hosts; else a file of this host.
//!
//! The choice is made at every call, so that a schema added later is used at once; records in the file stay visible. An
//! added record is on disk when the call returns.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use uuid::Uuid;

use super::file::RecordFile;
use crate::db::DbError;
use crate::db::pool::Pool;
use crate::ops::state_dir::StateDir;
use crate::ports::RecordKind;
use crate::routing::dead_letter::{Closed, Closing, EXHAUSTED, Record, Silent};
use crate::routing::store::dead_letters::DeadLetterStore;

/// Both stores. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Records {
    /// The database, also the source of rows and time.
    pub store: DeadLetterStore,
    file: RecordFile,
    dir: String,
}

/// Error of the record stores.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Error of the database.
    #[error(transparent)]
    Database(#[from] DbError),
    /// Error of the state directory.
    #[error(
        "dead-letter records in {dir}: {source}; see [state] dir, or apply `maple-router migrate --router`"
    )]
    File {
        /// Path of the directory.
        dir: String,
        /// Error of the system.
        source: io::Error,
    },
}

impl Records {
    /// Uses the database of `pool`, or a file below `state_dir`.
    #[must_use]
    pub fn new(pool: Pool, state_dir: &Path) -> Self {
        let dir = state_dir.display().to_string();
        Self { store: DeadLetterStore::new(pool), file: RecordFile::new(StateDir::new(state_dir)), dir }
    }

    /// Adds a record, with the database's time; `false` where the same letter is recorded already.
    ///
    /// # Errors
    /// [`RecordError`]: call again.
    pub async fn add(&self, mut record: Record) -> Result<bool, RecordError> {
        let (there, now) = self.store.is_there().await?;
        if there {
            return Ok(self.store.add(&record).await?);
        }
        record.at = now;
        self.file.add(&record).await.map_err(|source| self.fault(source))
    }

    /// Returns open records without a notification, at most `limit`; those in the database are leased to us for `lease`.
    ///
    /// # Errors
    /// [`RecordError`].
    pub async fn unalerted(&self, limit: usize, lease: Duration) -> Result<Vec<Silent>, RecordError> {
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut found = match self.store.is_there().await? {
            (true, _) => self.store.lease_unalerted(most, lease).await?,
            (false, _) => Vec::new(),
        };
        let here = self.file.all().await.map_err(|source| self.fault(source))?;
        let silent = here.iter().filter(|record| record.alerted_at.is_none() && record.closed.is_none());
        found.extend(silent.map(|record| Silent {
            id: record.id,
            kind: record.kind,
            origin: record.origin(),
        }));
        found.truncate(limit);
        Ok(found)
    }

    /// Records that people were notified.
    ///
    /// # Errors
    /// [`RecordError`].
    pub async fn alerted(&self, id: Uuid) -> Result<(), RecordError> {
        let (there, now) = self.store.is_there().await?;
        if there && self.store.get(id).await?.is_some() {
            return Ok(self.store.alerted(&[id]).await?);
        }
        self.file.alerted(id, now).await.map_err(|source| self.fault(source))
    }

    /// Records of both stores, oldest first, without payloads; with `closed` the closed ones as well.
    ///
    /// # Errors
    /// [`RecordError`].
    pub async fn list(&self, closed: bool, limit: usize) -> Result<Vec<Record>, RecordError> {
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut found = match self.store.is_there().await? {
            (true, _) => self.store.list(closed, most).await?,
            (false, _) => Vec::new(),
        };
        let here = self.file.all().await.map_err(|source| self.fault(source))?;
        found.extend(here.into_iter().filter(|record| closed || record.closed.is_none()));
        found.sort_by_key(|record| (record.at, record.id));
        found.truncate(limit);
        Ok(found)
    }

    /// Number of open records in both stores, by the label of their kind: every kind, and `exhausted` for the
    /// submissions that are records of themselves.
    ///
    /// # Errors
    /// [`RecordError`].
    pub async fn open(&self) -> Result<BTreeMap<&'static str, u64>, RecordError> {
        let mut open: BTreeMap<&'static str, u64> =
            RecordKind::ALL.iter().map(|kind| (kind.label(), 0)).collect();
        if self.store.is_there().await?.0 {
            for (kind, count) in self.store.open().await? {
                *open.entry(kind.label()).or_default() += count;
            }
        }
        let here = self.file.all().await.map_err(|source| self.fault(source))?;
        for record in here.iter().filter(|record| record.closed.is_none()) {
            *open.entry(record.kind.label()).or_default() += 1;
        }
        open.insert(EXHAUSTED, self.store.exhausted_count().await?);
        Ok(open)
    }

    /// One record with its payload.
    ///
    /// # Errors
    /// [`RecordError`].
    pub async fn get(&self, id: Uuid) -> Result<Option<Record>, RecordError> {
        if self.store.is_there().await?.0
            && let Some(record) = self.store.get(id).await?
        {
            return Ok(Some(record));
        }
        self.file.get(id).await.map_err(|source| self.fault(source))
    }

    /// Closes a record; `false` where it was closed before.
    ///
    /// # Errors
    /// [`RecordError`].
    pub async fn close(
        &self,
        id: Uuid,
        how: Closing,
        actor: &str,
        reason: &str,
    ) -> Result<bool, RecordError> {
        let (there, now) = self.store.is_there().await?;
        if there && self.store.get(id).await?.is_some() {
            return Ok(self.store.close(id, how, actor, reason).await?);
        }
        let open = self.file.get(id).await.map_err(|source| self.fault(source))?;
        if open.is_none_or(|record| record.closed.is_some()) {
            return Ok(false);
        }
        let closed = Closed { how, at: now, actor: actor.to_owned(), reason: reason.to_owned() };
        self.file.close(id, closed).await.map_err(|source| self.fault(source))?;
        Ok(true)
    }

    fn fault(&self, source: io::Error) -> RecordError {
        RecordError::File { dir: self.dir.clone(), source }
    }
}
