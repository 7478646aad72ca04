//! Where pauses are kept, and how a running daemon comes to know of them.
//!
//! Kept in table `router.pauses` where it is there, else in `pauses.json` in the state directory, which counts for this
//! host alone; read from both, so that a pause survives the day the schema is added. The file is replaced as a whole, so
//! that dying in the middle leaves the old one or the new one. Never forgets a pause because it cannot read it: as long
//! as nothing is known, everything is paused; afterwards the last known state stays.
//!
//! A daemon says what it goes by, in `router.daemons`, else in files beside `pauses.json`: who changes something waits for that.
//! A daemon that dies leaves a sign of life that gets old.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jiff::Timestamp;

use super::pause::{Pause, Pauses, Scope};
use super::presence::{BEAT, FORGOTTEN, Identity, Presence, Standing};
use super::store::pauses::{PauseTable, Shelf};
use crate::db::DbError;
use crate::journal;
use crate::ops::gate::{Gate, Shut};
use crate::ops::metrics::{self, PauseScope};
use crate::ops::state_dir::{Entry, StateDir, open_for_owner};
use crate::ops::telemetry::EventName;
use crate::ports::Clock;
use crate::scrub::scrub;

/// Name of the file in the state directory.
const FILE: &str = "pauses.json";
/// Between two looks of a running daemon.
const EVERY: Duration = Duration::from_secs(2);
/// Between two looks of whoever waits for the daemons.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// Directory of the daemons' signs of life, in the state directory, and what the files end in.
const DAEMONS: (&str, &str) = ("daemons", ".json");
/// A sign of life is not larger.
const SIGN_LIMIT: u64 = 4096;

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
        Ok(self.read_at().await?.0)
    }

    /// The pauses in force, and since when they have been looked at, database time: what was changed before is among them.
    async fn read_at(&self) -> Result<(Pauses, Timestamp), PauseError> {
        let Shelf { now, pauses, .. } = self.table.now().await?;
        let mut all = self.read_file()?;
        if pauses {
            all.extend(self.table.list().await?);
        }
        Ok((Pauses::in_force(all, now), now))
    }

    /// Makes a pause; answers it, and the older one of the same scope whose place it takes, where that was in force.
    ///
    /// # Errors
    /// [`PauseError`].
    pub async fn add(&self, new: NewPause) -> Result<(Pause, Option<Pause>), PauseError> {
        let Shelf { now, pauses, .. } = self.table.now().await?;
        let until = new.until.map(|until| match until {
            Until::At(at) => at,
            Until::In(pause) => now.checked_add(pause).unwrap_or(Timestamp::MAX),
        });
        let NewPause { scope, reason, actor, .. } = new;
        let pause = Pause { scope, since: now, until, reason, actor };
        if pauses {
            let (pause, replaced) = self.table.put(&pause).await?;
            return Ok((pause, replaced.filter(|old| old.is_in_force(now))));
        }
        let mut replaced = None;
        self.change_file(|all| {
            all.retain(|known| known.is_in_force(now));
            replaced = all.extract_if(.., |known| known.scope == pause.scope).last();
            all.push(pause.clone());
        })?;
        Ok((pause, replaced))
    }

    /// Ends the pause of this scope, or all; answers those that were in force.
    ///
    /// # Errors
    /// [`PauseError`].
    pub async fn end(&self, scope: Option<&Scope>) -> Result<Vec<Pause>, PauseError> {
        let Shelf { now, pauses, .. } = self.table.now().await?;
        let mut ended = if pauses { self.table.remove(scope).await? } else { Vec::new() };
        if self.path().exists() {
            self.change_file(|all| {
                let meant = |pause: &mut Pause| scope.is_none_or(|scope| pause.scope == *scope);
                ended.extend(all.extract_if(.., meant));
            })?;
        }
        ended.retain(|pause| pause.is_in_force(now));
        Ok(ended)
    }

    /// Waits, `patience` at most, until every daemon goes by what was changed before this call; answers who does. With the
    /// daemons of this host alone, where the database does not know them.
    ///
    /// # Errors
    /// [`PauseError`].
    pub async fn confirmed(
        &self,
        patience: Duration,
        clock: &dyn Clock,
    ) -> Result<(Standing, Reach), PauseError> {
        let changed = self.table.now().await?.now;
        let until = clock.monotonic() + patience;
        loop {
            let shelf = self.table.now().await?;
            let all = if shelf.daemons {
                self.table.daemons().await?
            } else {
                match self.signs().await {
                    // The change itself stands in the database.
                    Err(_) if shelf.pauses => return Ok((Standing::default(), Reach::Nobody)),
                    signs => signs?,
                }
            };
            let standing = Standing::of(&all, changed, shelf.now);
            if standing.is_settled() || clock.monotonic() >= until {
                let reach = if shelf.daemons {
                    Reach::Database
                } else if shelf.pauses {
                    Reach::HostOfSeveral
                } else {
                    Reach::Host
                };
                return Ok((standing, reach));
            }
            clock.sleep(ASK_EVERY).await;
        }
    }

    /// A daemon's sign of life: it goes by the pauses as they were at `pauses_at`.
    async fn beat(&self, of: &Identity, pauses_at: Option<Timestamp>) -> Result<(), PauseError> {
        let Shelf { now, daemons, .. } = self.table.now().await?;
        if daemons {
            return Ok(self.table.beat(of, pauses_at).await?);
        }
        let presence = Presence { of: of.clone(), seen_at: now, pauses_at };
        let text = serde_json::to_vec(&presence)
            .map_err(|source| PauseError::Damaged { path: self.daemons().path().to_owned(), source })?;
        self.forget(now).await;
        self.daemons().write(&sign(of), text).await.map_err(|source| self.sign_fault(source))
    }

    /// A daemon that is there no more.
    ///
    /// # Errors
    /// [`PauseError`]: its sign of life gets old.
    pub async fn leave(&self, of: &Identity) -> Result<(), PauseError> {
        self.daemons().remove(&sign(of)).await.map_err(|source| self.sign_fault(source))?;
        if self.table.now().await?.daemons {
            self.table.leave(of.id).await?;
        }
        Ok(())
    }

    /// The signs of life in the state directory. One that cannot be understood is nobody's: who wrote it writes it again.
    async fn signs(&self) -> Result<Vec<Presence>, PauseError> {
        let mut all = Vec::new();
        let entries = self.daemons().entries().await.map_err(|source| self.sign_fault(source))?;
        let named = |entry: Entry| entry.name.into_string().ok().filter(|name| name.ends_with(DAEMONS.1));
        for name in entries.into_iter().filter(|entry| entry.is_file).filter_map(named) {
            let text = self.daemons().read(&name, SIGN_LIMIT).await;
            let text = text.map_err(|source| self.sign_fault(source))?;
            all.extend(text.and_then(|text| serde_json::from_slice::<Presence>(&text).ok()));
        }
        Ok(all)
    }

    /// Removes the signs of those who are long gone. What cannot be removed is in nobody's way.
    async fn forget(&self, now: Timestamp) {
        for presence in self.signs().await.unwrap_or_default() {
            if presence.seen_at < now && now.duration_since(presence.seen_at).unsigned_abs() >= FORGOTTEN {
                drop(self.daemons().remove(&sign(&presence.of)).await);
            }
        }
    }

    fn daemons(&self) -> StateDir {
        StateDir::new(&self.dir).below(DAEMONS.0)
    }

    fn sign_fault(&self, source: io::Error) -> PauseError {
        PauseError::File { path: self.daemons().path().to_owned(), source }
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

/// File of a daemon's sign of life.
fn sign(of: &Identity) -> String {
    format!("{}{}", of.id, DAEMONS.1)
}

/// Which daemons could be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// All of this database.
    Database,
    /// Those of this host, whose pauses count for it alone.
    Host,
    /// Those of this host, and there may be others that go by the same pauses.
    HostOfSeveral,
    /// None: the state directory may not be read.
    Nobody,
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
    /// Whose signs of life are given.
    of: Identity,
    /// Read at least once.
    known: bool,
    /// As of when what the board shows was read, database time.
    read_at: Option<Timestamp>,
    /// The last sign of life said that.
    beaten_at: Option<Timestamp>,
    /// When something was last found changed, database time.
    changed_at: Option<Timestamp>,
    /// The same fault is told once.
    told: Option<String>,
    /// That no sign of life can be given is told once.
    mute: bool,
}

impl PauseWatch {
    /// Nothing is read yet, so the gate is shut.
    #[must_use]
    pub fn new(book: PauseBook, board: PauseBoard, gate: Gate, of: Identity) -> Self {
        gate.close(Shut::Paused);
        Self {
            book,
            board,
            gate,
            of,
            known: false,
            read_at: None,
            beaten_at: None,
            changed_at: None,
            told: None,
            mute: false,
        }
    }

    /// Looks every two seconds, until it is dropped.
    pub async fn run(mut self, clock: Arc<dyn Clock>) {
        loop {
            self.look().await;
            clock.sleep(EVERY).await;
        }
    }

    /// Looks once, and gives a sign of life when it is time for one.
    pub async fn look(&mut self) {
        match self.book.read_at().await {
            Ok((pauses, now)) => {
                self.told = None;
                let changed = self.follow(pauses);
                self.read_at = Some(now);
                let due = self
                    .beaten_at
                    .is_none_or(|last| now < last || now.duration_since(last).unsigned_abs() >= BEAT);
                if changed {
                    self.changed_at = Some(now);
                }
                // Whoever made the change may ask for a reading that is younger than the one that found it.
                let recent = self.changed_at.is_some_and(|at| now.duration_since(at).unsigned_abs() < BEAT);
                if changed || due || recent {
                    self.beat().await;
                }
            }
            Err(error) => {
                let said = scrub(&error.to_string());
                let follows = if self.known { "the last known pauses stay" } else { "everything is paused" };
                if self.told.as_ref() != Some(&said) {
                    tracing::error!("pauses cannot be read, {follows}: {said}");
                    self.told = Some(said);
                }
                // Where the database answers, whoever waits for us learns that we are there and have not read them.
                if !matches!(error, PauseError::Database(_)) {
                    self.beat().await;
                }
            }
        }
    }

    async fn beat(&mut self) {
        match self.book.beat(&self.of, self.read_at).await {
            Ok(()) => (self.beaten_at, self.mute) = (self.read_at, false),
            Err(error) => {
                if !std::mem::replace(&mut self.mute, true) {
                    tracing::warn!(
                        "`pause` and `resume` cannot learn what this daemon goes by: {}",
                        scrub(&error.to_string())
                    );
                }
            }
        }
    }

    /// Answers whether something has changed.
    fn follow(&mut self, pauses: Pauses) -> bool {
        let before = self.board.now();
        let changes = !self.known || *before != pauses;
        if changes {
            tell(&before, &pauses);
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            pauses.iter().for_each(|pause| *counts.entry(pause.scope.label()).or_default() += 1);
            for scope in PauseScope::ALL {
                metrics::paused(*scope, counts.get(scope.label()).copied().unwrap_or_default());
            }
            // The board before the gate: whoever passes sees what is paused.
            let all = pauses.of_all().is_some();
            self.board.set(pauses);
            if all { self.gate.close(Shut::Paused) } else { self.gate.open(Shut::Paused) }
        }
        self.known = true;
        changes
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
