//! Start here. The composition root: what the daemon is made of, in which order it starts, and how it stops.
//!
//! Start: database (it must meet the contract), relay (it must answer once), subscription, then READY and
//! [`Receiver::run`](crate::routing::receive::Receiver::run). A dependency that is down is waited for; a
//! configuration that cannot work ends the process with 78. If we die at any moment, the row says what follows.

mod alerting;
mod dead_letters;
mod outages;
mod reload;
mod spool;
mod start;
mod stream;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use alerting::Alerting;
use dead_letters::Consuming;
use reload::Following;
pub use reload::Reloads;
use start::Start;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use upkeep::Sweeping;

use crate::config::{Config, SourceKind};
use crate::gateway::pubsub::PubsubSettings;
use crate::gateway::smtp::{Lanes, SmtpSettings};
use crate::journal;
use crate::ops::chance::Chance;
use crate::ops::clock::SystemClock;
use crate::ops::gate::Gate;
use crate::ops::incident::Incidents;
use crate::ops::live::Live;
use crate::ops::telemetry::EventName;
use crate::ops::{http, metrics, systemd};
use crate::parts::{self, PartError};
use crate::ports::{Clock, EventSource, SourceError};
use crate::routing::claims::{ClaimBounds, LiveClaims};
use crate::routing::outages::Outages;
use crate::routing::pauses::{PauseBoard, PauseWatch};
use crate::routing::persist::Persist;
use crate::routing::receive::{ReceiveBounds, Receiver};
use crate::routing::spool::Spool;
use crate::routing::worker::{Pauses, Worker};

/// Transactions whose times are measured.
const TRANSACTIONS: [&str; 15] = [
    "claim",
    "begin",
    "record",
    "merge_facts",
    "dead_letter",
    "fail",
    "release",
    "heartbeat",
    "sweep_stuck",
    "sweep_orphans",
    "sweep_infected",
    "alert_look",
    "alert_lease",
    "alert_confirm",
    "alert_release",
];
/// What remains after `drain_timeout` for recording what was sent.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Why the daemon did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// A part cannot be made from this configuration.
    #[error(transparent)]
    Part(#[from] PartError),
    /// The database is there and is not what the contract says.
    #[error("the database does not meet the contract: {0}")]
    Contract(String),
    /// The event source can never work as configured.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Metrics cannot be set up.
    #[error(transparent)]
    Metrics(#[from] metrics::MetricsError),
    /// The loopback endpoint cannot be opened.
    #[error(transparent)]
    Http(#[from] http::BindError),
    /// A source kind that is not built yet.
    #[error("source.kind = \"postgres\" is not available in this version: set source.kind = \"pubsub\"")]
    SourceKind,
}

/// Runs until `stop` is cancelled, then drains; follows `reloads` while it runs. `stop` being cancelled during the start
/// ends it cleanly.
///
/// # Errors
/// [`DaemonError`]: the configuration or the database must be mended first.
pub async fn run(config: Config, reloads: Reloads, stop: CancellationToken) -> Result<(), DaemonError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let chance = Arc::new(Chance::from_system());
    let (given_up, force) = (stop.child_token(), CancellationToken::new());
    if config.source.kind == SourceKind::Postgres {
        return Err(DaemonError::SourceKind);
    }
    let pool = parts::pool(&config, Arc::clone(&clock))?;
    let board = PauseBoard::default();
    let store = parts::store(&config, pool.clone())?.with_pauses(board.clone());
    let preparer = parts::preparer(&config, store.clone(), Arc::clone(&chance))?;
    let pubsub = parts::pubsub(&config)?;
    let desk = parts::alert_desk(&config, pool.clone(), Arc::clone(&clock), Arc::clone(&chance))?;
    let smtp = SmtpSettings::from(&config.smtp);
    let lanes = Lanes::new(smtp.clone(), Arc::clone(&clock));

    let listener = http::bind(&config.http.listen).await?;
    let handle = metrics::install(&TRANSACTIONS)?;
    let readiness = Arc::new(http::Readiness::new());
    let serving = CancellationToken::new();
    let mut endpoint = tokio::spawn(http::serve(listener, handle, Arc::clone(&readiness), serving.clone()));
    journal!(info, EventName::Started, version = metrics::VERSION, "maple-router starts");
    systemd::status("waiting for database, relay and subscription");

    let start = Start { config: &config, readiness: &readiness };
    let started = tokio::select! {
        started = start.dependencies(&pool, &smtp, &pubsub) => started.map(Some),
        () = stop.cancelled() => Ok(None),
    };
    let ended = match started {
        Ok(None) => Ok(()),
        Err(error) => Err(error),
        Ok(Some(())) => {
            let gate = Gate::new();
            let (incidents, seen) = Incidents::new();
            let spooled = Spool::new(&config.state.dir, Arc::clone(&clock));
            spool::empty(&spooled, &store, &incidents, &stop).await;
            let every = config.routing.sweep_interval;
            let spooling = spool::keep_empty(spooled.clone(), store.clone(), incidents.clone(), every);
            let (outages, probers) = Outages::new(gate.clone(), &incidents, Arc::clone(&clock), &chance);
            let dependencies = outages::Dependencies {
                pool: pool.clone(),
                smtp,
                sender: preparer.rules.from.address.clone(),
                signer: Arc::clone(&preparer.signer),
            };
            let mut pauses = PauseWatch::new(parts::pause_book(&config, pool.clone()), board, gate.clone());
            pauses.look().await;
            let mut kept = outages::keep(probers, dependencies, &gate, &readiness);
            kept.spawn(pauses.run(Arc::clone(&clock)));
            let live = LiveClaims::new(bounds(&config), given_up);
            let worker = Arc::new(Worker {
                store,
                lanes: lanes.clone(),
                preparer,
                persist: Persist::new(force.clone(), Arc::clone(&clock)),
                spool: spooled,
                outages,
                pauses: Pauses {
                    paced_by_source: true,
                    min: config.routing.backoff_min,
                    max: config.routing.backoff_max,
                },
                clock: Arc::clone(&clock),
                chance: Arc::clone(&chance),
            });
            let heart = upkeep::heartbeat(&worker, &live, config.routing.heartbeat);
            let alerting = Alerting::start(desk, parts::alert_pace(&config), seen, &clock, &chance);
            let consuming = Consuming::start(dead_letters::Parts {
                config: &config,
                pubsub: &pubsub,
                pool: pool.clone(),
                alerts: alerting.alerts(),
                clock: Arc::clone(&clock),
                chance: Arc::clone(&chance),
            });
            readiness.clear("starting");
            systemd::ready("routing");
            reloads.ready.cancel();
            journal!(info, EventName::Ready, "ready: events are received");
            let routing = Routing {
                config: &config,
                reloads: &reloads,
                pubsub: &pubsub,
                worker,
                live,
                readiness: &readiness,
                incidents,
                stop: &stop,
                force: &force,
            };
            let ended = routing.run().await;
            heart.abort();
            consuming.stop().await;
            spooling.abort();
            alerting.stop().await;
            ended
        }
    };
    lanes.close().await;
    pool.close();
    serving.cancel();
    // A scraper that keeps its connection open must not keep us.
    if tokio::time::timeout(LAST_WORDS, &mut endpoint).await.is_err() {
        endpoint.abort();
    }
    journal!(info, EventName::Stopped, "maple-router has stopped");
    ended
}

/// What the routing itself is made of.
struct Routing<'a> {
    config: &'a Config,
    reloads: &'a Reloads,
    pubsub: &'a PubsubSettings,
    worker: Arc<Worker>,
    live: LiveClaims,
    readiness: &'a Arc<http::Readiness>,
    incidents: Incidents,
    /// Asks for the end.
    stop: &'a CancellationToken,
    /// Insists.
    force: &'a CancellationToken,
}

impl Routing<'_> {
    /// Receives until `stop`, then drains for `drain_timeout`, then insists.
    async fn run(self) -> Result<(), DaemonError> {
        let Self { config, reloads, pubsub, worker, live, readiness, incidents, stop, force } = self;
        let waiting = usize::try_from(pubsub.max_outstanding).unwrap_or(usize::MAX);
        let max_in_flight = config.routing.max_in_flight;
        let bounds = ReceiveBounds { max_in_flight, max_waiting: waiting.max(max_in_flight * 2) };
        let seed = worker.chance.uuid().as_u64_pair().0;
        let (find, found) = mpsc::channel(bounds.max_waiting);
        let bounds = Live::from(bounds);
        let following = Following {
            rules: worker.preparer.rules.changing.clone(),
            bounds: bounds.clone(),
            lanes: worker.lanes.clone(),
        };
        let following = tokio::spawn(following.follow(reloads.config.clone()));
        let (mut source, health) = stream::supervised(pubsub.clone(), seed);
        let sweeping = Sweeping {
            pubsub: pubsub.clone(),
            worker: Arc::clone(&worker),
            find,
            incidents: incidents.clone(),
        };
        let sweeping = sweeping.start(reloads.config.clone(), stop.clone());
        let mut receiver = Receiver::new(Arc::clone(&worker), live, bounds, found);
        let watched = stream::Watched {
            settings: pubsub.clone(),
            rebuild: source.rebuild(),
            health,
            arrivals: receiver.arrivals(),
            gate: worker.outages.gate.clone(),
            incidents,
            clock: Arc::clone(&worker.clock),
        };
        let watching = stream::watch(watched, config.canary.interval);
        drop(worker);
        let farewell = tokio::spawn(announce_stop(stop.clone(), Arc::clone(readiness)));
        let ended = tokio::select! {
            ended = receiver.run(&mut source, stop) => ended.map_err(DaemonError::from),
            () = out_of_time(config.routing.drain_timeout, stop, force) => {
                tracing::error!(
                    "not everything was finished within routing.drain_timeout: what is left is in doubt until the sweep \
                     takes it back"
                );
                Ok(())
            }
        };
        drop(receiver);
        sweeping.abort();
        following.abort();
        drop(watching);
        if !stop.is_cancelled() {
            farewell.abort();
        } else if let Err(error) = farewell.await {
            tracing::warn!("the stop was not announced: {error}");
        }
        if !Box::new(source).stop(LAST_WORDS).await {
            tracing::warn!("the last settlements may not have reached Pub/Sub: their events may come again");
        }
        ended
    }
}

/// Tells everybody who asks that a stop has begun.
async fn announce_stop(stop: CancellationToken, readiness: Arc<http::Readiness>) {
    stop.cancelled().await;
    readiness.hold("stopping", "the daemon is stopping");
    systemd::stopping("finishing what is being sent");
    journal!(info, EventName::Stopping, "stopping: what is being sent is finished, the rest goes back");
}

/// Resolves when a stop has taken too long: what is still being recorded is told so, and gets a last moment.
async fn out_of_time(drain: Duration, stop: &CancellationToken, force: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(drain).await;
    force.cancel();
    tokio::time::sleep(LAST_WORDS).await;
}

fn bounds(config: &Config) -> ClaimBounds {
    ClaimBounds { fence_after: config.routing.fence_after, delivery_deadline: config.smtp.delivery_deadline }
}
