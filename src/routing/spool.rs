//! The spool: facts that the database would not take, kept in the state directory until it does (protocol §5).
//!
//! A fact is written here when its first record fails or hangs, and removed once it is recorded: whatever ends this
//! process during an outage of the database, the next one knows what the relay has accepted. If we die between the two,
//! it is recorded twice, which its nonce makes once. Never drops a file that it cannot record: such a one is set aside
//! as `.bad`. Files hold addresses, as the ledger does, and nobody else may read them.

mod sheet;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Map, Value};
use uuid::Uuid;

pub use sheet::Sheet;

use super::journal;
use super::store::{Merged, Store};
use crate::db::{DbError, DbErrorKind};
use crate::ops::state_dir::StateDir;
use crate::ports::Clock;

/// A record that has no answer by then is spooled as well: the database may hang for longer than we live.
const SLOW: Duration = Duration::from_secs(5);
/// A file larger than this, in bytes, is not ours: a send has at most `mail.max_recipients` facts.
const LARGEST: u64 = 4 * 1024 * 1024;
/// Ending of what is to be recorded.
const WAITING: &str = ".json";

/// The directory below `[state] dir`. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Spool {
    dir: StateDir,
    clock: Arc<dyn Clock>,
}

/// What a pass over the spool did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpoolPass {
    /// Files whose facts stand in the database now.
    pub recorded: usize,
    /// Files that nobody can record.
    pub set_aside: usize,
}

/// Why a pass ended early: what is left is left for the next one.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The state directory.
    #[error(
        "the spool {dir} cannot be used: {source}; see [state] dir, and that the daemon's user may write there"
    )]
    Directory {
        /// Where.
        dir: String,
        /// The system's words.
        source: io::Error,
    },
    /// The database.
    #[error(transparent)]
    Database(#[from] DbError),
}

impl Spool {
    /// The spool of a state directory.
    #[must_use]
    pub fn new(state_dir: &Path, clock: Arc<dyn Clock>) -> Self {
        Self { dir: StateDir::new(state_dir).below("spool"), clock }
    }

    /// Makes sure that facts can be kept here.
    ///
    /// # Errors
    /// [`SpoolError::Directory`].
    pub async fn prepare(&self) -> Result<(), SpoolError> {
        self.dir.prepare().await.map_err(|source| self.fault(source))
    }

    /// Watches over the record of one send's facts; without facts it does nothing.
    #[must_use]
    pub fn watch<'a>(&'a self, id: Uuid, token: &str, facts: &Map<String, Value>) -> Watched<'a> {
        let sheet = Sheet::of(id, token, facts);
        Watched { spool: self, sheet, kept: AtomicBool::new(false), told: AtomicBool::new(false) }
    }

    /// Records what lies here, in the order of its names. Recording what another process is about to record is
    /// harmless.
    ///
    /// # Errors
    /// [`SpoolError`]: come again later.
    pub async fn replay(&self, store: &Store) -> Result<SpoolPass, SpoolError> {
        let mut pass = SpoolPass::default();
        for name in self.dir.list(WAITING).await.map_err(|source| self.fault(source))? {
            let Some(content) = self.dir.read(&name, LARGEST).await.map_err(|source| self.fault(source))?
            else {
                continue;
            };
            if self.record(store, &name, &content).await? {
                pass.recorded += 1;
            } else {
                pass.set_aside += 1;
            }
        }
        Ok(pass)
    }

    /// Records one file; `false` where that can never be.
    async fn record(&self, store: &Store, name: &str, content: &[u8]) -> Result<bool, SpoolError> {
        let sheet = match Sheet::decode(content) {
            Ok(sheet) => sheet,
            Err(why) => return self.set_aside(name, None, &why).await,
        };
        let id = sheet.submission_id;
        match store.merge_facts(id, &sheet.token, &sheet.facts).await {
            Ok(Merged::Stand) => {
                self.dir.remove(name).await.map_err(|source| self.fault(source))?;
                journal::spool_replayed(id, sheet.facts.len());
                Ok(true)
            }
            Ok(Merged::Unknown) => self.set_aside(name, Some(id), "there is no such submission").await,
            Ok(Merged::Purged) => {
                self.set_aside(name, Some(id), "retention has emptied its submission").await
            }
            Err(error) => match error.kind() {
                DbErrorKind::Unreachable | DbErrorKind::Busy | DbErrorKind::Contract => Err(error.into()),
                DbErrorKind::Bug => {
                    self.set_aside(name, Some(id), &format!("the database refuses it: {error}")).await
                }
            },
        }
    }

    /// Poison is set aside, never dropped.
    async fn set_aside(&self, name: &str, id: Option<Uuid>, why: &str) -> Result<bool, SpoolError> {
        let bad = format!("{}.bad", name.strip_suffix(WAITING).unwrap_or(name));
        self.dir.rename(name, &bad).await.map_err(|source| self.fault(source))?;
        journal::spool_set_aside(id, &self.dir.path().join(bad), why);
        Ok(false)
    }

    fn fault(&self, source: io::Error) -> SpoolError {
        SpoolError::Directory { dir: self.dir.path().display().to_string(), source }
    }
}

/// The facts of one send on their way to the database.
#[derive(Debug)]
pub struct Watched<'a> {
    spool: &'a Spool,
    sheet: Option<Sheet>,
    /// The file is there.
    kept: AtomicBool,
    /// That it could not be written has been said.
    told: AtomicBool,
}

impl Watched<'_> {
    /// One try to record them: where it fails or takes long, they are spooled.
    ///
    /// # Errors
    /// Those of `recording`.
    pub async fn over<T>(&self, recording: impl Future<Output = Result<T, DbError>>) -> Result<T, DbError> {
        if self.sheet.is_none() {
            return recording.await;
        }
        futures::pin_mut!(recording);
        let answer = tokio::select! {
            biased;
            answer = &mut recording => answer,
            () = self.spool.clock.sleep(SLOW) => {
                self.keep().await;
                recording.await
            }
        };
        if answer.is_err() {
            self.keep().await;
        }
        answer
    }

    /// They stand in the database.
    pub async fn recorded(&self) {
        if let (Some(sheet), true) = (&self.sheet, self.kept.load(Ordering::Relaxed))
            && let Err(error) = self.spool.dir.remove(&sheet.file_name()).await
        {
            // Recorded once more at the next start, and known by their nonce.
            tracing::warn!(submission_id = %sheet.submission_id, "a spool file stays behind: {error}");
        }
    }

    async fn keep(&self) {
        let Some(sheet) = self.sheet.as_ref().filter(|_| !self.kept.load(Ordering::Relaxed)) else { return };
        match self.spool.dir.write(&sheet.file_name(), sheet.encode()).await {
            Ok(()) => {
                self.kept.store(true, Ordering::Relaxed);
                journal::spooled(sheet.submission_id, sheet.facts.len());
            }
            Err(source) => {
                if !self.told.swap(true, Ordering::Relaxed) {
                    let fault = self.spool.fault(source);
                    journal::not_spooled(sheet.submission_id, sheet.facts.len(), &fault);
                }
            }
        }
    }
}
