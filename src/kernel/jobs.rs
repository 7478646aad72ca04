//! Jobs: rows taken on a lease, worked on, and settled in batches; once for all lifecycles and kinds.
//!
//! Two tasks of a [`Consumer`]: one claims while there is room, one settles and makes leases longer (`settler`). A row that is
//! dropped without an answer goes back. If we die, leases run out and the rows are worked on again; a settlement that comes too
//! late meets the fence. Never holds more than `most` rows, and never waits for the one who answers. Who only has a function to
//! run for each row lets [`works`] do the rest.

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
use crate::ops::chance::Chance;
use crate::ports::Clock;
use crate::scrub::scrub;

/// Rows taken, or settled, in one transaction.
const BATCH: usize = 256;
/// Rows woken in one transaction.
const PAGE: usize = 1000;
/// Rest after a fault of the database.
const REST: Duration = Duration::from_secs(1);

/// The measure in which rows are taken.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Rows held at once.
    pub most: usize,
    /// The time a row is ours without a sign of life.
    pub lease: Duration,
    /// Between two looks for what is due again or was left behind. New rows are looked for more often.
    pub poll: Duration,
    /// When a row is tried again, and how often.
    pub retries: Retries,
}

/// The room's ear: it counts, and says what an operator has to know of.
pub trait Observer<L: Stored>: Debug + Send + Sync {
    /// So many rows were taken.
    fn claimed(&self, rows: usize);

    /// Timers have fired.
    fn woken(&self, woken: Woken);

    /// A job has ended; `ours`: its lease had not run out.
    fn settled(&self, row: &Row<L>, write: &Write<L>, ours: bool);

    /// The outcome of a batch of settlements: rows that took theirs, and rows that refuse it and come again.
    fn written(&self, took: &[&Row<L>], refused: &[(&Row<L>, &DbError)]);
}

/// The parts of a consumer.
#[derive(Debug, Clone)]
pub struct Parts<L: Stored> {
    /// The rows.
    pub rows: Rows<L>,
    /// The state they wait in.
    pub from: L::State,
    /// Which of them.
    pub kinds: Kinds,
    /// The measure in which they are taken.
    pub settings: Settings,
    /// Measures.
    pub clock: Arc<dyn Clock>,
    /// Spreads the pauses, makes the fences.
    pub rng: Arc<Chance>,
    /// Hears of them.
    pub observer: Arc<dyn Observer<L>>,
}

/// Rows to be worked on. Dropping it takes no more, and gives back what was not handed out.
#[derive(Debug)]
pub struct Consumer<L: Stored> {
    rows: mpsc::Receiver<Leased<L>>,
    flow: watch::Sender<Flow>,
    settling: JoinHandle<()>,
    halt: DropGuard,
}

/// The amount that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// As much as there is room for.
    Full,
    /// One row, to see whether it goes well.
    Trickle,
    /// Nothing.
    Shut,
}

/// A row that is ours to work on. Dropped, it comes again.
#[derive(Debug)]
pub struct Leased<L: Stored> {
    /// The row.
    pub row: Row<L>,
    answer: Option<(mpsc::UnboundedSender<Answer<L>>, OwnedSemaphorePermit)>,
}

/// A row and how its job ended; there is room for another when it is written.
#[derive(Debug)]
struct Answer<L: Stored> {
    row: Row<L>,
    ending: Ending<L>,
    _room: OwnedSemaphorePermit,
}

impl<L: Stored> Leased<L> {
    /// Ends the job. Returns at once; what cannot be written is done again.
    pub fn settle(mut self, ending: Ending<L>) {
        self.answer(ending);
    }

    fn answer(&mut self, ending: Ending<L>) {
        if let Some((answers, room)) = self.answer.take() {
            // Nobody settles any more: the lease runs out.
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
    /// Begins to take rows, and looks at once when `listener` hears something. Must be called inside a tokio runtime.
    #[must_use]
    pub fn start(parts: Parts<L>, listener: Listener) -> Self {
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

    /// The next row; `None` when there are no rows to be taken any more. Cancel-safe.
    pub async fn next(&mut self) -> Option<Leased<L>> {
        self.rows.recv().await
    }

    /// At least one row, and what else is there, up to `most`; nothing when there are no rows to be taken any more. Cancel-safe.
    pub async fn next_many(&mut self, most: usize) -> Vec<Leased<L>> {
        let mut rows = Vec::new();
        self.rows.recv_many(&mut rows, most).await;
        rows
    }

    /// Says how much is taken from now on. What is held stays held.
    pub fn set_flow(&self, flow: Flow) {
        self.flow.send_replace(flow);
    }

    /// Takes no more, and gives back what was not handed out. What is given back from now on is free at once. A second call
    /// changes nothing.
    pub fn quiet(&mut self) {
        self.halt.token().cancel();
        self.rows.close();
        while let Ok(unseen) = self.rows.try_recv() {
            drop(unseen);
        }
    }

    /// [`Self::quiet`], then waits until everything handed out is answered and written; whether that was so in time.
    pub async fn stop(mut self, timeout: Duration) -> bool {
        self.quiet();
        tokio::time::timeout(timeout, &mut self.settling).await.is_ok()
    }
}

/// Rows that are ours, with their fences.
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

/// Takes rows.
struct Claiming<L: Stored> {
    parts: Parts<L>,
    listener: Listener,
    ready: mpsc::Sender<Leased<L>>,
    answers: mpsc::UnboundedSender<Answer<L>>,
    leases: Leases<L::Id>,
    room: Arc<Semaphore>,
    flows: watch::Receiver<Flow>,
    halt: CancellationToken,
}

impl<L: Stored> Claiming<L> {
    /// Until it is halted, or there is no table any more. Never in the middle of a claim: nobody would know of its rows
    /// until their lease runs out.
    async fn run(mut self) {
        let clock = Arc::clone(&self.parts.clock);
        let mut interval = PollInterval::new(self.parts.settings.poll);
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
            if taken == Taken::All {
                continue;
            }
            expected = taken == Taken::Some;
            let pause = interval.rest(expected, took);
            tokio::select! {
                biased;
                () = self.halt.cancelled() => {}
                () = self.listener.heard(), if flow != Flow::Shut => expected = true,
                () = clock.sleep(pause), if flow != Flow::Shut => {}
                changed = self.flows.changed() => if changed.is_err() { return },
            }
        }
    }

    /// One look: wakes what is due once a poll, then takes what there is room for; with how long the database took. Unless
    /// something is `expected`, it is read first whether anything waits, which is cheaper where nothing does.
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
        let Parts { rows: store, from, kinds, settings, clock, rng, observer } = &self.parts;
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
            // Nobody takes it any more: dropped, it goes back.
            drop(self.ready.send(Leased { row, answer: room }).await);
        }
        Ok((taken, took))
    }
}

/// The amount that a look took.
#[derive(PartialEq, Eq)]
enum Taken {
    /// As much as it could.
    All,
    Some,
    Nothing,
}

/// The schema was taken back, or taken away from this role.
fn is_gone(error: &DbError) -> bool {
    error.kind() == DbErrorKind::Contract
}
