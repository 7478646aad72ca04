//! Jobs: rows taken on a lease, worked on, and settled in batches; once for all lifecycles and kinds.
//!
//! A [`Consumer`] has two tasks: one claims while there is room, one settles and extends leases (`settler`). A row dropped
//! without an answer is released. If we die, leases run out and the rows are worked on again; a settlement that comes too
//! late meets the fence. A consumer never leases more than `most` rows, and never waits for an answer. A room that only has
//! a function to run for each row leaves the rest to [`works`].

pub mod listener;
mod poll;
pub mod retries;
mod settler;
pub mod works;

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use self::listener::Listener;
use self::poll::PollInterval;
use self::retries::{Ending, Retries};
use self::settler::Settler;
use super::rows::{Kinds, Row, Rows, Stored, Woken, Write};
use crate::db::{DbError, DbErrorKind};
use crate::ops::rng::Rng;
use crate::ports::Clock;
use crate::scrub::scrub;

/// Rows claimed, or settled, in one transaction.
const BATCH: usize = 256;
/// Rows woken in one transaction.
const PAGE: usize = 1000;
/// Pause after a fault of the database.
const REST: Duration = Duration::from_secs(1);

/// The bounds within which rows are claimed.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Rows leased at once.
    pub most: usize,
    /// The time for which a claim lasts unless it is extended.
    pub lease: Duration,
    /// Time between two looks for rows that are due again or were left behind. New rows are looked for more often.
    pub poll: Duration,
    /// Pauses and number of attempts.
    pub retries: Retries,
    /// The longest pause between two looks for new rows, where none has come for long: at most that long does the first one wait.
    pub idle: Duration,
}

/// [`Settings::idle`] where nobody waits for a row.
pub const IDLE: Duration = Duration::from_millis(250);

/// The room's observer: counts, and logs what an operator has to know of.
pub trait Observer<L: Stored>: Debug + Send + Sync {
    /// Rows were claimed, this many.
    fn claimed(&self, rows: usize);

    /// Timers have fired.
    fn woken(&self, woken: Woken);

    /// A job has ended; `ours` is whether its lease was still valid.
    fn settled(&self, row: &Row<L>, write: &Write<L>, ours: bool);

    /// A batch of settlements has ended: rows that were written, and rows that the database refuses and that come again.
    fn written(&self, took: &[&Row<L>], refused: &[(&Row<L>, &DbError)]);
}

/// The dependencies of a consumer.
#[derive(Debug, Clone)]
pub struct ConsumerParts<L: Stored> {
    /// The rows.
    pub rows: Rows<L>,
    /// The state in which rows wait.
    pub from: L::State,
    /// The kinds of rows to claim.
    pub kinds: Kinds,
    /// The bounds within which rows are claimed.
    pub settings: Settings,
    /// The clock of pauses and leases.
    pub clock: Arc<dyn Clock>,
    /// Spreads the pauses, makes the fences.
    pub rng: Arc<Rng>,
    /// Receives what happens to the rows.
    pub observer: Arc<dyn Observer<L>>,
}

/// A source of rows to work on. Dropping it stops claiming, and releases what was not handed out.
#[derive(Debug)]
pub struct Consumer<L: Stored> {
    rows: mpsc::Receiver<Leased<L>>,
    flow: watch::Sender<Flow>,
    settling: JoinHandle<()>,
    halt: DropGuard,
}

/// The number of rows that a look may claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// As many as there is room for.
    Full,
    /// One row, to see whether it succeeds.
    Trickle,
    /// None.
    Shut,
}

/// A row leased to this process. Dropping it releases the row.
#[derive(Debug)]
pub struct Leased<L: Stored> {
    /// The row.
    pub row: Row<L>,
    answer: Option<(mpsc::UnboundedSender<Answer<L>>, OwnedSemaphorePermit)>,
}

/// A row and how its job ended; its permit is free again when the answer is written.
#[derive(Debug)]
struct Answer<L: Stored> {
    row: Row<L>,
    ending: Ending<L>,
    _room: OwnedSemaphorePermit,
}

impl<L: Stored> Leased<L> {
    /// Ends the job. Returns at once; a job whose end cannot be written is done again.
    pub fn settle(mut self, ending: Ending<L>) {
        self.answer(ending);
    }

    fn answer(&mut self, ending: Ending<L>) {
        if let Some((answers, room)) = self.answer.take() {
            // Without a settler the lease runs out.
            drop(answers.send(Answer { row: self.row.clone(), ending, _room: room }));
        }
    }
}

impl<L: Stored> Drop for Leased<L> {
    fn drop(&mut self) {
        self.answer(Ending::Again);
    }
}

impl<L: Stored> Consumer<L> {
    /// Starts claiming rows, and looks at once when `listener` is notified. Must be called inside a tokio runtime.
    #[must_use]
    pub fn start(parts: ConsumerParts<L>, listener: Listener) -> Self {
        let (ready, rows) = mpsc::channel(parts.settings.most.max(1));
        let (answers, answered) = mpsc::unbounded_channel();
        let (flow, flows) = watch::channel(Flow::Full);
        let (halt, leases) = (CancellationToken::new(), Leases::default());
        let claiming = Claiming {
            parts: parts.clone(),
            listener,
            ready,
            answers,
            leases: leases.clone(),
            room: Arc::new(Semaphore::new(parts.settings.most)),
            flows,
            halt: halt.clone(),
        };
        tokio::spawn(claiming.run());
        let settling = tokio::spawn(Settler { parts, answered, leases, halt: halt.clone() }.run());
        Self { rows, flow, settling, halt: halt.drop_guard() }
    }

    /// Returns the next row; `None` when no more rows can be claimed. Cancel-safe.
    pub async fn next(&mut self) -> Option<Leased<L>> {
        self.rows.recv().await
    }

    /// Returns one to `most` rows, as many as are ready; none when no more rows can be claimed. Cancel-safe.
    pub async fn next_many(&mut self, most: usize) -> Vec<Leased<L>> {
        let mut rows = Vec::new();
        self.rows.recv_many(&mut rows, most).await;
        rows
    }

    /// Sets how many rows are claimed from now on. Leased rows stay leased.
    pub fn set_flow(&self, flow: Flow) {
        self.flow.send_replace(flow);
    }

    /// Stops claiming, and releases what was not handed out. Rows released from now on are free at once. A second call
    /// changes nothing.
    pub fn quiet(&mut self) {
        self.halt.token().cancel();
        self.rows.close();
        while let Ok(unseen) = self.rows.try_recv() {
            drop(unseen);
        }
    }

    /// [`Self::quiet`], then waits until everything handed out is answered and written; returns whether that was in time.
    pub async fn stop(mut self, timeout: Duration) -> bool {
        self.quiet();
        tokio::time::timeout(timeout, &mut self.settling).await.is_ok()
    }
}

/// The leased rows, with their fences.
#[derive(Debug, Clone)]
struct Leases<I>(Arc<Mutex<HashMap<I, Uuid>>>);

impl<I> Default for Leases<I> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<I> Leases<I> {
    fn lock(&self) -> MutexGuard<'_, HashMap<I, Uuid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that claims rows.
struct Claiming<L: Stored> {
    parts: ConsumerParts<L>,
    listener: Listener,
    ready: mpsc::Sender<Leased<L>>,
    answers: mpsc::UnboundedSender<Answer<L>>,
    leases: Leases<L::Id>,
    room: Arc<Semaphore>,
    flows: watch::Receiver<Flow>,
    halt: CancellationToken,
}

impl<L: Stored> Claiming<L> {
    /// Runs until it is halted, or the table is gone. A claim is never cancelled in the middle: its rows would stay unknown
    /// until their lease runs out.
    async fn run(mut self) {
        let (clock, settings) = (Arc::clone(&self.parts.clock), self.parts.settings);
        let mut interval = PollInterval::new(settings.idle, settings.poll, clock.monotonic());
        let (mut wake_at, mut expected, mut notified) = (clock.monotonic(), true, false);
        while !self.halt.is_cancelled() {
            let flow = *self.flows.borrow_and_update();
            let (taken, took) = match self.look(flow, &mut wake_at, expected).await {
                Ok(looked) => {
                    if std::mem::take(&mut notified) {
                        tracing::info!("{}: rows are taken again", L::NAME);
                    }
                    looked
                }
                Err(error) if is_gone(&error) => {
                    tracing::warn!(
                        "{}: there are no rows to take any more: {}",
                        L::NAME,
                        scrub(&error.to_string())
                    );
                    return;
                }
                Err(error) => {
                    if !std::mem::replace(&mut notified, true) {
                        tracing::warn!(
                            "{}: no rows can be taken, it is tried again: {}",
                            L::NAME,
                            scrub(&error.to_string())
                        );
                    }
                    clock.sleep(REST).await;
                    continue;
                }
            };
            // A claim in vain is a transaction, a look one read; and where some have come the next may not be here yet.
            expected = taken == Taken::All;
            if expected {
                continue;
            }
            let pause = interval.rest(taken == Taken::Some, took, clock.monotonic());
            tokio::select! {
                biased;
                () = self.halt.cancelled() => {}
                () = self.listener.notifications(), if flow != Flow::Shut => expected = true,
                () = clock.sleep(pause), if flow != Flow::Shut => {}
                changed = self.flows.changed() => if changed.is_err() { return },
            }
        }
    }

    /// One look: wakes what is due once a poll, then claims what there is room for; returns how long the database took.
    /// Unless rows are `expected`, a cheaper read first shows whether any wait.
    async fn look(
        &mut self,
        flow: Flow,
        wake_at: &mut Instant,
        mut expected: bool,
    ) -> Result<(Taken, Duration), DbError> {
        let nothing = Ok((Taken::Nothing, Duration::ZERO));
        let most = match flow {
            Flow::Full => BATCH,
            Flow::Trickle => 1,
            Flow::Shut => return nothing,
        };
        let room = self.halt.run_until_cancelled(Arc::clone(&self.room).acquire_owned()).await;
        let Some(Ok(mut room)) = room else { return nothing };
        let more = self.room.available_permits().min(most - 1);
        if let Ok(more) = Arc::clone(&self.room).try_acquire_many_owned(u32::try_from(more).unwrap_or(0)) {
            room.merge(more);
        }
        let ConsumerParts { rows: store, from, kinds, settings, clock, rng, observer } = &self.parts;
        let began = clock.monotonic();
        if began >= *wake_at {
            *wake_at = began + settings.poll;
            observer.woken(store.wake(PAGE).await?);
            expected = true;
        }
        let wanted = room.num_permits();
        let mut rows = Vec::new();
        if expected || store.waits(*from, kinds).await? {
            rows = store.claim(*from, kinds, wanted, settings.lease, rng.uuid()).await?;
            observer.claimed(rows.len());
        }
        let took = clock.monotonic().saturating_duration_since(began);
        let taken = match rows.len() {
            0 => Taken::Nothing,
            all if all == wanted && flow == Flow::Full => Taken::All,
            _ => Taken::Some,
        };
        self.leases.lock().extend(rows.iter().filter_map(|row| Some((row.id, row.token?))));
        for row in rows {
            let room = room.split(1).map(|room| (self.answers.clone(), room));
            // A row without a receiver is dropped here, and thereby released.
            drop(self.ready.send(Leased { row, answer: room }).await);
        }
        Ok((taken, took))
    }
}

/// The yield of a look.
#[derive(PartialEq, Eq)]
enum Taken {
    /// As many rows as were asked for.
    All,
    Some,
    Nothing,
}

/// Whether the schema was removed, or withdrawn from this role.
fn is_gone(error: &DbError) -> bool {
    error.kind() == DbErrorKind::Contract
}
