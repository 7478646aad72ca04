//! Events for a database that announces nothing: the open rows themselves, found by looking (protocol §1 without a
//! broker).
//!
//! A row that could be claimed is handed out as an event that names it, once as long as it is in hand. If we die, nothing
//! is lost: the row is open, and whoever looks next finds it. Nothing here locks or writes a row, nothing is decided by
//! what was seen, and no more is held than the receiver has room for. Which row's turn it is says [`turns`].

pub mod turns;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use super::event::{self, Reason, RoutingEvent};
use super::outages::Outages;
use super::store::Store;
use super::store::open_rows::{OpenAnswer, OpenQuestion, OpenRow};
use crate::db::{DbError, DbErrorKind};
use crate::ops::chance::Chance;
use crate::ops::metrics::{self, CanaryResult};
use crate::ports::{Attributes, Clock, EventSource, Incoming, Settle, SourceError};
use crate::scrub::scrub;
use turns::Turns;

/// Between two questions whether the database has learnt to announce by itself.
const OUTBOX: Duration = Duration::from_secs(60);
/// What stands in errors where a subscription would.
const DATABASE: &str = "the database";

/// How rows are looked for.
#[derive(Debug, Clone, Copy)]
pub struct OpenRowsSettings {
    /// Rows in hand at once.
    pub most: usize,
    /// Between two looks (`source.poll`).
    pub poll: Duration,
    /// What was created before is left alone (`routing.not_before`).
    pub not_before: Option<Timestamp>,
    /// After a look, so often at most, a canary comes as well: it has gone the same way as every row.
    pub canary: Option<Duration>,
}

/// What the rows are looked for with. Cheap to clone, and one for a whole daemon: what is in hand is known to every
/// source that is opened in turn.
#[derive(Clone)]
pub struct OpenRows {
    store: Store,
    outages: Outages,
    clock: Arc<dyn Clock>,
    chance: Arc<Chance>,
    settings: OpenRowsSettings,
    hands: Arc<Hands>,
}

/// What is in hand, and who waits for room.
#[derive(Debug)]
struct Hands {
    turns: Mutex<Turns>,
    freed: Notify,
}

impl Hands {
    fn with<T>(&self, change: impl FnOnce(&mut Turns) -> T) -> T {
        change(&mut self.turns.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for OpenRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenRows").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl OpenRows {
    /// Nothing is looked for before a source is opened. Faults of the database are told to `outages`.
    #[must_use]
    pub fn new(
        store: Store,
        outages: Outages,
        (clock, chance): (Arc<dyn Clock>, Arc<Chance>),
        settings: OpenRowsSettings,
    ) -> Self {
        let turns = Mutex::new(Turns::new(settings.most, settings.poll));
        let hands = Arc::new(Hands { turns, freed: Notify::new() });
        Self { store, outages, clock, chance, settings, hands }
    }

    /// Whether this database announces by itself what is to be routed.
    ///
    /// # Errors
    /// [`SourceError`] of a database that does not say.
    pub async fn outbox_is_there(&self) -> Result<bool, SourceError> {
        self.store.outbox_is_there().await.map_err(|error| self.fault(&error))
    }

    /// A source. With `until_outbox` it ends once the database announces by itself, so that another is opened in its place.
    #[must_use]
    pub fn source(&self, until_outbox: bool) -> OpenRowsSource {
        let now = self.clock.monotonic();
        OpenRowsSource {
            rows: self.clone(),
            found: VecDeque::new(),
            looking: None,
            look: now,
            more: false,
            outbox: until_outbox.then(|| now + OUTBOX),
            canary: self.settings.canary.map(|_| now),
            out: TaskTracker::new(),
            quiet: false,
        }
    }

    async fn look(self, ask_outbox: bool) -> Result<Looked, DbError> {
        if ask_outbox && self.store.outbox_is_there().await? {
            return Ok(Looked::Outbox);
        }
        let now = self.clock.monotonic();
        let question = self.hands.with(|turns| turns.question(now));
        let answer = self.store.open_rows(&question, self.settings.not_before).await?;
        Ok(Looked::Rows(question, answer))
    }

    /// Resolves when it is time to look, or there is `more` to be found, and room for it.
    async fn due(&self, look: Instant, more: bool) {
        loop {
            // Before asking, so that no room that is made meanwhile is missed.
            let freed = self.hands.freed.notified();
            let (room, roomy) = self.hands.with(|turns| (turns.room() > 0, turns.is_roomy()));
            let now = self.clock.monotonic();
            if room && (now >= look || (more && roomy)) {
                return;
            }
            let pause = look.saturating_duration_since(now);
            tokio::select! {
                () = freed => {}
                () = self.clock.sleep(pause), if room => {}
            }
        }
    }

    /// Tells the breaker, and whoever asked for an event.
    fn fault(&self, error: &DbError) -> SourceError {
        self.outages.database(error);
        let (subscription, said) = (DATABASE.to_owned(), scrub(&error.to_string()));
        match error.kind() {
            DbErrorKind::Contract => SourceError::Refused { subscription, said },
            DbErrorKind::Unreachable | DbErrorKind::Busy | DbErrorKind::Bug => {
                SourceError::Transient { subscription, said }
            }
        }
    }
}

/// What a look came back with.
enum Looked {
    Rows(OpenQuestion, OpenAnswer),
    /// The database announces by itself.
    Outbox,
}

/// The open rows as a source of events.
pub struct OpenRowsSource {
    rows: OpenRows,
    /// Found, and not asked for yet.
    found: VecDeque<Incoming>,
    /// A look on its way: lives here, so that whoever gives up waiting for it does not begin it anew.
    looking: Option<BoxFuture<'static, Result<Looked, DbError>>>,
    /// When the next one is due.
    look: Instant,
    /// The last one brought as many as there was room for.
    more: bool,
    /// When to ask for the outbox next; absent: never.
    outbox: Option<Instant>,
    /// When the next canary is due; absent: never.
    canary: Option<Instant>,
    /// What this source has handed out.
    out: TaskTracker,
    quiet: bool,
}

impl OpenRowsSource {
    fn begin(&mut self) {
        let now = self.rows.clock.monotonic();
        let ask_outbox = self.outbox.is_some_and(|at| now >= at);
        if ask_outbox {
            self.outbox = Some(now + OUTBOX);
        }
        self.looking = Some(self.rows.clone().look(ask_outbox).boxed());
    }

    fn take(&mut self, looked: Result<Looked, DbError>) -> Result<(), SourceError> {
        let (question, answer) = match looked {
            Ok(Looked::Rows(question, answer)) => (question, answer),
            Ok(Looked::Outbox) => {
                tracing::info!("schema router has an outbox now: open rows are not looked for any more");
                return Err(SourceError::Ended { subscription: DATABASE.to_owned() });
            }
            Err(error) => return Err(self.rows.fault(&error)),
        };
        let now = self.rows.clock.monotonic();
        let (rows, more) = self
            .rows
            .chance
            .with(|rng| self.rows.hands.with(|turns| turns.take(now, &question, answer, rng)));
        (self.more, self.look) = (more, now + self.rows.settings.poll);
        for row in rows {
            let incoming = self.event(row);
            self.found.push_back(incoming);
        }
        if let (Some(interval), Some(due)) = (self.rows.settings.canary, self.canary)
            && now >= due
        {
            self.canary = Some(now + interval);
            metrics::canary(CanaryResult::Published);
            let (attributes, data) = event::encode_canary();
            self.found.push_front(incoming("canary".to_owned(), attributes, data, Settle::new(|_| {})));
        }
        Ok(())
    }

    fn event(&self, row: OpenRow) -> Incoming {
        let id = row.id;
        let event = RoutingEvent { submission_id: id, form_id: Some(row.form_id), reason: Reason::Other };
        let (attributes, data) = event::encode(&event);
        let (hands, token) = (Arc::clone(&self.rows.hands), self.out.token());
        let settle = Settle::new(move |_verdict| {
            hands.with(|turns| turns.answer(id));
            hands.freed.notify_one();
            drop(token);
        });
        incoming(format!("row:{id}"), attributes, data, settle)
    }
}

/// Nobody counts deliveries here, and since when the row is ready the claim reads from the row.
fn incoming(message_id: String, attributes: Attributes, data: bytes::Bytes, settle: Settle) -> Incoming {
    Incoming { message_id, published_at: None, delivery_attempt: None, attributes, data, settle }
}

impl EventSource for OpenRowsSource {
    fn next(&mut self) -> BoxFuture<'_, Result<Incoming, SourceError>> {
        async move {
            loop {
                if self.quiet {
                    return std::future::pending().await;
                }
                if let Some(incoming) = self.found.pop_front() {
                    return Ok(incoming);
                }
                match &mut self.looking {
                    Some(looking) => {
                        let looked = looking.await;
                        self.looking = None;
                        self.take(looked)?;
                    }
                    None => {
                        self.rows.due(self.look, self.more).await;
                        self.begin();
                    }
                }
            }
        }
        .boxed()
    }

    fn quiet(&mut self) -> BoxFuture<'_, ()> {
        async move {
            self.quiet = true;
            self.looking = None;
            self.found.clear();
        }
        .boxed()
    }

    fn stop(mut self: Box<Self>, timeout: Duration) -> BoxFuture<'static, bool> {
        async move {
            self.quiet().await;
            self.out.close();
            tokio::time::timeout(timeout, self.out.wait()).await.is_ok()
        }
        .boxed()
    }
}
