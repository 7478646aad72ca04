//! The sweep (protocol, "Sweep"): takes back what nobody touches, finds what no event brings, and counts what does not
//! become ready. It runs beside the worker, or once from the command line.
//!
//! If we die in the middle, every page that was committed stands and the rest is found by the next pass, ours or
//! another host's: what was touched and not handed on, in its time. Nothing here sends, and nothing is handed on that
//! was not committed first, nor more than the queue has room for.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use rand::RngExt as _;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::event::{Reason, RoutingEvent, encode};
use super::journal;
use super::outages::Outages;
use super::store::Store;
use super::store::sweep::{Depth, Found, RetakenEnd, SweepBounds, Unready};
use crate::db::DbError;
use crate::db::batch::Refused;
use crate::db::pace::rest_after;
use crate::gateway::pubsub::PubsubSettings;
use crate::gateway::pubsub::publisher::{PublishError, PubsubPublisher};
use crate::ops::chance::Chance;
use crate::ops::incident::{Incident, IncidentKey, Incidents};
use crate::ops::metrics::{self, SubmissionOutcome, SweepResult};
use crate::ops::set_aside::{Refusal, SetAside, Writing};
use crate::ports::Clock;
use crate::scrub::scrub;

/// Rows of one transaction.
pub const PAGE: usize = 500;
/// Events published at once.
const PUBLISHED_AT_ONCE: usize = 64;

/// What one pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct SweepReport {
    /// Claims taken back, or ended because nothing was left to try.
    pub stuck: u64,
    /// Ready submissions that no event had brought back, handed on.
    pub orphans: u64,
    /// Waiting submissions that failed because of an infected attachment.
    pub infected: u64,
    /// Submissions that are not ready although they should long be; only counted.
    pub never_ready: u64,
    /// Alerts raised.
    pub alerts: u64,
}

/// Where found submissions go. The local queue alone guarantees progress; events are published besides.
#[derive(Debug, Default)]
pub struct Outlet {
    /// The receiver of this process.
    pub queue: Option<mpsc::Sender<Uuid>>,
    /// Publishes their events again.
    pub events: Option<Republisher>,
}

/// What stays as it is from pass to pass.
#[derive(Debug, Default)]
struct Said {
    /// Rows that are never ready, and the oldest.
    unready: (u64, Option<Uuid>),
    /// Stuck rows that a newer version wrote.
    left: u64,
}

/// One for the whole process.
#[derive(Debug)]
pub struct Sweeper {
    store: Store,
    bounds: SweepBounds,
    outlet: Outlet,
    chance: std::sync::Arc<Chance>,
    page: usize,
    /// Rows that refuse a write.
    aside: SetAside,
    /// What was said last: it is said again only when it changes.
    said: Mutex<Said>,
    incidents: Option<Incidents>,
    outages: Option<Outages>,
    /// Another process sweeps.
    only_counts: bool,
}

impl Sweeper {
    /// A sweep over `store` that hands what it finds to `outlet`, and leaves rows that refuse a write to `aside`.
    #[must_use]
    pub fn new(
        store: Store,
        bounds: SweepBounds,
        outlet: Outlet,
        chance: std::sync::Arc<Chance>,
        aside: SetAside,
    ) -> Self {
        Self {
            store,
            bounds,
            outlet,
            chance,
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

    /// Blames the database for passes that cannot reach it: of a daemon without events, nobody else would ask.
    #[must_use]
    pub fn blaming(mut self, outages: Outages) -> Self {
        self.outages = Some(outages);
        self
    }

    /// Takes nothing back and hands nothing on: for a daemon beside `maple-router-sweep.timer`, whose metrics and alerts
    /// still tell how much waits.
    #[must_use]
    pub fn only_counting(mut self, only: bool) -> Self {
        self.only_counts = only;
        self
    }

    /// With pages of another size.
    #[must_use]
    pub fn with_page(mut self, rows: usize) -> Self {
        self.page = rows.max(1);
        self
    }

    /// Passes until `stop`, the first one soon, the others about `every` apart; jittered, so that hosts started
    /// together do not sweep together. `may_enqueue` is asked before anything is handed on.
    pub async fn run(
        &self,
        clock: &dyn Clock,
        every: Duration,
        may_enqueue: impl Fn() -> bool + Send + Sync,
        stop: &CancellationToken,
    ) {
        let jitter =
            |low: f64, high: f64| self.chance.with(|rng| every.mul_f64(rng.random_range(low..=high)));
        let mut pause = jitter(0.0, 0.1);
        let passes = async {
            loop {
                clock.sleep(pause).await;
                match self.pass(&may_enqueue).await {
                    Ok(_) => metrics::sweep(SweepResult::Completed),
                    Err(error) => {
                        metrics::sweep(SweepResult::Failed);
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

    /// Measures what has ended, beside the passes: that takes the longer the more there is, so it rests the longer.
    async fn count_ended(&self, clock: &dyn Clock, every: Duration) {
        let mut rest = self.chance.with(|rng| every.mul_f64(rng.random_range(0.0..=0.1)));
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

    /// One pass. Every part is tried, also when one before it failed. While `may_enqueue` says no, nothing is handed on
    /// and no orphan is touched.
    ///
    /// # Errors
    /// The first [`DbError`]; what was done by then stands and is counted.
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

    /// Why what was found last could not be announced; absent when it could.
    #[must_use]
    pub fn unpublished(&self) -> Option<String> {
        self.outlet.events.as_ref().and_then(Republisher::fault)
    }

    async fn stuck(&self, done: &mut u64, may_enqueue: &(impl Fn() -> bool + Sync)) -> Result<(), DbError> {
        let (mut after, mut left) = (None, 0);
        loop {
            let token = self.chance.uuid().to_string();
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
                        retaken.waited.into_iter().for_each(metrics::routing_lag);
                    }
                    RetakenEnd::Reset { .. } => {
                        metrics::rescued(1);
                        open.push(Found { id: retaken.id, form_id: retaken.form_id });
                    }
                }
                *done += 1;
            }
            if may_enqueue() {
                if let Some(queue) = &self.outlet.queue {
                    // What finds no room is due, and found as such.
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
                    // Room first: a row that is touched and has no place waits for as long as if it were new.
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
            metrics::orphans(found.len().try_into().unwrap_or(u64::MAX));
            *done += u64::try_from(found.len()).unwrap_or(u64::MAX);
            found.iter().for_each(journal::orphan);
            for (permit, found) in permits.into_iter().flatten().zip(&found) {
                permit.send(found.id);
            }
            let published = self.republish(&found).await;
            let handed_on = self.outlet.queue.is_some() || published;
            page.fault.map_or(Ok(()), Err)?;
            // So many that they are not remembered would be found for ever.
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
            let token = self.chance.uuid().to_string();
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

    /// One incident as long as there are any; how many there are now is told by `status`.
    fn tell(&self, unready: &Unready) {
        let Some(incidents) = &self.incidents else { return };
        let Some(sample) = unready.sample else {
            incidents.resolve(IncidentKey::Unready);
            return;
        };
        let minutes = unready.oldest.as_secs() / 60;
        incidents.raise(Incident::new(
            IncidentKey::Unready,
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

    /// Whether the events of all of `found` were published.
    async fn republish(&self, found: &[Found]) -> bool {
        match &self.outlet.events {
            Some(events) => events.publish(found).await,
            None => false,
        }
    }
}

/// Rows that refused a write, and what refused it.
/// What set rows aside is told of refusals.
#[must_use]
pub fn named(refused: &[Refused<Uuid>]) -> Vec<Refusal> {
    refused.iter().map(|Refused { id, error }| (*id, error.named())).collect()
}

fn gauges(depths: &[Depth]) {
    for depth in depths {
        metrics::queue(depth.status, depth.count, depth.oldest);
    }
}

/// Publishes events of found submissions again, so that other hosts share the work. Never in the way of the sweep: a
/// failure is said once per change, and what is not published is claimed from the local queue all the same.
#[derive(Debug)]
pub struct Republisher {
    publisher: PubsubPublisher,
    /// Why it did not work the last time.
    fault: Mutex<Option<String>>,
}

impl Republisher {
    /// Connects at the first event.
    ///
    /// # Errors
    /// Nothing can be published as configured.
    pub async fn open(settings: &PubsubSettings) -> Result<Self, PublishError> {
        Ok(Self::over(PubsubPublisher::open(settings).await?))
    }

    /// Through a publisher that is open.
    #[must_use]
    pub fn over(publisher: PubsubPublisher) -> Self {
        Self { publisher, fault: Mutex::default() }
    }

    /// Why the last event could not be published; absent when it could.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Publishes until the first failure; says whether all were published.
    pub async fn publish(&self, found: &[Found]) -> bool {
        if found.is_empty() {
            return true;
        }
        // Futures do nothing before they are polled: a page of them is all there is at once.
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

    async fn publish_one(&self, found: &Found) -> Result<String, PublishError> {
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
