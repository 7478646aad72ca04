//! Takes rows from the outbox on a lease and settles them in batches: what [`relay`](super::relay) and
//! [`source`](super::source) have in common.
//!
//! Two tasks: one claims while there is room, one settles and makes leases longer. A row that is dropped without an answer
//! goes back. If we die, leases run out and the rows are delivered again; a settlement that comes too late meets the
//! fence. Never holds more than `most` rows, and never waits for the one who answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use super::bell::Bell;
use super::journal;
use super::pace::Pace;
use super::row::{Ending, Retries, Row, Settling};
use super::store::OutboxStore;
use crate::db::batch::{Batch, divided};
use crate::db::{DbError, DbErrorKind};
use crate::ops::chance::Chance;
use crate::ops::set_aside::{Refusal, SetAside, Writing};
use crate::ports::Clock;
use crate::scrub::scrub;

/// Rows taken, or settled, in one transaction.
const BATCH: usize = 256;
/// Rows woken in one transaction.
const PAGE: usize = 1000;
/// Rest after a fault of the database.
const REST: Duration = Duration::from_secs(1);

/// How rows are taken.
#[derive(Debug, Clone, Copy)]
pub struct FeedSettings {
    /// Rows held at once.
    pub most: usize,
    /// How long a row is ours without a sign of life.
    pub lease: Duration,
    /// Between two looks for what is due again or was left behind. New rows are looked for more often.
    pub poll: Duration,
    /// When a row is tried again, and how often.
    pub retries: Retries,
}

/// What a feed is made of.
#[derive(Debug, Clone)]
pub struct FeedParts {
    /// The rows.
    pub store: OutboxStore,
    /// How they are taken.
    pub settings: FeedSettings,
    /// Measures.
    pub clock: Arc<dyn Clock>,
    /// Spreads the pauses, makes the fences.
    pub chance: Arc<Chance>,
    /// Hears of rows whose settlement the database refuses.
    pub set_aside: SetAside,
}

/// Rows to be delivered. Dropping it takes no more, and gives back what was not handed out.
#[derive(Debug)]
pub struct Feed {
    rows: mpsc::Receiver<Leased>,
    flow: watch::Sender<Flow>,
    settling: JoinHandle<()>,
    halt: DropGuard,
}

/// How much is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// As much as there is room for.
    Full,
    /// One row, to see whether it can be delivered.
    Trickle,
    /// Nothing.
    Shut,
}

/// A row that is ours to deliver. Dropped, it comes again.
#[derive(Debug)]
pub struct Leased {
    /// The row.
    pub row: Row,
    answer: Option<(mpsc::UnboundedSender<Answer>, OwnedSemaphorePermit)>,
}

/// A row and how its delivery ended; there is room for another when it is written.
#[derive(Debug)]
struct Answer {
    row: Row,
    ending: Ending,
    _room: OwnedSemaphorePermit,
}

impl Leased {
    /// Ends the delivery. Returns at once; what cannot be written is delivered again.
    pub fn settle(mut self, ending: Ending) {
        self.answer(ending);
    }

    fn answer(&mut self, ending: Ending) {
        if let Some((answers, room)) = self.answer.take() {
            // Nobody settles any more: the lease runs out.
            drop(answers.send(Answer { row: self.row.clone(), ending, _room: room }));
        }
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        self.answer(Ending::Again);
    }
}

impl Feed {
    /// Begins to take rows, and looks at once when `bell` rings. Must be called inside a tokio runtime.
    #[must_use]
    pub fn start(parts: FeedParts, bell: Bell) -> Self {
        let (ready, rows) = mpsc::channel(parts.settings.most.max(1));
        let (answers, answered) = mpsc::unbounded_channel();
        let (flow, flows) = watch::channel(Flow::Full);
        let (halt, held) = (CancellationToken::new(), Held::default());
        let claiming = Claiming {
            parts: parts.clone(),
            bell,
            ready,
            answers,
            held: held.clone(),
            room: Arc::new(Semaphore::new(parts.settings.most)),
            flows,
            halt: halt.clone(),
        };
        tokio::spawn(claiming.run());
        let settling = tokio::spawn(Settler { parts, answered, held, halt: halt.clone() }.run());
        Self { rows, flow, settling, halt: halt.drop_guard() }
    }

    /// The next row; `None` when there is no outbox any more. Cancel-safe.
    pub async fn next(&mut self) -> Option<Leased> {
        self.rows.recv().await
    }

    /// At least one row, and what else is there, up to `most`; nothing when there is no outbox any more. Cancel-safe.
    pub async fn next_many(&mut self, most: usize) -> Vec<Leased> {
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
#[derive(Debug, Clone, Default)]
struct Held(Arc<Mutex<HashMap<i64, Uuid>>>);

impl Held {
    fn lock(&self) -> MutexGuard<'_, HashMap<i64, Uuid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes rows.
struct Claiming {
    parts: FeedParts,
    bell: Bell,
    ready: mpsc::Sender<Leased>,
    answers: mpsc::UnboundedSender<Answer>,
    held: Held,
    room: Arc<Semaphore>,
    flows: watch::Receiver<Flow>,
    halt: CancellationToken,
}

impl Claiming {
    /// Until it is halted, or there is no outbox any more. Never in the middle of a claim: nobody would know of its rows
    /// until their lease runs out.
    async fn run(mut self) {
        let clock = Arc::clone(&self.parts.clock);
        let mut pace = Pace::new(self.parts.settings.poll);
        let (mut wake_at, mut expected, mut told) = (clock.monotonic(), true, false);
        while !self.halt.is_cancelled() {
            let flow = *self.flows.borrow_and_update();
            let (taken, took) = match self.look(flow, &mut wake_at, expected).await {
                Ok(looked) => {
                    if std::mem::take(&mut told) {
                        tracing::info!("the outbox is read again");
                    }
                    looked
                }
                Err(error) if is_gone(&error) => {
                    tracing::warn!("there is no outbox to read any more: {}", scrub(&error.to_string()));
                    return;
                }
                Err(error) => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::warn!(
                            "the outbox cannot be read, it is tried again: {}",
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
            let pause = pace.rest(expected, took);
            tokio::select! {
                biased;
                () = self.halt.cancelled() => {}
                () = self.bell.rung(), if flow != Flow::Shut => expected = true,
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
        let FeedParts { store, settings, clock, chance, .. } = &self.parts;
        let began = clock.monotonic();
        if began >= *wake_at {
            *wake_at = began + settings.poll;
            journal::woken(store.wake(PAGE).await?);
            expected = true;
        }
        let wanted = room.num_permits();
        let mut rows = Vec::new();
        if expected || store.waits().await? {
            rows = store.claim(wanted, settings.lease, chance.uuid()).await?;
            journal::claimed(rows.len());
        }
        let took = clock.monotonic().saturating_duration_since(began);
        let taken = match rows.len() {
            0 => Taken::Nothing,
            all if all == wanted && flow == Flow::Full => Taken::All,
            _ => Taken::Some,
        };
        self.held.lock().extend(rows.iter().map(|row| (row.id, row.token)));
        for row in rows {
            let room = room.split(1).map(|room| (self.answers.clone(), room));
            // Nobody takes it any more: dropped, it goes back.
            drop(self.ready.send(Leased { row, answer: room }).await);
        }
        Ok((taken, took))
    }
}

/// How much a look took.
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

/// Writes how deliveries ended, and makes the leases of the others longer.
struct Settler {
    parts: FeedParts,
    answered: mpsc::UnboundedReceiver<Answer>,
    held: Held,
    halt: CancellationToken,
}

impl Settler {
    /// Until nobody can answer any more.
    async fn run(mut self) {
        let clock = Arc::clone(&self.parts.clock);
        let every = self.parts.settings.lease / 3;
        let mut extend_at = clock.monotonic() + every;
        loop {
            let mut answers = Vec::new();
            tokio::select! {
                biased;
                () = clock.sleep(extend_at.saturating_duration_since(clock.monotonic())) => {
                    extend_at = clock.monotonic() + every;
                    self.extend().await;
                }
                answered = self.answered.recv_many(&mut answers, BATCH) => {
                    if answered == 0 {
                        return;
                    }
                    self.settle(answers).await;
                }
            }
        }
    }

    /// Repeats until it is written, but for rows that refuse it: these come again after their lease. Settling twice is
    /// harmless, and a lease that ran out meanwhile meets the fence.
    async fn settle(&self, answers: Vec<Answer>) {
        let FeedParts { settings, clock, chance, .. } = &self.parts;
        let halted = self.halt.is_cancelled();
        let settling = |answer: &Answer| {
            // Whoever takes over need not wait for us.
            let at_once = halted && answer.ending == Ending::Again;
            let ending = if at_once { Ending::AtOnce } else { answer.ending.clone() };
            chance.with(|rng| settings.retries.settle(&answer.row, ending, rng))
        };
        let settlings: Vec<Settling> = answers.iter().map(settling).collect();
        let (mut left, mut told) = ((0..settlings.len()).collect::<Vec<_>>(), false);
        while let Some(error) = self.write(&answers, &settlings, &mut left).await {
            if is_gone(&error) {
                break;
            }
            if !std::mem::replace(&mut told, true) {
                tracing::warn!(
                    rows = left.len(),
                    "deliveries could not be settled, it is tried again; after their lease they come again: {}",
                    scrub(&error.to_string())
                );
            }
            clock.sleep(REST).await;
        }
        let mut held = self.held.lock();
        for settling in &settlings {
            if held.get(&settling.id) == Some(&settling.token) {
                held.remove(&settling.id);
            }
        }
    }

    /// Writes those of `left`, and leaves there what is not known to be written. Answers what stopped it.
    async fn write(
        &self,
        answers: &[Answer],
        settlings: &[Settling],
        left: &mut Vec<usize>,
    ) -> Option<DbError> {
        let FeedParts { store, set_aside, .. } = &self.parts;
        let batch = divided(left, |part: Vec<usize>| async move {
            let some: Vec<Settling> = part.iter().filter_map(|at| settlings.get(*at).cloned()).collect();
            store.settle(&some).await.map(|settled| (part, settled))
        });
        let Batch { done, refused, fault } = batch.await;
        let of = |at: &usize| answers.get(*at).and_then(|answer| answer.row.submission());
        let mut took = Vec::new();
        for (part, settled) in &done {
            for (answer, settling) in part.iter().filter_map(|at| answers.get(*at).zip(settlings.get(*at))) {
                journal::settled(&answer.row, settling, settled.contains(&settling.id));
            }
            took.extend(part.iter().filter_map(of));
        }
        let named = |at: usize, error: &DbError| Some((of(&at)?, error.named()));
        let unwritten: Vec<Refusal> = refused.iter().filter_map(|row| named(row.id, &row.error)).collect();
        set_aside.note(Writing::Settle, took, &unwritten);
        for row in &refused {
            if let Some(answer) = answers.get(row.id).filter(|answer| answer.row.submission().is_none()) {
                tracing::error!(
                    row = answer.row.id,
                    "it cannot be settled, and comes again: {}",
                    row.error.named()
                );
            }
        }
        left.retain(|at| {
            !done.iter().any(|(part, _)| part.contains(at)) && !refused.iter().any(|row| row.id == *at)
        });
        fault
    }

    async fn extend(&self) {
        let held: Vec<(i64, Uuid)> = self.held.lock().iter().map(|(id, token)| (*id, *token)).collect();
        if held.is_empty() {
            return;
        }
        match self.parts.store.extend(&held, self.parts.settings.lease).await {
            Ok(ours) => {
                let lost = held.iter().filter(|(id, _)| !ours.contains(id)).count();
                if lost > 0 {
                    tracing::warn!(
                        rows = lost,
                        "leases in the outbox were lost: these rows are delivered again"
                    );
                }
                self.held.lock().retain(|id, token| ours.contains(id) || !held.contains(&(*id, *token)));
            }
            Err(error) => tracing::warn!(
                rows = held.len(),
                "leases in the outbox could not be made longer: {}",
                scrub(&error.to_string())
            ),
        }
    }
}
