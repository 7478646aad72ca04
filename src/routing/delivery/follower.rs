//! Follows the relay's log: one for the whole process. Start at [`Follower::run`].
//!
//! Lines are read, understood by the [`Tracker`], recorded, and only then is their place in the log kept: if we die in the
//! middle they are read again, which changes nothing. While the database does not take them nothing more is read, so that
//! memory is flat; what a single row refuses is kept beside that place, and the log is read on. A log that cannot be read, or
//! has lost lines, is said so loudly; nothing is concluded from its silence.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::Seen;
use super::book::Book;
use super::followed::FILE;
use super::lost::Snapshot;
use super::tracker::{Evidence, Ours, Tracker};
use super::trouble;
use crate::db::DbError;
use crate::ops::alerting::Alerts;
use crate::ops::chance::Chance;
use crate::ops::incident::{IncidentKey, Incidents};
use crate::ops::metrics::{self, LogFlaw, Resolution};
use crate::ops::set_aside::Writing;
use crate::ops::state_dir::StateDir;
use crate::ports::{Clock, LogBatch, LogEntry, LogLine, QueueListing, RelayLog, RelayLogError};
use crate::routing::journal;
use crate::routing::message_id::Origin;
use crate::routing::outages::Outages;
use crate::routing::store::Store;
use crate::routing::sweep::named;
use crate::scrub::scrub;

/// Larger than that it is not ours, in bytes.
const LARGEST: u64 = 128 * 1024 * 1024;
/// A read waits so long for news.
const PATIENCE: Duration = Duration::from_secs(2);
/// Lines are collected for so long before they are recorded together.
const COLLECT: Duration = Duration::from_millis(250);
/// Recorded in one transaction.
const PAGE: usize = 500;
/// Marks kept of rows that refuse them.
const MOST_ASIDE: usize = 10_000;
/// Between two tries of what does not work.
const RETRY: Duration = Duration::from_secs(2);
/// What was read is kept so often; rarer where it is much, so that no more than about a megabyte a second is written.
const SAVE: Duration = Duration::from_secs(5);
/// A start waits no longer for its first look at the log.
const FIRST_LOOK: Duration = Duration::from_secs(10);
/// The log may be away for so long before people are told.
const ALARM: Duration = Duration::from_secs(30);
/// Its place in a log where others' mails pass is kept after this time as well.
const IDLE_SAVE: Duration = Duration::from_secs(60);

/// What outlives the process.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Saved {
    /// Who follows, in the marks.
    pub id: String,
    /// When the log was followed first, by the database.
    pub since: Option<Timestamp>,
    /// Where to go on.
    position: String,
    tracker: Tracker,
    /// Read and not recorded.
    pending: Vec<Seen>,
    /// Lost mails nobody was told of.
    untold: Snapshot,
}

/// What the follower is made of.
pub struct FollowerParts {
    /// Where what is seen is recorded.
    pub store: Store,
    /// Where its place in the log is kept.
    pub state: StateDir,
    /// Blamed for what cannot be recorded.
    pub outages: Outages,
    /// Measures.
    pub clock: Arc<dyn Clock>,
    /// Names a new follower.
    pub chance: Arc<Chance>,
    /// Hears of mails that are lost.
    pub book: Book,
    /// Raised while the log cannot be read.
    pub incidents: Incidents,
    /// Told when lines are gone; absent where nobody is told of anything.
    pub alerts: Option<Alerts>,
    /// Tells our mails from those of whoever knows a Message-ID.
    pub ours: Ours,
}

/// Reads the log. Its [`Following`] answers questions meanwhile.
pub struct Follower {
    parts: FollowerParts,
    following: Following,
    asks: mpsc::Receiver<oneshot::Sender<()>>,
    since: Option<Timestamp>,
    position: String,
    pending: Vec<Seen>,
    /// Of rows that refuse it: kept, saved and tried again, while the log is read on.
    aside: Vec<Seen>,
    /// Why the log cannot be read, and since when; said once.
    trouble: Option<(String, Instant)>,
    /// Why lines are missing, until people were told; and whether they were.
    gap: Option<String>,
    telling: Option<oneshot::Receiver<()>>,
    /// The place in the log that was kept last.
    kept: String,
    /// Something was read since it was kept last.
    unsaved: bool,
    /// Changes of the book when it was kept last.
    told: u64,
    save_after: Instant,
}

/// What the log has told so far. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Following {
    id: Arc<str>,
    tracker: Arc<Mutex<Tracker>>,
    asks: mpsc::Sender<oneshot::Sender<()>>,
}

impl Following {
    /// To be kept with whatever is begun now: what is logged later is about it.
    #[must_use]
    pub fn mark(&self) -> String {
        format!("{}/{}", self.id, self.tracker().mark())
    }

    /// Waits until everything that the log holds now was read and recorded; whether it was within `patience`.
    pub async fn caught_up(&self, clock: &dyn Clock, patience: Duration) -> bool {
        let (answer, answered) = oneshot::channel();
        let asking = async { self.asks.send(answer).await.is_ok() && answered.await.is_ok() };
        tokio::select! {
            biased;
            up = asking => up,
            () = clock.sleep(patience) => false,
        }
    }

    /// The queue ids under which mails of `origin` are known.
    #[must_use]
    pub fn ids_of(&self, origin: Origin) -> Vec<String> {
        self.tracker().ids_of(origin)
    }

    /// See [`Tracker::evidence`]; `begun` is the [`mark`](Self::mark) kept when the mail was begun.
    #[must_use]
    pub fn evidence(
        &self,
        origin: Origin,
        recipient: &str,
        begun: Option<&str>,
        listing: Option<&QueueListing>,
    ) -> Evidence {
        let ours = |mark: &str| mark.rsplit_once('/').filter(|(id, _)| *id == &*self.id)?.1.parse().ok();
        self.tracker().evidence(origin, recipient, begun.and_then(ours), listing)
    }

    fn tracker(&self) -> MutexGuard<'_, Tracker> {
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Follower {
    /// Goes on where the last one ended. Answers the place in the log to open it at, too; empty where nobody has followed it.
    pub async fn resume(parts: FollowerParts) -> (Self, String) {
        let saved = match parts.state.read(FILE, LARGEST).await {
            Ok(Some(content)) => serde_json::from_slice(&content).unwrap_or_else(|error| {
                tracing::error!(
                    "{} cannot be read ({error}): the relay's log is followed from its end, what was logged since is missed",
                    parts.state.path().join(FILE).display()
                );
                Saved::default()
            }),
            Ok(None) => Saved::default(),
            Err(error) => {
                let file = parts.state.path().join(FILE);
                tracing::error!("{} cannot be read: {error}; see [state] dir", file.display());
                Saved::default()
            }
        };
        let Saved { id, since, position, tracker, pending, untold } = saved;
        parts.book.restore(untold);
        let id = if id.is_empty() { parts.chance.uuid().simple().to_string() } else { id };
        let (asking, asks) = mpsc::channel(64);
        let tracker = Arc::new(Mutex::new(tracker.restored(parts.ours.clone())));
        let following = Following { id: id.into(), tracker, asks: asking };
        let save_after = parts.clock.monotonic();
        let follower = Self {
            parts,
            following,
            asks,
            since,
            position: position.clone(),
            pending,
            aside: Vec::new(),
            trouble: None,
            gap: None,
            telling: None,
            kept: position.clone(),
            unsaved: false,
            told: 0,
            save_after,
        };
        (follower, position)
    }

    /// For those who have questions.
    #[must_use]
    pub fn following(&self) -> Following {
        self.following.clone()
    }

    /// Takes the place down where a log begins that nobody has followed yet: before anything is sent, since whoever dies in
    /// between would leave mails behind that the next one does not read of. A log that cannot be read now begins where it can.
    pub async fn take_place(&mut self, log: &mut dyn RelayLog) {
        if !self.position.is_empty() {
            return;
        }
        let read = tokio::select! {
            biased;
            read = log.read(Duration::ZERO) => read,
            () = self.parts.clock.sleep(FIRST_LOOK) => return,
        };
        match read {
            Ok(batch) => {
                self.take(batch);
                self.save().await;
            }
            Err(error) => self.unreadable(&error),
        }
    }

    /// Reads until `stop`.
    pub async fn run(mut self, mut log: Box<dyn RelayLog>, stop: &CancellationToken) {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.follow(&mut *log) => {}
        }
        self.save().await;
    }

    async fn follow(&mut self, log: &mut dyn RelayLog) {
        self.begin().await;
        let mut waiting = Vec::new();
        loop {
            // Whoever asked before this read began is answered by it.
            while let Ok(ask) = self.asks.try_recv() {
                waiting.push(ask);
            }
            let read = tokio::select! {
                biased;
                read = log.read(if waiting.is_empty() { PATIENCE } else { Duration::ZERO }) => read,
                Some(ask) = self.asks.recv(), if waiting.is_empty() => {
                    waiting.push(ask);
                    continue;
                }
            };
            match read {
                Ok(batch) => {
                    self.readable(batch.gap.clone().or_else(|| suppressed(&batch.lines)));
                    let (caught_up, had_lines) = (batch.caught_up, !batch.lines.is_empty());
                    self.take(batch);
                    self.record().await;
                    if caught_up && self.pending.is_empty() {
                        for ask in waiting.drain(..) {
                            // Who asked may have stopped waiting.
                            ask.send(()).ok();
                        }
                    }
                    self.save_if_due(had_lines).await;
                    if had_lines && waiting.is_empty() {
                        self.parts.clock.sleep(COLLECT).await;
                    }
                }
                Err(error) => {
                    self.unreadable(&error);
                    // Nothing can be told now: who asks is not kept.
                    waiting.clear();
                    self.parts.clock.sleep(RETRY).await;
                }
            }
        }
    }

    /// The first time, the database's time is taken down: what was accepted before was not followed.
    async fn begin(&mut self) {
        while self.since.is_none() {
            match self.parts.store.now().await {
                Ok(now) => self.since = Some(now),
                Err(error) => {
                    self.parts.outages.database(&error);
                    self.parts.clock.sleep(RETRY).await;
                }
            }
        }
        self.save().await;
    }

    fn take(&mut self, batch: LogBatch) {
        let mut tracker = self.following.tracker();
        for line in &batch.lines {
            if let LogEntry::Lost { suppressed } = line.entry {
                metrics::relay_log_flaw(suppressed.map_or(LogFlaw::Gap, |_| LogFlaw::Suppressed));
            }
            self.pending.extend(tracker.read(line));
        }
        drop(tracker);
        self.position = batch.position;
    }

    /// Records what was read, however long it takes; what is locked by somebody else comes again, and so does what rows
    /// refuse, unless that is too much to keep: then nothing more is read.
    async fn record(&mut self) {
        loop {
            self.leave_resting();
            self.record_pending().await;
            if self.aside.len() < MOST_ASIDE {
                return;
            }
            self.parts.clock.sleep(RETRY).await;
        }
    }

    async fn record_pending(&mut self) {
        let mut busy = Vec::new();
        while !self.pending.is_empty() {
            let page = self.pending.len().min(PAGE);
            match self.parts.store.record_seen(&self.pending[..page], &self.following.id).await {
                Ok(recorded) => {
                    let fault = recorded.fault;
                    if fault.is_none() {
                        let aside = &self.parts.outages.set_aside;
                        let tried: Vec<Seen> = self.pending.drain(..page).collect();
                        let refuses = |seen: &Seen| {
                            recorded.refused.iter().any(|refused| refused.id == seen.origin.submission)
                        };
                        let is_busy = |seen: &Seen| recorded.busy.contains(seen);
                        let took = tried.iter().filter(|seen| !refuses(seen) && !is_busy(seen));
                        let took = took.map(|seen| seen.origin.submission);
                        aside.note(Writing::Mark, took, &named(&recorded.refused));
                        self.aside.extend(tried.into_iter().filter(refuses));
                    }
                    for marked in &recorded.marked {
                        metrics::delivery_status(marked.status.into());
                        if marked.found {
                            metrics::in_doubt(Resolution::Found, 1);
                        }
                        journal::beyond(marked);
                    }
                    for seen in &recorded.unproved {
                        metrics::relay_log_flaw(LogFlaw::Unproved);
                        journal::unproved(seen);
                    }
                    recorded.untold.into_iter().for_each(|lost| self.parts.book.add(lost.into()));
                    match fault {
                        None => busy.extend(recorded.busy),
                        Some(error) => self.not_recorded(&error).await,
                    }
                }
                Err(error) => self.not_recorded(&error).await,
            }
        }
        self.pending = busy;
    }

    async fn not_recorded(&self, error: &DbError) {
        self.parts.outages.database(error);
        tracing::warn!(
            waiting = self.pending.len(),
            "what the relay's log tells could not be recorded yet: {}",
            scrub(&error.to_string())
        );
        self.parts.clock.sleep(RETRY).await;
    }

    /// What is about rows that rest is left until their pause is over, in the order it was logged.
    fn leave_resting(&mut self) {
        let aside = &self.parts.outages.set_aside;
        let all = self.aside.drain(..).chain(self.pending.drain(..));
        let (resting, due) = all.partition(|seen| aside.is_resting(Writing::Mark, seen.origin.submission));
        (self.aside, self.pending) = (resting, due);
    }

    fn readable(&mut self, gap: Option<String>) {
        if let Some(gap) = gap.map(|gap| scrub(&gap)) {
            tracing::error!(
                "lines of the relay's log are missing: {gap}; what they told of mails is not known, `maple-router status` \
                 counts those nothing was heard of"
            );
            self.gap = Some(gap);
        }
        self.tell_gap();
        if self.trouble.take().is_some() {
            self.parts.incidents.resolve(IncidentKey::RelayLog);
            tracing::info!("the relay's log is read again");
        }
    }

    /// Has people told of missing lines; asks again until Slack has confirmed it.
    fn tell_gap(&mut self) {
        let Some(alerts) = &self.parts.alerts else { return };
        match self.telling.as_mut().map(oneshot::Receiver::try_recv) {
            Some(Err(oneshot::error::TryRecvError::Empty)) => return,
            Some(Ok(())) => self.gap = None,
            // Nobody asked yet, or nobody will be told.
            Some(Err(oneshot::error::TryRecvError::Closed)) | None => {}
        }
        self.telling = self.gap.as_deref().map(|gap| alerts.notice(trouble::gap(gap)));
    }

    fn unreadable(&mut self, error: &RelayLogError) {
        let said = scrub(&error.to_string());
        let now = self.parts.clock.monotonic();
        let (_, since) = self.trouble.take().filter(|(known, _)| *known == said).unwrap_or_else(|| {
            tracing::error!(
                "{said}; what becomes of mails is not known meanwhile, and doubt is resolved by policy"
            );
            (said.clone(), now)
        });
        // A rotation takes a moment.
        if now.saturating_duration_since(since) >= ALARM {
            self.parts.incidents.raise(trouble::unreadable(&said));
        }
        self.trouble = Some((said, since));
    }

    /// Keeps what was read, at a pace.
    async fn save_if_due(&mut self, changed: bool) {
        self.unsaved |= changed || self.told != self.parts.book.changes();
        // Where it began must be known before anything else is: the next would begin at the log's end.
        let began = self.kept.is_empty() && !self.position.is_empty();
        let now = self.parts.clock.monotonic();
        let moved = self.position != self.kept && now >= self.save_after + IDLE_SAVE;
        if began || moved || (self.unsaved && now >= self.save_after) {
            self.save().await;
        }
    }

    async fn save(&mut self) {
        let saved = Saved {
            id: self.following.id.to_string(),
            since: self.since,
            position: self.position.clone(),
            tracker: self.following.tracker().clone(),
            pending: self.aside.iter().chain(&self.pending).cloned().collect(),
            untold: self.parts.book.snapshot(),
        };
        self.told = self.parts.book.changes();
        let content = serde_json::to_vec(&saved).unwrap_or_default();
        let pace = SAVE.max(Duration::from_micros(content.len() as u64));
        if let Err(error) = self.parts.state.write(FILE, content).await {
            let file = self.parts.state.path().join(FILE);
            tracing::error!("{} cannot be written: {error}; see [state] dir", file.display());
        }
        self.kept.clone_from(&self.position);
        (self.unsaved, self.save_after) = (false, self.parts.clock.monotonic() + pace);
    }
}

/// Why lines are missing that nobody can read any more, where whoever suppressed them has said so.
fn suppressed(lines: &[LogLine]) -> Option<String> {
    let mut count = None;
    for line in lines {
        if let LogEntry::Lost { suppressed } = line.entry {
            count = Some(count.unwrap_or(0_u64).saturating_add(suppressed.unwrap_or_default()));
        }
    }
    count.map(trouble::suppressed)
}
