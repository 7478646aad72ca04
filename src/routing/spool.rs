//! The spool: facts that the database would not take, kept in the state directory until it does (protocol §5).
//!
//! A fact is written here when its first record fails or hangs, and removed once it is recorded: whatever ends this process
//! during an outage of the database, the next one knows what the relay has accepted. If we die between the two, the fact is
//! recorded twice, which its nonce makes once. While facts of a submission lie here this host does not claim it, or its mail
//! would be sent again. No file is ever dropped unrecorded: a file that can never be recorded is set aside as `.bad`, and
//! tried again at each start; every other one stays and is tried again. Files contain addresses, as the ledger does; only
//! the daemon's user may read them.

mod kept;
mod pass;
mod sheet;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use uuid::Uuid;

pub use pass::{SpoolPass, Try};
pub use sheet::Sheet;

use self::kept::{Kept, Part};
use super::journal;
use super::store::Store;
use super::submission::outcome::Entries;
use crate::db::DbError;
use crate::ops::state_dir::StateDir;
use crate::ports::Clock;
use crate::scrub::scrub;

/// Time after which a record without an answer is spooled as well: the database may hang for longer than we live.
const SLOW: Duration = Duration::from_secs(5);

/// The directory below `[state] dir`. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Spool {
    dir: StateDir,
    clock: Arc<dyn Clock>,
    kept: Kept,
}

/// Fault that ended a pass early: the next pass tries the remaining files.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The state directory.
    #[error(
        "the spool {dir} cannot be used: {source}; see [state] dir, and that the daemon's user may write there"
    )]
    Directory {
        /// Path of the spool.
        dir: String,
        /// Error of the system.
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
        Self { dir: StateDir::new(state_dir).below("spool"), clock, kept: Kept::default() }
    }

    /// Whether facts of a submission lie here, recordable or not: then nothing of it may be sent. Files that another process
    /// wrote are known since the last pass.
    #[must_use]
    pub fn holds(&self, id: Uuid) -> bool {
        self.kept.holds(id)
    }

    /// Numbers of files in the spool of a state directory: those that wait, and those set aside.
    ///
    /// # Errors
    /// Errors of the system.
    pub async fn count(state_dir: &Path) -> io::Result<(usize, usize)> {
        let entries = StateDir::new(state_dir).below("spool").entries().await?;
        let parts =
            entries.iter().filter(|entry| entry.is_file).filter_map(|entry| Part::of(entry.name.to_str()?));
        Ok(parts.fold((0, 0), |(waiting, bad), part| match part {
            Part::Waiting => (waiting + 1, bad),
            Part::Bad => (waiting, bad + 1),
            Part::Unfinished => (waiting, bad),
        }))
    }

    /// Makes sure that the directory is there and may be written to.
    ///
    /// # Errors
    /// [`SpoolError::Directory`].
    pub async fn prepare(&self) -> Result<(), SpoolError> {
        self.dir.prepare().await.map_err(|source| self.fault(source))
    }

    /// Watches over the record of one send's facts; without facts this does nothing.
    #[must_use]
    pub fn watch<'a>(&'a self, id: Uuid, token: &'a str, entries: &Arc<Entries>) -> Watched<'a> {
        let entries = Arc::clone(entries);
        let (kept, logged) = (AtomicBool::new(false), AtomicBool::new(false));
        Watched { spool: self, id, token, entries, kept, logged }
    }

    fn fault(&self, source: io::Error) -> SpoolError {
        SpoolError::Directory { dir: self.dir.path().display().to_string(), source }
    }
}

/// The facts of one send on their way to the database.
#[derive(Debug)]
pub struct Watched<'a> {
    spool: &'a Spool,
    id: Uuid,
    token: &'a str,
    entries: Arc<Entries>,
    /// The spool file exists.
    kept: AtomicBool,
    /// The failure to write the file was logged.
    logged: AtomicBool,
}

impl Watched<'_> {
    /// Runs one try to record the facts: where it fails or takes long, they are spooled.
    ///
    /// # Errors
    /// Errors of `recording`.
    pub async fn over<T>(&self, recording: impl Future<Output = Result<T, DbError>>) -> Result<T, DbError> {
        if !self.has_facts() {
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

    /// Whether there are facts.
    #[must_use]
    pub fn has_facts(&self) -> bool {
        !self.entries.facts.is_empty()
    }

    /// Number of facts.
    #[must_use]
    pub fn facts(&self) -> usize {
        self.entries.facts.len()
    }

    /// Whether the facts lie in the spool.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Relaxed)
    }

    /// Removes the spool file once the facts stand in the database.
    pub async fn recorded(&self) {
        if !self.is_kept() {
            return;
        }
        let Some(sheet) = self.sheet() else { return };
        let name = sheet.file_name();
        if let Err(error) = self.spool.dir.remove(&name).await {
            // The next pass records the facts once more, and their nonce identifies them.
            tracing::warn!(submission_id = %sheet.submission_id, "a spool file stays behind: {error}");
        }
        self.spool.kept.forget(sheet.submission_id, &name);
    }

    /// Keeps facts whose row is not visible, and logs whether the row is gone.
    pub async fn without_row(&self, store: &Store) {
        let Some(sheet) = self.sheet() else { return };
        self.keep().await;
        if self.is_kept()
            && let Err(error) = self.spool.judge(store, &sheet.file_name()).await
        {
            tracing::warn!(
                submission_id = %sheet.submission_id,
                "whether its row is gone is not known yet, it is looked for again: {}",
                scrub(&error.to_string())
            );
        }
    }

    /// The facts as a file has them; made only where there is one, which is seldom.
    fn sheet(&self) -> Option<Sheet> {
        Sheet::of(self.id, self.token, &self.entries.facts)
    }

    async fn keep(&self) {
        if self.is_kept() {
            return;
        }
        let Some(sheet) = self.sheet() else { return };
        match self.spool.dir.write(&sheet.file_name(), sheet.encode()).await {
            Ok(()) => {
                self.spool.kept.add(sheet.submission_id, &sheet.file_name());
                self.kept.store(true, Ordering::Relaxed);
                journal::spooled(sheet.submission_id, sheet.facts.len());
            }
            Err(source) => {
                if !self.logged.swap(true, Ordering::Relaxed) {
                    let fault = self.spool.fault(source);
                    journal::not_spooled(sheet.submission_id, sheet.facts.len(), &fault);
                }
            }
        }
    }
}
