//! The pause store, and the watch by which a running daemon learns of pauses.
//!
//! Pauses are stored in table `router.pauses` where it exists, else in `pauses.json` in the state directory, which
//! counts for this host alone; both are read, so that a pause survives the day the schema is added. The file is replaced
//! as a whole, so that dying in the middle leaves the old one or the new one. An unreadable pause is never dropped:
//! before the first read everything is paused; afterwards the last known state stays.
//!
//! A daemon reports the pauses it has read, in `router.daemons`, else in files beside `pauses.json`: `pause` and
//! `resume` wait for that. A daemon that dies leaves a sign of life that gets old.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::db::DbError;
use crate::journal;
use crate::ops::gate::{Gate, Shut};
use crate::ops::state_dir::{Entry, StateDir, open_for_owner};
use crate::ports::Clock;
use crate::routing::metrics::{self, PauseScope};
use crate::routing::pause::presence::{self, BEAT, FORGOTTEN, Identity, Presence, Standing};
use crate::routing::pause::{Pause, PauseBoard, Pauses, Scope};
use crate::routing::store::pauses::{PauseTable, Shelf};
use crate::routing::words::EventName;
use crate::scrub::scrub;

/// Name of the file in the state directory.
const FILE: &str = "pauses.json";
/// Interval of looks of a running daemon.
const EVERY: Duration = Duration::from_secs(2);
/// Interval of looks while `pause` or `resume` waits for the daemons.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// Directory of the daemons' signs of life, in the state directory, and the ending of their names.
const DAEMONS: (&str, &str) = ("daemons", ".json");
/// Largest size of a sign of life, in bytes.
const SIGN_LIMIT: u64 = 4096;

/// Error of the pause store.
#[derive(Debug, thiserror::Error)]
pub enum PauseError {
    /// Error of the database.
    #[error("pauses: {0}")]
    Database(#[from] DbError),
    /// Error of the file, or its directory.
    #[error("pauses in {path}: {source}; the state directory ([state] dir) must exist and be ours to write")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file is not a list of pauses.
    #[error("{path} cannot be understood ({source}): mend it, or move it away and pause again")]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Error of the parser.
        source: serde_json::Error,
    },
}

/// A pause to be made.
#[derive(Debug, Clone)]
pub struct NewPause {
    /// Scope of the pause.
    pub scope: Scope,
    /// End, where one is given.
    pub until: Option<Until>,
    /// Reason given by the operator.
    pub reason: String,
    /// Operator who makes the pause.
    pub actor: String,
}

/// An end, as people give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// This instant.
    At(Timestamp),
    /// A duration from now, by the database's clock.
    In(Duration),
}

/// Store of pauses.
#[derive(Debug, Clone)]
pub struct PauseStore {
    table: PauseTable,
    dir: PathBuf,
}

impl PauseStore {
    /// Uses a database and a state directory.
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

    /// Reads the pauses in force, with the time of the read, database time: changes before it are included.
    async fn read_at(&self) -> Result<(Pauses, Timestamp), PauseError> {
        let Shelf { now, pauses, .. } = self.table.now().await?;
        let mut all = self.read_file()?;
        if pauses {
            all.extend(self.table.list().await?);
        }
        Ok((Pauses::in_force(all, now), now))
    }

    /// Makes a pause; returns it, and the one of the same scope that it replaces, where that was in force.
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

    /// Ends the pause of this scope, or all; returns those that were in force.
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

    /// Waits, `patience` at most, until every daemon has read changes made before this call; returns the daemons by
    /// that. Covers the daemons of this host alone, where the database does not know them.
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
                    // The change itself is stored in the database.
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

    /// Number of daemons that are not known to be gone: all of the database's, or this host's where the database does not know
    /// them.
    ///
    /// # Errors
    /// [`PauseError`].
    pub async fn living(&self) -> Result<usize, PauseError> {
        let Shelf { now, daemons, .. } = self.table.now().await?;
        let all = if daemons { self.table.daemons().await? } else { self.signs().await? };
        Ok(presence::living(&all, now))
    }

    /// Writes a daemon's sign of life: its pauses were read at `pauses_at`.
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

    /// Removes the sign of life of a daemon that ends.
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

    /// The signs of life in the state directory. An unreadable one is skipped: its daemon writes it again.
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

    /// Removes signs of daemons long gone. One that cannot be removed does no harm.
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

    /// Serialises the changes of several operators.
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

/// Daemons that the confirmation covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// All daemons of this database.
    Database,
    /// Daemons of this host, whose pauses count for it alone.
    Host,
    /// Daemons of this host, although others may share the same pauses.
    HostOfSeveral,
    /// None: the state directory may not be read.
    Nobody,
}

/// Writes a new file, flushes it, then renames it over the old one.
fn replace(dir: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = dir.join("pauses.json.new");
    let mut file = open_for_owner(&beside, OpenOptions::new().write(true).create(true).truncate(true))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&beside, dir.join(FILE))?;
    File::open(dir)?.sync_all()
}

/// Keeps a daemon's board, gate and metrics in step with the pause store. Dropping it changes nothing any more.
#[derive(Debug)]
pub struct PauseWatch {
    store: PauseStore,
    board: PauseBoard,
    gate: Gate,
    /// Identity in the signs of life.
    of: Identity,
    /// Whether the pauses were read at least once.
    known: bool,
    /// Read time of the board's pauses, database time.
    read_at: Option<Timestamp>,
    /// Read time in the last sign of life.
    beaten_at: Option<Timestamp>,
    /// Time at which the last change was seen, database time.
    changed_at: Option<Timestamp>,
    /// Last fault logged, so that each is logged once.
    logged: Option<String>,
    /// Whether the failure of signs of life is logged.
    mute: bool,
}

impl PauseWatch {
    /// Starts without a read, so the gate is shut.
    #[must_use]
    pub fn new(store: PauseStore, board: PauseBoard, gate: Gate, of: Identity) -> Self {
        gate.close(Shut::Paused);
        Self {
            store,
            board,
            gate,
            of,
            known: false,
            read_at: None,
            beaten_at: None,
            changed_at: None,
            logged: None,
            mute: false,
        }
    }

    /// Looks every two seconds, until dropped.
    pub async fn run(mut self, clock: Arc<dyn Clock>) {
        loop {
            self.look().await;
            clock.sleep(EVERY).await;
        }
    }

    /// Looks once, and writes a sign of life when one is due.
    pub async fn look(&mut self) {
        match self.store.read_at().await {
            Ok((pauses, now)) => {
                self.logged = None;
                let changed = self.follow(pauses);
                self.read_at = Some(now);
                let due = self
                    .beaten_at
                    .is_none_or(|last| now < last || now.duration_since(last).unsigned_abs() >= BEAT);
                if changed {
                    self.changed_at = Some(now);
                }
                // `pause` may ask for a read that is younger than the one that saw its change.
                let recent = self.changed_at.is_some_and(|at| now.duration_since(at).unsigned_abs() < BEAT);
                if changed || due || recent {
                    self.beat().await;
                }
            }
            Err(error) => {
                let said = scrub(&error.to_string());
                let follows = if self.known { "the last known pauses stay" } else { "everything is paused" };
                if self.logged.as_ref() != Some(&said) {
                    tracing::error!("pauses cannot be read, {follows}: {said}");
                    self.logged = Some(said);
                }
                // Waiting operators learn, as long as the database answers, that this daemon runs and has not read the pauses.
                if !matches!(error, PauseError::Database(_)) {
                    self.beat().await;
                }
            }
        }
    }

    async fn beat(&mut self) {
        match self.store.beat(&self.of, self.read_at).await {
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

    /// Returns whether the pauses have changed.
    fn follow(&mut self, pauses: Pauses) -> bool {
        let before = self.board.now();
        let changes = !self.known || *before != pauses;
        if changes {
            tell(&before, &pauses);
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            pauses.iter().for_each(|pause| *counts.entry(pause.scope.label()).or_default() += 1);
            for scope in PauseScope::ALL {
                metrics::PAUSED.set(*scope, counts.get(scope.label()).copied().unwrap_or_default());
            }
            // The board changes before the gate opens: every claim that passes sees the pauses.
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
            "paused: {}; what it defers waits and spends no attempt; `{}` ends it",
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
            "resumed: {}; what it deferred comes back",
            pause.scope
        );
    }
}
