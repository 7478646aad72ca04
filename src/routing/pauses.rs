//! Where pauses are kept, and how a running daemon comes to know of them.
//!
//! Kept in table `router.pauses` where it is there, else in `pauses.json` in the state directory, which counts for this
//! host alone; read from both, so that a pause survives the day the schema is added. The file is replaced as a whole, so
//! that dying in the middle leaves the old one or the new one. Never forgets a pause because it cannot read it: as long
//! as nothing is known, everything is paused; afterwards the last known state stays.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jiff::Timestamp;

use super::pause::{Pause, Pauses, Scope};
use super::store::pauses::PauseTable;
use crate::db::DbError;
use crate::journal;
use crate::ops::gate::{Gate, Shut};
use crate::ops::metrics::{self, PauseScope};
use crate::ops::state_dir::open_for_owner;
use crate::ops::telemetry::EventName;
use crate::ports::Clock;
use crate::scrub::scrub;

/// Name of the file in the state directory.
const FILE: &str = "pauses.json";
/// Between two looks of a running daemon.
const EVERY: Duration = Duration::from_secs(2);

/// Why pauses cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum PauseError {
    /// The database.
    #[error("pauses: {0}")]
    Database(#[from] DbError),
    /// The file, or its directory.
    #[error("pauses in {path}: {source}; the state directory ([state] dir) must exist and be ours to write")]
    File {
        /// Which.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// The file is there and says nothing we understand.
    #[error("{path} cannot be understood ({source}): mend it, or move it away and pause again")]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// Pauses as the parts of a daemon see them at this moment. Cheap to clone; all clones see the same.
#[derive(Debug, Clone, Default)]
pub struct PauseBoard(Arc<RwLock<Arc<Pauses>>>);

impl PauseBoard {
    /// A board that shows these.
    #[must_use]
    pub fn of(pauses: Pauses) -> Self {
        let board = Self::default();
        board.set(pauses);
        board
    }

    /// What is in force now.
    #[must_use]
    pub fn now(&self) -> Arc<Pauses> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces it.
    pub fn set(&self, pauses: Pauses) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pauses);
    }
}

/// A pause to be made.
#[derive(Debug, Clone)]
pub struct NewPause {
    /// What.
    pub scope: Scope,
    /// Until when.
    pub until: Option<Until>,
    /// Why.
    pub reason: String,
    /// Who.
    pub actor: String,
}

/// An end, as people give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// This instant.
    At(Timestamp),
    /// So long from now, by the database's clock.
    In(Duration),
}

/// Where pauses are kept.
#[derive(Debug, Clone)]
pub struct PauseBook {
    table: PauseTable,
    dir: PathBuf,
}

impl PauseBook {
    /// Over a database and a state directory.
    #[must_use]
    pub fn new(table: PauseTable, state_dir: &Path) -> Self {
        Self { table, dir: state_dir.to_owned() }
    }

    /// The pauses in force, by database time.
    ///
    /// # Errors
    /// [`PauseError`].
    pub async fn read(&self) -> Result<Pauses, PauseError> {
        let (now, kept) = self.table.now().await?;
        let mut all = self.read_file()?;
        if kept {
            all.extend(self.table.list().await?);
        }
        Ok(Pauses::in_force(all, now))
    }

    /// Makes a pause, in the place of an older one of the same scope.
    ///
    /// # Errors
    /// [`PauseError`].
    pub async fn add(&self, new: NewPause) -> Result<Pause, PauseError> {
        let (now, kept) = self.table.now().await?;
        let until = new.until.map(|until| match until {
            Until::At(at) => at,
            Until::In(pause) => now.checked_add(pause).unwrap_or(Timestamp::MAX),
        });
        let NewPause { scope, reason, actor, .. } = new;
        let pause = Pause { scope, since: now, until, reason, actor };
        if kept {
            return Ok(self.table.put(&pause).await?);
        }
        self.change_file(|all| {
            all.retain(|known| known.scope != pause.scope && known.is_in_force(now));
            all.push(pause.clone());
        })?;
        Ok(pause)
    }

    /// Ends the pause of this scope, or all; answers those that were in force.
    ///
    /// # Errors
    /// [`PauseError`].
    pub async fn end(&self, scope: Option<&Scope>) -> Result<Vec<Pause>, PauseError> {
        let (now, kept) = self.table.now().await?;
        let mut ended = if kept { self.table.remove(scope).await? } else { Vec::new() };
        if self.path().exists() {
            self.change_file(|all| {
                let meant = |pause: &mut Pause| scope.is_none_or(|scope| pause.scope == *scope);
                ended.extend(all.extract_if(.., meant));
            })?;
        }
        ended.retain(|pause| pause.is_in_force(now));
        Ok(ended)
    }

    fn path(&self) -> PathBuf {
        self.dir.join(FILE)
    }

    fn read_file(&self) -> Result<Vec<Pause>, PauseError> {
        let path = self.path();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(PauseError::File { path, source }),
        };
        serde_json::from_str(&text).map_err(|source| PauseError::Damaged { path, source })
    }

    /// Two operators at once: one after the other.
    fn change_file(&self, change: impl FnOnce(&mut Vec<Pause>)) -> Result<(), PauseError> {
        let fault = |source| PauseError::File { path: self.path(), source };
        let locked = self.dir.join("pauses.lock");
        let lock = open_for_owner(&locked, OpenOptions::new().write(true).create(true).truncate(true))
            .map_err(fault)?;
        lock.lock().map_err(fault)?;
        let mut all = self.read_file()?;
        change(&mut all);
        let text = serde_json::to_string_pretty(&all)
            .map_err(|source| PauseError::Damaged { path: self.path(), source })?;
        replace(&self.dir, text.as_bytes()).map_err(fault)
    }
}

/// Beside it, flushed, then renamed over it.
fn replace(dir: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = dir.join("pauses.json.new");
    let mut file = open_for_owner(&beside, OpenOptions::new().write(true).create(true).truncate(true))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&beside, dir.join(FILE))?;
    File::open(dir)?.sync_all()
}

/// Keeps a daemon's board, gate and metrics as the book says. Dropping it changes nothing any more.
#[derive(Debug)]
pub struct PauseWatch {
    book: PauseBook,
    board: PauseBoard,
    gate: Gate,
    /// Read at least once.
    known: bool,
    /// The same fault is told once.
    told: Option<String>,
}

impl PauseWatch {
    /// Nothing is read yet, so the gate is shut.
    #[must_use]
    pub fn new(book: PauseBook, board: PauseBoard, gate: Gate) -> Self {
        gate.close(Shut::Paused);
        Self { book, board, gate, known: false, told: None }
    }

    /// Looks every two seconds, until it is dropped.
    pub async fn run(mut self, clock: Arc<dyn Clock>) {
        loop {
            self.look().await;
            clock.sleep(EVERY).await;
        }
    }

    /// Looks once.
    pub async fn look(&mut self) {
        match self.book.read().await {
            Ok(pauses) => {
                self.told = None;
                self.follow(pauses);
            }
            Err(error) => {
                let said = scrub(&error.to_string());
                let follows = if self.known { "the last known pauses stay" } else { "everything is paused" };
                if self.told.as_ref() != Some(&said) {
                    tracing::error!("pauses cannot be read, {follows}: {said}");
                    self.told = Some(said);
                }
            }
        }
    }

    fn follow(&mut self, pauses: Pauses) {
        let before = self.board.now();
        if !self.known || *before != pauses {
            tell(&before, &pauses);
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            pauses.iter().for_each(|pause| *counts.entry(pause.scope.label()).or_default() += 1);
            for scope in PauseScope::ALL {
                metrics::paused(*scope, counts.get(scope.as_str()).copied().unwrap_or_default());
            }
            // The board before the gate: whoever passes sees what is paused.
            let all = pauses.of_all().is_some();
            self.board.set(pauses);
            if all { self.gate.close(Shut::Paused) } else { self.gate.open(Shut::Paused) }
        }
        self.known = true;
    }
}

fn tell(before: &Pauses, after: &Pauses) {
    let is_in = |pauses: &Pauses, wanted: &Pause| pauses.iter().any(|pause| pause == wanted);
    for pause in after.iter().filter(|pause| !is_in(before, pause)) {
        journal!(
            warn,
            EventName::Paused,
            scope = pause.scope.label(),
            value = pause.scope.value(),
            actor = pause.actor,
            reason = pause.reason,
            until = pause.until.map(|until| until.to_string()),
            "paused: {}; what it holds up waits and spends no attempt; `{}` ends it",
            pause.scope,
            pause.remedy()
        );
    }
    for pause in before.iter().filter(|pause| after.iter().all(|other| other.scope != pause.scope)) {
        journal!(
            info,
            EventName::Resumed,
            scope = pause.scope.label(),
            value = pause.scope.value(),
            "resumed: {}; what it held up comes back",
            pause.scope
        );
    }
}
