//! Follows the relay's log: one for the whole process. Start at [`Follower::run`].
//!
//! Lines are read, given to the [`Tracker`], recorded, and only then is the position in the log saved: if we die in the
//! middle they are read again, which changes nothing. While the database does not take them nothing more is read, so
//! that memory is flat; a report that a single row refuses is saved beside the position, and the log is read on. An
//! unreadable log, or one with lost lines, raises an alarm; nothing is concluded from its silence.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::pending_notices::PendingNotices;
use super::trouble;
use crate::db::DbError;
use crate::ops::alerting::Alerts;
use crate::ops::incident::Incidents;
use crate::ops::rng::Rng;
use crate::ops::set_aside::Writing;
use crate::ops::state_dir::StateDir;
use crate::ports::{Clock, LogBatch, LogEntry, LogLine, QueueListing, RelayLog, RelayLogError};
use crate::routing::card;
use crate::routing::delivery::Seen;
use crate::routing::delivery::followed::FILE;
use crate::routing::delivery::lost::Snapshot;
use crate::routing::delivery::tracker::{Evidence, Ours, Tracker};
use crate::routing::journal;
use crate::routing::metrics::{self, LogFlaw, Resolution};
use crate::routing::outages::Outages;
use crate::routing::outages::named;
use crate::routing::store::Store;
use crate::routing::submission::message_id::Origin;
use crate::scrub::scrub;

/// Largest size of our state file, in bytes; a larger one is not ours.
const LARGEST: u64 = 128 * 1024 * 1024;
/// Longest wait of a read for new lines.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time for which lines are collected before they are recorded together.
const COLLECT: Duration = Duration::from_millis(250);
/// Largest number of reports in one transaction.
const PAGE: usize = 500;
/// Largest number of reports kept for rows that refuse them.
const MOST_ASIDE: usize = 10_000;
/// Pause before a failed step is tried again.
const RETRY: Duration = Duration::from_secs(2);
/// Interval of saves; longer for large states, so that no more than about a megabyte a second is written.
const SAVE: Duration = Duration::from_secs(5);
/// Longest wait of a start for its first look at the log.
const FIRST_LOOK: Duration = Duration::from_secs(10);
/// Time for which the log may be unreadable before people are notified.
const ALARM: Duration = Duration::from_secs(30);
/// Delay after which the position is saved also in a log of foreign mails only.
const IDLE_SAVE: Duration = Duration::from_secs(60);

/// State that outlives the process.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Saved {
    /// Id of the follower, as in the relay entries.
    pub id: String,
    /// Start of the first follower, database time.
    pub since: Option<Timestamp>,
    /// Position from which to go on.
    position: String,
    tracker: Tracker,
    /// Reports read and not recorded.
    pending: Vec<Seen>,
    /// Lost mails without a notification.
    #[serde(rename = "untold")]
    unnotified: Snapshot,
}

/// Parts of the follower.
pub struct FollowerParts {
    /// Store of the reports.
    pub store: Store,
    /// Directory of the saved state.
    pub state: StateDir,
    /// Outages, blamed for reports that cannot be recorded.
    pub outages: Outages,
    /// Clock of waits and intervals.
    pub clock: Arc<dyn Clock>,
    /// Source of a new follower's id.
    pub rng: Arc<Rng>,
    /// Receiver of lost mails.
    pub pending_notices: PendingNotices,
    /// Incidents, raised while the log cannot be read.
    pub incidents: Incidents,
    /// Alerts of missing lines; absent where there are no alerts.
    pub alerts: Option<Alerts>,
    /// Proof that a mail is ours, against strangers who know a Message-ID.
    pub ours: Ours,
}

/// Reader of the log. Its [`Following`] answers questions meanwhile.
pub struct Follower {
    parts: FollowerParts,
    following: Following,
    asks: mpsc::Receiver<oneshot::Sender<()>>,
    since: Option<Timestamp>,
    position: String,
    pending: Vec<Seen>,
    /// Reports of rows that refuse them: saved and tried again, while the log is read on.
    aside: Vec<Seen>,
    /// Reason and start of the log's unreadability; logged once.
    trouble: Option<(String, Instant)>,
    /// Reason of missing lines, until people are notified; then the answer of that notice.
    gap: Option<String>,
    telling: Option<oneshot::Receiver<()>>,
    /// The position saved last.
    kept: String,
    /// Whether lines were read since the last save.
    unsaved: bool,
    /// Number of changes of the pending notices at the last save.
    notices_saved: u64,
    save_after: Instant,
}

/// View of the log read so far. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Following {
    id: Arc<str>,
    tracker: Arc<Mutex<Tracker>>,
    asks: mpsc::Sender<oneshot::Sender<()>>,
}

impl Following {
    /// Position to be stored with an intent recorded now: what is logged later is about that send.
    #[must_use]
    pub fn log_position(&self) -> String {
        format!("{}/{}", self.id, self.tracker().log_position())
    }

    /// Waits until the log's present content is read and recorded; returns whether that was within `patience`.
    pub async fn caught_up(&self, clock: &dyn Clock, patience: Duration) -> bool {
        let (answer, answered) = oneshot::channel();
        let asking = async { self.asks.send(answer).await.is_ok() && answered.await.is_ok() };
        tokio::select! {
            biased;
            up = asking => up,
            () = clock.sleep(patience) => false,
        }
    }

    /// Returns the queue ids of the known mails of `origin`.
    #[must_use]
    pub fn ids_of(&self, origin: Origin) -> Vec<String> {
        self.tracker().ids_of(origin)
    }

    /// As [`Tracker::evidence`]; `begun` is the [`log_position`](Self::log_position) stored with the mail's intent.
    #[must_use]
    pub fn evidence(
        &self,
        origin: Origin,
        recipient: &str,
        begun: Option<&str>,
        listing: Option<&QueueListing>,
    ) -> Evidence {
        let ours = |log_position: &str| {
            log_position.rsplit_once('/').filter(|(id, _)| *id == &*self.id)?.1.parse().ok()
        };
        self.tracker().evidence(origin, recipient, begun.and_then(ours), listing)
    }

    fn tracker(&self) -> MutexGuard<'_, Tracker> {
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Follower {
    /// Resumes from the saved state. Also returns the position to open the log at; empty where the log was never followed.
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
        let Saved { id, since, position, tracker, pending, unnotified } = saved;
        parts.pending_notices.restore(unnotified);
        let id = if id.is_empty() { parts.rng.uuid().simple().to_string() } else { id };
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
            notices_saved: 0,
            save_after,
        };
        (follower, position)
    }

    /// Handle for questions to the follower.
    #[must_use]
    pub fn following(&self) -> Following {
        self.following.clone()
    }

    /// Saves the start of a log that was never followed, before anything is sent: if we die in between, the next
    /// follower would miss mails already sent. A log that is unreadable now starts where it becomes readable.
    pub async fn keep_position(&mut self, log: &mut dyn RelayLog) {
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
            // Questions from before this read are answered by it.
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
                            // The receiver may have stopped waiting.
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
                    // No answer is possible now: pending questions are dropped.
                    waiting.clear();
                    self.parts.clock.sleep(RETRY).await;
                }
            }
        }
    }

    /// Stores the database's time at the first start: earlier acceptances were not followed.
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
                metrics::RELAY_LOG_FLAWS.add(suppressed.map_or(LogFlaw::Gap, |_| LogFlaw::Suppressed), 1);
            }
            self.pending.extend(tracker.read(line));
        }
        drop(tracker);
        self.position = batch.position;
    }

    /// Records the reports, however long it takes; those of locked rows are tried again, and so are those that rows
    /// refuse, unless these are too many to keep: then nothing more is read.
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
                        aside.note(Writing::DeliveryStatus, took, &named(&recorded.refused));
                        self.aside.extend(tried.into_iter().filter(refuses));
                    }
                    for changed in &recorded.changed {
                        metrics::DELIVERY_STATUS.add(changed.status, 1);
                        if changed.found {
                            metrics::IN_DOUBT.add(Resolution::Found, 1);
                        }
                        journal::delivery_status(changed);
                    }
                    for seen in &recorded.unproved {
                        metrics::RELAY_LOG_FLAWS.add(LogFlaw::Unproved, 1);
                        journal::unproved(seen);
                    }
                    recorded
                        .unnotified
                        .into_iter()
                        .for_each(|lost| self.parts.pending_notices.add(lost.into()));
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

    /// Leaves reports of resting rows until their pause is over, in the order of the log.
    fn leave_resting(&mut self) {
        let aside = &self.parts.outages.set_aside;
        let all = self.aside.drain(..).chain(self.pending.drain(..));
        let (resting, due) =
            all.partition(|seen| aside.is_resting(Writing::DeliveryStatus, seen.origin.submission));
        (self.aside, self.pending) = (resting, due);
    }

    fn readable(&mut self, gap: Option<String>) {
        if let Some(gap) = gap.map(|gap| scrub(&gap)) {
            tracing::error!(
                "lines of the relay's log are missing: {gap}; what they said of mails is not known, `maple-router status` \
                 counts those without a report"
            );
            self.gap = Some(gap);
        }
        self.tell_gap();
        if self.trouble.take().is_some() {
            self.parts.incidents.resolve(card::RELAY_LOG);
            tracing::info!("the relay's log is read again");
        }
    }

    /// Sends the notice of missing lines; repeats it until Slack has confirmed.
    fn tell_gap(&mut self) {
        let Some(alerts) = &self.parts.alerts else { return };
        match self.telling.as_mut().map(oneshot::Receiver::try_recv) {
            Some(Err(oneshot::error::TryRecvError::Empty)) => return,
            Some(Ok(())) => self.gap = None,
            // No notice was sent yet, or the last one was dropped.
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

    /// Saves the state at most once in an interval.
    async fn save_if_due(&mut self, changed: bool) {
        self.unsaved |= changed || self.notices_saved != self.parts.pending_notices.changes();
        // The start of a log must be saved before anything else: the next follower would start at the log's end.
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
            unnotified: self.parts.pending_notices.snapshot(),
        };
        self.notices_saved = self.parts.pending_notices.changes();
        let content = serde_json::to_vec(&saved).unwrap_or_default();
        let rest = SAVE.max(Duration::from_micros(content.len() as u64));
        if let Err(error) = self.parts.state.write(FILE, content).await {
            let file = self.parts.state.path().join(FILE);
            tracing::error!("{} cannot be written: {error}; see [state] dir", file.display());
        }
        self.kept.clone_from(&self.position);
        (self.unsaved, self.save_after) = (false, self.parts.clock.monotonic() + rest);
    }
}

/// Reason of lines missing for good, where the writer of the log reported their suppression.
fn suppressed(lines: &[LogLine]) -> Option<String> {
    let mut count = None;
    for line in lines {
        if let LogEntry::Lost { suppressed } = line.entry {
            count = Some(count.unwrap_or(0_u64).saturating_add(suppressed.unwrap_or_default()));
        }
    }
    count.map(trouble::suppressed)
}
