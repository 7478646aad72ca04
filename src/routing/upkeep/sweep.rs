//! The sweep (protocol, "Sweep"): takes back untouched claims, hands on submissions without an event, and counts those
//! that do not become ready. Runs beside the worker, or once from the command line.
//!
//! If we die in the middle, every committed page stands and the next pass, ours or another host's, does the rest; a row
//! touched and not handed on, in its time. The sweep sends nothing, and hands on nothing that was not committed first,
//! nor more than the queue has room for.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use rand::RngExt as _;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::db::DbError;
use crate::db::rest::rest_after;
use crate::gateway::pubsub::PubsubSettings;
use crate::gateway::pubsub::publisher::{PublishError, PubsubPublisher};
use crate::ops::incident::{Incident, Incidents};
use crate::ops::rng::Rng;
use crate::ops::set_aside::{SetAside, Writing};
use crate::ports::Clock;
use crate::routing::card;
use crate::routing::event::{Reason, RoutingEvent, encode};
use crate::routing::journal;
use crate::routing::metrics::{self, SubmissionOutcome, SweepResult};
use crate::routing::outages::{Outages, named};
use crate::routing::store::Store;
use crate::routing::store::sweep::{Depth, Orphan, RetakenEnd, SweepBounds, Unready};
use crate::scrub::scrub;

/// Number of rows in one transaction.
pub const PAGE: usize = 500;
/// Largest number of events published at once.
const PUBLISHED_AT_ONCE: usize = 64;

/// Result of one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct SweepReport {
    /// Claims taken back or failed.
    pub stuck: u64,
    /// Ready submissions without an event, handed on.
    pub orphans: u64,
    /// Waiting submissions that failed because of an infected attachment.
    pub infected: u64,
    /// Submissions that should long be ready; only counted.
    pub never_ready: u64,
    /// Alerts raised.
    pub alerts: u64,
}

/// Outlet of orphans. The local queue alone guarantees progress; events are published besides.
#[derive(Debug, Default)]
pub struct Outlet {
    /// Queue of the receiver of this process.
    pub queue: Option<mpsc::Sender<Uuid>>,
    /// Publisher of the submissions' events.
    pub events: Option<Republisher>,
}

/// State logged once, until it changes.
#[derive(Debug, Default)]
struct Said {
    /// Number of rows that are never ready, and the oldest of them.
    unready: (u64, Option<Uuid>),
    /// Number of stuck rows that a newer version wrote.
    left: u64,
}

/// The sweep, one for the whole process.
#[derive(Debug)]
pub struct Sweeper {
    store: Store,
    bounds: SweepBounds,
    outlet: Outlet,
    rng: std::sync::Arc<Rng>,
    page: usize,
    /// Rows that refuse a write.
    aside: SetAside,
    /// State logged last.
    said: Mutex<Said>,
    incidents: Option<Incidents>,
    outages: Option<Outages>,
    /// Whether another process sweeps.
    only_counts: bool,
}

impl Sweeper {
    /// Sweeps `store`, hands orphans to `outlet`, and leaves rows that refuse a write to `aside`.
    #[must_use]
    pub fn new(
        store: Store,
        bounds: SweepBounds,
        outlet: Outlet,
        rng: std::sync::Arc<Rng>,
        aside: SetAside,
    ) -> Self {
        Self {
            store,
            bounds,
            outlet,
            rng,
            page: PAGE,
            aside,
            said: Mutex::default(),
            incidents: None,
            outages: None,
            only_counts: false,
        }
    }

    /// Raises an incident while submissions are not ready for too long.
    #[must_use]
    pub fn telling(mut self, incidents: Incidents) -> Self {
        self.incidents = Some(incidents);
        self
    }

    /// Blames the database for passes that cannot reach it: in a daemon without events, no other part would notice.
    #[must_use]
    pub fn blaming(mut self, outages: Outages) -> Self {
        self.outages = Some(outages);
        self
    }

    /// Takes nothing back and hands nothing on: for a daemon beside `maple-router-sweep.timer`, whose metrics and alerts
    /// still show how much waits.
    #[must_use]
    pub fn only_counting(mut self, only: bool) -> Self {
        self.only_counts = only;
        self
    }

    /// Uses pages of another size.
    #[must_use]
    pub fn with_page(mut self, rows: usize) -> Self {
        self.page = rows.max(1);
        self
    }

    /// Runs passes until `stop`, the first one soon, the others about `every` apart; jittered, so that hosts started
    /// together do not sweep together. `may_enqueue` is checked before anything is handed on.
    pub async fn run(
        &self,
        clock: &dyn Clock,
        every: Duration,
        may_enqueue: impl Fn() -> bool + Send + Sync,
        stop: &CancellationToken,
    ) {
        let jitter = |low: f64, high: f64| self.rng.with(|rng| every.mul_f64(rng.random_range(low..=high)));
        let mut pause = jitter(0.0, 0.1);
        let passes = async {
            loop {
                clock.sleep(pause).await;
                match self.pass(&may_enqueue).await {
                    Ok(_) => metrics::SWEEPS.add(SweepResult::Completed, 1),
                    Err(error) => {
                        metrics::SWEEPS.add(SweepResult::Failed, 1);
                        if let Some(outages) = &self.outages {
                            outages.database(&error);
                        }
                        tracing::warn!("the sweep was not completed: {}", scrub(&error.to_string()));
                    }
                }
                pause = jitter(0.9, 1.1);
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = passes => {}
            () = self.count_ended(clock, every) => {}
        }
    }

    /// Measures ended submissions, beside the passes: the more there are, the longer that takes, and the longer it rests.
    async fn count_ended(&self, clock: &dyn Clock, every: Duration) {
        let mut rest = self.rng.with(|rng| every.mul_f64(rng.random_range(0.0..=0.1)));
        loop {
            clock.sleep(rest).await;
            let began = clock.monotonic();
            let depths = self.store.ended_depths().await;
            rest = rest_after(every, clock.monotonic().saturating_duration_since(began), &depths);
            match depths {
                Ok(depths) => gauges(&depths),
                Err(error) => tracing::warn!(
                    "what has ended was not counted, its metrics stay as they are for {} s: {}",
                    rest.as_secs(),
                    scrub(&error.to_string())
                ),
            }
        }
    }

    /// Makes one pass. Every part is tried, also when one before it failed. While `may_enqueue` is false, nothing is
    /// handed on and no orphan is touched.
    ///
    /// # Errors
    /// The first [`DbError`]; work done by then stands and is counted.
    pub async fn pass(&self, may_enqueue: impl Fn() -> bool + Send + Sync) -> Result<SweepReport, DbError> {
        let mut report = SweepReport::default();
        self.aside.tend();
        if self.only_counts {
            return [self.unready(&mut report.never_ready).await, self.gauges().await]
                .into_iter()
                .collect::<Result<(), DbError>>()
                .map(|()| report);
        }
        let parts = [
            self.stuck(&mut report.stuck, &may_enqueue).await,
            self.infected(&mut report.infected).await,
            self.orphans(&mut report.orphans, &may_enqueue).await,
            self.unready(&mut report.never_ready).await,
            self.gauges().await,
        ];
        parts.into_iter().collect::<Result<(), DbError>>()?;
        Ok(report)
    }

    /// Reason why the last orphans could not be announced; absent when they could.
    #[must_use]
    pub fn unpublished(&self) -> Option<String> {
        self.outlet.events.as_ref().and_then(Republisher::fault)
    }

    async fn stuck(&self, done: &mut u64, may_enqueue: &(impl Fn() -> bool + Sync)) -> Result<(), DbError> {
        let (mut after, mut left) = (None, 0);
        loop {
            let token = self.rng.uuid().to_string();
            let resting = self.aside.resting(Writing::TakeBack);
            let page = self.store.sweep_stuck(&self.bounds, after, self.page, &token, &resting).await?;
            let Some(page) = page else { return Ok(()) };
            let took = page.rows.iter().map(|retaken| retaken.id);
            self.aside.note(Writing::TakeBack, took, &named(&page.refused));
            let mut open = Vec::new();
            for retaken in page.rows {
                journal::taken_back(&retaken);
                match retaken.end {
                    RetakenEnd::Left => {
                        left += 1;
                        continue;
                    }
                    RetakenEnd::Failed(_) => {
                        metrics::submission(SubmissionOutcome::Failed);
                        retaken.waited.into_iter().for_each(|lag| metrics::ROUTING_LAG.record((), lag));
                    }
                    RetakenEnd::Reset { .. } => {
                        metrics::RESCUED.add((), 1);
                        open.push(Orphan { id: retaken.id, form_id: retaken.form_id });
                    }
                }
                *done += 1;
            }
            if may_enqueue() {
                if let Some(queue) = &self.outlet.queue {
                    // A submission without room in the queue is due, and will be handed on as such.
                    open.iter().map_while(|found| queue.try_send(found.id).ok()).for_each(drop);
                }
                self.republish(&open).await;
            }
            page.fault.map_or(Ok(()), Err)?;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let before = std::mem::replace(&mut self.said().left, left);
        if before != left {
            journal::left(left);
        }
        Ok(())
    }

    async fn orphans(&self, done: &mut u64, may_enqueue: &(impl Fn() -> bool + Sync)) -> Result<(), DbError> {
        while may_enqueue() {
            let (permits, room) = match &self.outlet.queue {
                Some(queue) => {
                    let room = queue.capacity().min(self.page);
                    // Room comes first: a row touched without room in the queue waits for as long as if it were new.
                    match queue.try_reserve_many(room) {
                        Ok(permits) => (Some(permits), room),
                        Err(_) => return Ok(()),
                    }
                }
                None => (None, if self.outlet.events.is_some() { self.page } else { 0 }),
            };
            if room == 0 {
                return Ok(());
            }
            let resting = self.aside.resting(Writing::HandOn);
            let Some(page) = self.store.sweep_orphans(&self.bounds, room, &resting).await? else {
                return Ok(());
            };
            let (found, is_last) = (page.rows, page.next.is_none());
            self.aside.note(Writing::HandOn, found.iter().map(|found| found.id), &named(&page.refused));
            metrics::ORPHANS.add((), found.len().try_into().unwrap_or(u64::MAX));
            *done += u64::try_from(found.len()).unwrap_or(u64::MAX);
            found.iter().for_each(journal::orphan);
            for (permit, found) in permits.into_iter().flatten().zip(&found) {
                permit.send(found.id);
            }
            let published = self.republish(&found).await;
            let handed_on = self.outlet.queue.is_some() || published;
            page.fault.map_or(Ok(()), Err)?;
            // Refused rows that are not remembered, being too many, would be read again for ever.
            let is_forgetful = found.is_empty() && self.aside.resting(Writing::HandOn).len() <= resting.len();
            if is_last || !handed_on || is_forgetful {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn infected(&self, done: &mut u64) -> Result<(), DbError> {
        let mut after = None;
        loop {
            let token = self.rng.uuid().to_string();
            let resting = self.aside.resting(Writing::Refusal);
            let page = self.store.sweep_infected(&self.bounds, after, self.page, &token, &resting).await?;
            let Some(page) = page else { return Ok(()) };
            self.aside.note(Writing::Refusal, page.rows.iter().map(|row| row.id), &named(&page.refused));
            for refused in page.rows {
                journal::refused(refused.id, &refused.form_id, refused.reason);
                metrics::submission(SubmissionOutcome::Failed);
                *done += 1;
            }
            page.fault.map_or(Ok(()), Err)?;
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    async fn unready(&self, seen: &mut u64) -> Result<(), DbError> {
        let unready = self.store.unready(&self.bounds).await?;
        *seen = unready.count;
        let Unready { count, sample, .. } = unready;
        let before = std::mem::replace(&mut self.said().unready, (count, sample));
        if before != (count, sample) {
            journal::unready(&unready);
            self.tell(&unready);
        }
        Ok(())
    }

    /// Raises one incident as long as there are any; `status` shows how many there are now.
    fn tell(&self, unready: &Unready) {
        let Some(incidents) = &self.incidents else { return };
        let Some(sample) = unready.sample else {
            incidents.resolve(card::UNREADY);
            return;
        };
        let minutes = unready.oldest.as_secs() / 60;
        incidents.raise(Incident::new(
            card::UNREADY,
            format!(
                "{} submissions have not become ready for too long, the oldest for {minutes} min: the scan worker or the \
                 backend does not finish them, and nothing is sent for them",
                unready.count
            ),
            &[&format!("maple-router explain {sample}")],
        ));
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn gauges(&self) -> Result<(), DbError> {
        gauges(&self.store.open_depths(&self.bounds).await?);
        Ok(())
    }

    /// Publishes the orphans' events; returns whether all were published.
    async fn republish(&self, found: &[Orphan]) -> bool {
        match &self.outlet.events {
            Some(events) => events.publish(found).await,
            None => false,
        }
    }
}

/// Sets the gauges of the queue.
fn gauges(depths: &[Depth]) {
    for depth in depths {
        metrics::queue(depth.status, depth.count, depth.oldest);
    }
}

/// Publishes events of orphans again, so that other hosts share the work. Never in the way of the sweep: a failure is
/// logged once per change, and an unpublished orphan is claimed from the local queue all the same.
#[derive(Debug)]
pub struct Republisher {
    publisher: PubsubPublisher,
    /// Reason of the last failure.
    fault: Mutex<Option<String>>,
}

impl Republisher {
    /// Opens the publisher, which connects at the first event.
    ///
    /// # Errors
    /// [`PublishError`]: the configuration allows no publishing.
    pub async fn open(settings: &PubsubSettings) -> Result<Self, PublishError> {
        Ok(Self::over(PubsubPublisher::open(settings).await?))
    }

    /// Uses a publisher that is open.
    #[must_use]
    pub fn over(publisher: PubsubPublisher) -> Self {
        Self { publisher, fault: Mutex::default() }
    }

    /// Reason why the last event could not be published; absent when it could.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Publishes until the first failure; returns whether all were published.
    pub async fn publish(&self, found: &[Orphan]) -> bool {
        if found.is_empty() {
            return true;
        }
        // Futures do nothing before they are polled: one page of them is all there is at a time.
        let publishing: Vec<_> = found.iter().map(|found| self.publish_one(found)).collect();
        let mut publishing = futures::stream::iter(publishing).buffer_unordered(PUBLISHED_AT_ONCE);
        while let Some(answer) = publishing.next().await {
            if let Err(error) = answer {
                self.failed(&error);
                return false;
            }
        }
        let before = self.fault.lock().unwrap_or_else(PoisonError::into_inner).take();
        if before.is_some() {
            tracing::info!("events of found submissions are published again");
        }
        true
    }

    async fn publish_one(&self, found: &Orphan) -> Result<String, PublishError> {
        let (submission_id, form_id) = (found.id, Some(found.form_id.clone()));
        let (attributes, data) = encode(&RoutingEvent { submission_id, form_id, reason: Reason::Sweep });
        self.publisher.publish(attributes, data).await
    }

    fn failed(&self, error: &PublishError) {
        let now = scrub(&error.to_string());
        let before = self.fault.lock().unwrap_or_else(PoisonError::into_inner).replace(now.clone());
        if before.as_ref() != Some(&now) {
            tracing::warn!(
                "events of found submissions cannot be published: {now}; they are claimed on this host; grant \
                 roles/pubsub.publisher on the topic, or set routing.republish = false"
            );
        }
    }
}
