//! A run of the collector: what earlier runs owe, what has ended, the mark, the sweep.
//!
//! One run at a time, in pages, each page a transaction; no transaction is open while the store is asked. Intent, effect, fact: a blob's
//! state is deleted first, then its object, then the answer is recorded with a receipt. If we die in between, the next run asks the
//! store again, by the same generation. A run that lost its place to another changes nothing any more: the schema asks for its lease.
//! One object that cannot be deleted, or one row that cannot be emptied, stops nobody.

mod blobs;
mod rows;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio_util::sync::CancellationToken;

use super::counts::Counts;
use super::journal::EventName;
use super::store::RetentionStore;
use super::store::runs::{Begun, Ours, Run, RunState};
use crate::db::DbError;
use crate::gateway::objects::store::{ObjectStore, StoreError};
use crate::journal;
use crate::ops::rng::Rng;
use crate::ports::Clock;
use crate::scrub::scrub;

/// Rows of a page.
const PAGE: usize = 500;
/// Lease of a run, extended with each page. A page of objects that each take the longest time takes longer: then another run may take
/// the place, and pays what this one owes.
const LEASE: Duration = Duration::from_secs(300);

/// The collector. Cheap to clone.
#[derive(Clone)]
pub struct Collector {
    /// The rows, as the collector's role.
    pub store: RetentionStore,
    /// The objects, as the collector's account.
    pub objects: Arc<ObjectStore>,
    /// Names runs.
    pub rng: Arc<Rng>,
    /// Whoever runs it.
    pub actor: String,
    /// How long a blob can be taken back.
    pub grace: Duration,
    /// Pause after a page of submissions, as a multiple of the time that it took.
    pub rest: u32,
    /// The clock of pauses.
    pub clock: Arc<dyn Clock>,
    /// Told after each page.
    pub progress: Arc<dyn Fn(&Counts) + Send + Sync>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// It came to its end; its number, and what it did.
    Done(i64, Counts),
    /// It was asked to stop, and left the rest to the next.
    Stopped(i64, Counts),
    /// Another is at work.
    Busy(Box<Run>),
}

/// Why a run failed. The next one goes on.
#[derive(Debug, Error)]
pub enum RunError {
    /// The database.
    #[error(transparent)]
    Database(#[from] DbError),
    /// The store did nothing that was asked of a whole page, and will not do the next: it is away, or our account may not.
    #[error("{0}")]
    Store(StoreError),
    /// Another run has taken its place.
    #[error("its lease ran out, and another run has taken its place")]
    Lost,
}

/// The stop between two pages.
enum Cut {
    Stopped,
    Failed(RunError),
}

impl<E: Into<RunError>> From<E> for Cut {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// A run under way.
struct Course<'a> {
    of: &'a Collector,
    ours: Ours,
    state: RunState,
    counts: Counts,
    /// How long each bucket keeps what is deleted.
    soft_delete: BTreeMap<String, Duration>,
    stop: &'a CancellationToken,
}

impl Collector {
    /// Runs once, until it is done or `stop`.
    ///
    /// # Errors
    /// [`RunError`]; what was done by then stands, and the run's row says why it failed where the database can be asked.
    pub async fn run(&self, stop: &CancellationToken) -> Result<Ended, RunError> {
        let token = self.rng.uuid();
        let (ours, over) = match self.store.begin(&self.actor, token, LEASE, self.grace).await? {
            Begun::Ours(ours, over) => (ours, over),
            Begun::Busy(run) => return Ok(Ended::Busy(run)),
        };
        if let Some(over) = over {
            tracing::warn!(
                "run {over} of the collector was left open, and its lease ran out: this one goes on"
            );
        }
        let state = RunState::Marking;
        let mut course =
            Course { of: self, ours, state, counts: Counts::default(), soft_delete: BTreeMap::new(), stop };
        let ended = course.run().await;
        let counts = course.counts;
        let (state, trouble, result) = match ended {
            Ok(()) => (RunState::Done, None, Ok(Ended::Done(ours.id, counts.clone()))),
            // A host that goes down stops its run: nobody has to be woken for that.
            Err(Cut::Stopped) => (RunState::Stopped, None, Ok(Ended::Stopped(ours.id, counts.clone()))),
            Err(Cut::Failed(error)) => (RunState::Failed, Some(scrub(&error.to_string())), Err(error)),
        };
        // Where the database is the trouble, the lease says so.
        if let Err(error) = self.store.end_run(ours, state, &counts.document(), trouble.as_deref()).await {
            tracing::warn!("run {}: its end is not recorded: {}", ours.id, scrub(&error.to_string()));
        }
        told(ours.id, state, &counts, trouble.as_deref());
        result
    }
}

impl Course<'_> {
    async fn run(&mut self) -> Result<(), Cut> {
        self.settle_debts().await?;
        self.left_overs().await?;
        self.recalls().await?;
        self.forget().await?;
        for own in [true, false] {
            self.purge(own).await?;
        }
        self.release().await?;
        self.mark_left().await?;
        self.mark_due().await?;
        self.state = RunState::Sweeping;
        self.turn().await?;
        self.sweep().await
    }

    /// Leaves the database to the routing for some time after a page that took so long.
    async fn rest(&self, took: Duration) {
        let rest = took.saturating_mul(self.of.rest).min(LEASE / 2);
        self.stop.run_until_cancelled(self.of.clock.sleep(rest)).await;
    }

    /// Between two pages: whether the place is still ours, and whether somebody asked to stop.
    async fn turn(&mut self) -> Result<(), Cut> {
        (self.of.progress)(&self.counts);
        if self.stop.is_cancelled() {
            return Err(Cut::Stopped);
        }
        let counts = self.counts.document();
        if self.of.store.extend_run(self.ours, LEASE, self.state, &counts).await? {
            return Ok(());
        }
        Err(RunError::Lost.into())
    }
}

fn told(run: i64, state: RunState, counts: &Counts, trouble: Option<&str>) {
    let words = counts.words();
    match trouble {
        None => journal!(
            info,
            EventName::GcRun,
            run,
            purged = counts.purged,
            deleted = counts.deleted,
            "run {run} of the collector is {state}: {words}"
        ),
        Some(trouble) => journal!(
            warn,
            EventName::GcRunFailed,
            run,
            purged = counts.purged,
            deleted = counts.deleted,
            "run {run} of the collector has ended early: {trouble}. Until then: {words}. The next run goes on from here"
        ),
    }
}
