//! The event stream, and whether it is alive: the supervisor's reports, and with Pub/Sub the probe beside it, and
//! canaries.
//!
//! "No messages" is never taken for "healthy". If we die, nothing is lost: unsettled events wait in their source. Never
//! settles an event, and never shuts the gate: pending submissions are routed whether or not more events come.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::card;
use crate::gateway::pubsub::PubsubSettings;
use crate::gateway::pubsub::probe::{ProbeEvent, probe};
use crate::gateway::pubsub::publisher::PubsubPublisher;
use crate::journal;
use crate::kernel::tasks::Tasks;
use crate::ops::canary::{Canary, Next};
use crate::ops::dependency::{BREAKER_OPEN, Dependency};
use crate::ops::gate::{Gate, GateState};
use crate::ops::incident::{Incident, Incidents};
use crate::ops::metrics::{CANARIES, CanaryResult};
use crate::ops::supervised::{Open, Rebuild, Report, Supervised};
use crate::ops::telemetry::EventName;
use crate::ports::{Clock, SourceError};
use crate::routing::event;
use crate::scrub::scrub;

/// Longest loss that is no incident if it mends itself.
const GRACE: Duration = Duration::from_secs(30);
/// Time after which a reopened stream counts as mended, though nothing came through it.
const HOLDS: Duration = Duration::from_secs(60);

/// The supervisor's last report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Health {
    /// Messages come, or nothing was ever wrong.
    Well,
    /// The stream was lost, and why.
    Lost { why: String, needs_a_human: bool },
    /// A new stream is open; whether it works will show.
    Opened,
}

/// Inputs of the watch.
pub(super) struct Watched {
    /// Pub/Sub, where events come from there.
    pub(super) pubsub: Option<PubsubSettings>,
    pub(super) rebuild: Rebuild,
    pub(super) health: watch::Receiver<Health>,
    pub(super) arrivals: watch::Receiver<u64>,
    pub(super) gate: Gate,
    pub(super) incidents: Incidents,
    pub(super) clock: Arc<dyn Clock>,
}

/// Events; the stream is rebuilt whenever it ends. A loss is a matter of health where `matters` says so; other
/// losses are reported elsewhere.
pub(super) fn supervised(
    open: Open,
    seed: u64,
    matters: fn(&SourceError) -> bool,
) -> (Supervised, watch::Receiver<Health>) {
    let (health, seen) = watch::channel(Health::Well);
    let source = Supervised::new(open, seed, move |report| match report {
        Report::Lost { error, rest } => {
            let (why, needs_a_human) = (error.to_string(), error.needs_a_human());
            if needs_a_human {
                tracing::error!("no events: {why}; tried again in {} s", rest.as_secs());
            } else {
                tracing::warn!("no events: {why}; tried again in {} s", rest.as_secs());
            }
            if matters(&error) {
                health.send_replace(Health::Lost { why, needs_a_human });
            }
        }
        Report::Discarded => tracing::info!("the event stream is built anew, as asked"),
        Report::Opened => {
            tracing::debug!("event stream opened");
            health.send_if_modified(|health| {
                let mends = matches!(health, Health::Lost { .. });
                if mends {
                    *health = Health::Opened;
                }
                mends
            });
        }
        Report::Flowing => {
            journal!(info, EventName::StreamRebuilt, "events flow again");
            health.send_replace(Health::Well);
        }
    });
    (source, seen)
}

/// Watches until the set is dropped.
pub(super) fn watch(watched: Watched, canary: Option<Duration>) -> Tasks {
    let Watched { pubsub, rebuild, health, arrivals, gate, incidents, clock } = watched;
    let mut tasks = Tasks::new();
    let (from, line) = match pubsub {
        Some(_) => ("Pub/Sub", "subscription"),
        None => ("the database", "database"),
    };
    tasks.spawn("stream", |_| tell_health(health, incidents.clone(), Arc::clone(&clock), (from, line)));
    // Without Pub/Sub a look into the database is the probe, and brings the canary along.
    let Some(settings) = pubsub else { return tasks };
    tasks.spawn("probe of Pub/Sub", |_| watch_probe(settings.clone(), rebuild.clone(), incidents.clone()));
    if let Some(interval) = canary {
        let sender = Sender { settings, publisher: None, logged: false };
        tasks.spawn("canary", |_| watch_canary(interval, sender, rebuild, arrivals, gate, incidents, clock));
    }
    tasks
}

/// Opens an incident for a stream that stays lost, and resolves it.
async fn tell_health(
    mut health: watch::Receiver<Health>,
    incidents: Incidents,
    clock: Arc<dyn Clock>,
    (from, line): (&'static str, &'static str),
) {
    loop {
        let now = health.borrow_and_update().clone();
        let pause = match &now {
            Health::Well => {
                incidents.resolve(card::STREAM);
                Duration::MAX
            }
            Health::Lost { needs_a_human: true, .. } => Duration::ZERO,
            Health::Lost { needs_a_human: false, .. } => GRACE,
            Health::Opened => HOLDS,
        };
        tokio::select! {
            biased;
            changed = health.changed() => if changed.is_err() { return },
            () = clock.sleep(pause), if pause < Duration::MAX => match now {
                Health::Lost { why, .. } => {
                    let what = format!("no events come from {from}: {}", scrub(&why));
                    incidents.raise(
                        Incident::new(card::STREAM, what, &["maple-router check"])
                            .advising(format!("the line {line} tells more; the sweep goes on meanwhile")),
                    );
                    if health.changed().await.is_err() {
                        return;
                    }
                }
                Health::Opened | Health::Well => {
                    incidents.resolve(card::STREAM);
                    if health.changed().await.is_err() {
                        return;
                    }
                }
            },
        }
    }
}

/// Watches the probe: it can tell an outage from an hour without events, and rebuilds the stream at the return.
async fn watch_probe(settings: PubsubSettings, rebuild: Rebuild, incidents: Incidents) {
    let (name, key) = (Dependency::PUBSUB.label(), Dependency::PUBSUB.incident());
    let logged = |change| match change {
        ProbeEvent::Lost(error) => {
            let what = scrub(&error.what());
            BREAKER_OPEN.set(name, true);
            journal!(
                error,
                EventName::BreakerOpen,
                dependency = name,
                reason = what.as_str(),
                "Pub/Sub does not answer: {what}; events wait there, the sweep goes on"
            );
            let what = format!("Pub/Sub does not answer ({what}); events wait there");
            incidents.raise(
                Incident::new(key, what, &["maple-router check"])
                    .advising("the line subscription tells more; the sweep goes on meanwhile"),
            );
        }
        ProbeEvent::Found => {
            BREAKER_OPEN.set(name, false);
            journal!(info, EventName::BreakerClosed, dependency = name, "Pub/Sub answers again");
            incidents.resolve(key);
        }
    };
    if let Err(error) = probe(&settings, &rebuild, logged).await {
        tracing::error!("Pub/Sub cannot be watched: {}; {}", error.what(), error.remedy());
    }
}

/// Publishes canaries, and has the stream rebuilt when they do not come back.
async fn watch_canary(
    interval: Duration,
    mut sender: Sender,
    rebuild: Rebuild,
    mut arrivals: watch::Receiver<u64>,
    gate: Gate,
    incidents: Incidents,
    clock: Arc<dyn Clock>,
) {
    let mut canary = Canary::new(interval, clock.monotonic());
    loop {
        if !gate.is_open() {
            // The stream is closed on purpose.
            gate.opened().await;
            canary.begin_anew(clock.monotonic());
        }
        match canary.next(clock.monotonic()) {
            Next::Publish => {
                let well = sender.publish().await;
                CANARIES.add(if well { CanaryResult::Published } else { CanaryResult::Unpublished }, 1);
                canary.published(well, clock.monotonic());
            }
            Next::Overdue(times) => {
                rebuild.ask();
                journal!(
                    warn,
                    EventName::Canary,
                    times = times,
                    "canary events are overdue: the stream is built anew"
                );
                CANARIES.add(CanaryResult::Overdue, 1);
                if times > 1 {
                    let what =
                        "events that this daemon publishes do not come back to it, over a new stream neither";
                    incidents.raise(
                        Incident::new(card::CANARY, what, &["maple-router check"]).advising(
                            "do topic and subscription belong together? The sweep goes on meanwhile",
                        ),
                    );
                }
            }
            Next::Sleep(until) => {
                let pause = until.saturating_duration_since(clock.monotonic());
                tokio::select! {
                    biased;
                    arrived = arrivals.changed() => {
                        if arrived.is_err() {
                            return;
                        }
                        if canary.arrived() {
                            journal!(info, EventName::Canary, "events come through again");
                        }
                        incidents.resolve(card::CANARY);
                    }
                    () = gate.changed_from(GateState::Open), if gate.state() == GateState::Open => {}
                    () = clock.sleep(pause) => {}
                }
            }
        }
    }
}

/// Publishes canaries over a connection that is made anew after every failure: it may be half open itself.
struct Sender {
    settings: PubsubSettings,
    publisher: Option<PubsubPublisher>,
    /// The present failure is logged already.
    logged: bool,
}

impl Sender {
    async fn publish(&mut self) -> bool {
        let error = match self.open().await {
            Ok(publisher) => {
                let (attributes, data) = event::encode_canary();
                match publisher.publish(attributes, data).await {
                    Ok(_) => {
                        self.logged = false;
                        return true;
                    }
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        self.publisher = None;
        if !std::mem::replace(&mut self.logged, true) {
            tracing::warn!(
                "no canary event can be published: {} (grant roles/pubsub.publisher on the topic, or unset \
                 canary.interval)",
                scrub(&error.to_string())
            );
        }
        false
    }

    async fn open(&mut self) -> Result<PubsubPublisher, crate::gateway::pubsub::publisher::PublishError> {
        if let Some(publisher) = &self.publisher {
            return Ok(publisher.clone());
        }
        let publisher = PubsubPublisher::open(&self.settings).await?;
        self.publisher = Some(publisher.clone());
        Ok(publisher)
    }
}
