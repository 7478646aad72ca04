//! Start here. The composition root: what the daemon is made of, in which order it starts, and how it stops.
//!
//! Start: database (it must meet the contract), relay (it must answer once), subscription where there is one, then READY and
//! [`Receiver::run`](crate::routing::receive::Receiver::run). A dependency that is down is waited for; a
//! configuration that cannot work ends the process with 78. If we die at any moment, the row says what follows.

mod alerting;
mod beyond;
mod dead_letters;
mod dead_man;
mod outages;
mod parts;
mod relay;
mod relay_health;
mod reload;
mod returned;
mod source;
mod spool;
mod start;
mod status;
mod stream;
mod upkeep;
mod watchdog;

use std::sync::Arc;
use std::time::Duration;

use alerting::Alerting;
use beyond::{Beyond, BeyondParts};
use dead_letters::Consuming;
use parts::Parts;
pub use parts::preflight;
use relay::Relaying;
use reload::Following;
pub use reload::Reloads;
use returned::Returning;
use source::Source;
use start::Start;
use status::{StatusLine, Told};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use upkeep::{Keeping, Sweeping};
use watchdog::Watchdog;

use crate::config::Config;
use crate::gateway::heartbeat::Heartbeat;
use crate::gateway::smtp::{Lanes, SmtpSettings};
use crate::journal;
use crate::kernel::Card;
use crate::ops::chance::Chance;
use crate::ops::clock::{SystemClock, since_epoch};
use crate::ops::gate::Gate;
use crate::ops::incident::Incidents;
use crate::ops::live::Live;
use crate::ops::set_aside::SetAside;
use crate::ops::status_line::{self, Stage};
use crate::ops::tally::Tally;
use crate::ops::telemetry::EventName;
use crate::ops::{http, metrics, systemd};
use crate::outbox::parts::OutboxParts;
use crate::parts::PartError;
use crate::ports::{Clock, EventSource, SourceError};
use crate::routing::claims::{ClaimBounds, LiveClaims};
use crate::routing::delivery::sender::TRIAL;
use crate::routing::outages::Outages;
use crate::routing::pauses::PauseWatch;
use crate::routing::persist::Persist;
use crate::routing::receive::{ReceiveBounds, Receiver};
use crate::routing::spool::Spool;
use crate::routing::unrecorded::Unrecorded;
use crate::routing::worker::{Pauses, Worker};

/// What each room brings.
pub const ROOMS: &[&Card] = &[&crate::routing::card::CARD, &crate::outbox::card::CARD];
/// What remains after `drain_timeout` for recording what was sent.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// For telling the others that this daemon is gone.
const GOODBYE: Duration = Duration::from_secs(1);

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
    /// The subscription is not what the configuration says, and with what it is an inequality does not hold.
    #[error("{name} does not fit the configuration: {broken}")]
    Subscription {
        /// Full name.
        name: String,
        /// Which, with both values.
        broken: String,
    },
    /// Metrics cannot be set up.
    #[error(transparent)]
    Metrics(#[from] metrics::MetricsError),
    /// No thread for the watchdog.
    #[error("the thread that feeds systemd's watchdog cannot be started: {0}; see TasksMax= of the unit")]
    Watchdog(#[source] std::io::Error),
    /// The loopback endpoint cannot be opened.
    #[error(transparent)]
    Http(#[from] http::BindError),
}

/// Runs until `stop` is cancelled, then drains; follows `reloads` while it runs. `stop` being cancelled during the start
/// ends it cleanly.
///
/// # Errors
/// [`DaemonError`]: the configuration or the database must be mended first.
pub async fn run(config: Config, reloads: Reloads, stop: CancellationToken) -> Result<(), DaemonError> {
    let (clock, chance) = (Arc::new(SystemClock) as Arc<dyn Clock>, Arc::new(Chance::from_system()));
    let (given_up, force) = (stop.child_token(), CancellationToken::new());
    let (incidents, seen) = Incidents::new();
    let set_aside = SetAside::new(Arc::clone(&clock), Some(incidents.clone()));
    let Parts { pool, board, store, preparer, source, desk, book, late, heartbeat } =
        Parts::make(&config, &clock, &chance, &set_aside).await?;
    let store = store.with_audit_key(parts::audit_key(&config, &chance)?);
    let smtp = SmtpSettings::from(&config.smtp);
    let lanes = Lanes::new(smtp.clone(), Arc::clone(&clock));

    let listener = http::bind(&config.http.listen).await?;
    let handle = metrics::install(ROOMS)?;
    metrics::started(since_epoch());
    metrics::canary_interval(config.canary.interval);
    let readiness = Arc::new(http::Readiness::new());
    let serving = CancellationToken::new();
    let mut endpoint = tokio::spawn(http::serve(listener, handle, Arc::clone(&readiness), serving.clone()));
    journal!(info, EventName::Started, version = metrics::VERSION, "maple-router starts");

    let gate = Gate::new();
    let (outages, probers) = Outages::new(gate.clone(), &incidents, Arc::clone(&clock), &chance);
    let outages = outages.setting_aside(set_aside);
    let dependencies = outages::Dependencies {
        pool: pool.clone(),
        smtp: smtp.clone(),
        sender: preparer.rules.sender(TRIAL),
        signer: Arc::clone(&preparer.signer),
        contract: crate::parts::contract_options(&config),
        clock: Arc::clone(&clock),
        chance: Arc::clone(&chance),
    };
    let mut kept = outages::keep(probers, dependencies, &outages, &readiness);
    let status = StatusLine::start(Told {
        readiness: Arc::clone(&readiness),
        gate: gate.clone(),
        board: board.clone(),
        clock: Arc::clone(&clock),
    });
    let watchdog = Watchdog::start(pool.clone(), outages.clone(), Arc::clone(&clock), &stop)
        .map_err(DaemonError::Watchdog)?;

    let start = Start::new(&config, &readiness, &outages, &source);
    let tell = || Alerting::start(desk, crate::parts::alert_pace(&config), seen, &clock, &chance);
    let (began, alerting) = start.begin((&pool, &smtp), tell, &stop).await;
    let found = start.found();
    let source = source.with_found(found.as_ref());
    let ended = match began {
        Ok(false) => {
            systemd::stopping(&status_line::stopping(Tally::now()));
            Ok(())
        }
        Err(error) => Err(error),
        Ok(true) => {
            let spooled = Spool::new(&config.state.dir, Arc::clone(&clock));
            spool::empty(&spooled, &store, &incidents, &stop).await;
            let every = config.routing.sweep_interval;
            let spooling = spool::keep_empty(spooled.clone(), store.clone(), incidents.clone(), every);
            kept.spawn(async move { late.run(every).await });
            let pause_book = crate::parts::pause_book(&config, pool.clone());
            let identity = crate::parts::identity(&config, &chance);
            let mut pauses = PauseWatch::new(pause_book.clone(), board, gate.clone(), identity.clone());
            pauses.look().await;
            let pausing = kept.spawn(pauses.run(Arc::clone(&clock)));
            let beyond = Beyond::start(BeyondParts {
                config: &config,
                store: &store,
                outages: &outages,
                book: book.clone(),
                incidents: &incidents,
                alerts: alerting.as_ref().and_then(Alerting::alerts),
                senders: preparer.rules.returns.clone(),
                clock: &clock,
                chance: &chance,
            })
            .await;
            let live = LiveClaims::new(bounds(&config), given_up);
            let worker = Arc::new(Worker {
                store,
                lanes: lanes.clone(),
                unrecorded: Unrecorded::beside(smtp.lanes),
                preparer,
                persist: Persist::new(force.clone(), Arc::clone(&clock)),
                spool: spooled,
                doubts: beyond.doubts.clone(),
                outages,
                pauses: Pauses {
                    paced_by_source: source.paces_retries(),
                    min: config.routing.backoff_min,
                    max: config.routing.backoff_max,
                },
                clock: Arc::clone(&clock),
                chance: Arc::clone(&chance),
            });
            let outbox = OutboxParts {
                store: crate::parts::outbox(&config, pool.clone()),
                settings: crate::parts::outbox_settings(&config, relay::AT_ONCE),
                clock: Arc::clone(&clock),
                rng: Arc::clone(&chance),
                others: ROOMS.iter().flat_map(|room| room.kinds).copied().collect(),
                set_aside: worker.outages.set_aside.clone(),
            };
            let health = watch::Sender::new(None);
            kept.spawn(
                Keeping {
                    store: outbox.store.clone(),
                    clock: Arc::clone(&clock),
                    incidents: incidents.clone(),
                    relay: source.pubsub().map(|_| health.subscribe()),
                    gate: source.pubsub().is_none().then(|| gate.clone()),
                }
                .run(reloads.config.clone()),
            );
            let settings = Arc::new(config.clone());
            relay_health::watch(&mut kept, &settings, &pool, &lanes, &incidents, &clock);
            let relaying =
                source.pubsub().map(|pubsub| Relaying::start(&config, pubsub, outbox.clone(), health));
            let heart = upkeep::heartbeat(&worker, &live, config.routing.heartbeat);
            let consuming = Consuming::start(dead_letters::Parts {
                config: &config,
                pubsub: source.pubsub(),
                pool: pool.clone(),
                alerts: alerting.as_ref().and_then(Alerting::alerts),
                clock: Arc::clone(&clock),
                chance: Arc::clone(&chance),
            });
            let returning = Returning::start(
                &worker,
                reloads.config.clone(),
                &incidents,
                Box::new(move |lost| book.add(lost.into())),
            );
            readiness.clear("starting");
            status.stages().send_replace(Stage::Routing);
            systemd::ready();
            reloads.ready.cancel();
            journal!(info, EventName::Ready, "ready: events are received");
            let routing = Routing {
                config: &config,
                reloads: &reloads,
                source,
                outbox,
                worker,
                live,
                readiness: &readiness,
                incidents,
                heartbeat,
                stop: &stop,
                force: &force,
                status,
                watchdog,
            };
            let ended = routing.run().await;
            heart.abort();
            consuming.stop().await;
            if let Some(returning) = returning {
                returning.stop().await;
            }
            beyond.stop().await;
            if let Some(relaying) = relaying {
                relaying.stop().await;
            }
            spooling.abort();
            pausing.abort();
            // Who cannot say goodbye is found silent.
            drop(tokio::time::timeout(GOODBYE, pause_book.leave(&identity)).await);
            ended
        }
    };
    if let Some(alerting) = alerting {
        alerting.stop().await;
    }
    kept.abort_all();
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
    source: Source,
    outbox: OutboxParts,
    worker: Arc<Worker>,
    live: LiveClaims,
    readiness: &'a Arc<http::Readiness>,
    incidents: Incidents,
    heartbeat: Option<Heartbeat>,
    /// Asks for the end.
    stop: &'a CancellationToken,
    /// Insists.
    force: &'a CancellationToken,
    status: StatusLine,
    watchdog: Watchdog,
}

impl Routing<'_> {
    /// Receives until `stop`, then drains for `drain_timeout`, then insists.
    async fn run(self) -> Result<(), DaemonError> {
        let Self {
            config,
            reloads,
            source,
            outbox,
            worker,
            live,
            readiness,
            incidents,
            heartbeat,
            stop,
            force,
            status,
            watchdog,
        } = self;
        let max_in_flight = config.routing.max_in_flight;
        let room = source.room(max_in_flight);
        let bounds = ReceiveBounds { max_in_flight, max_waiting: room };
        let (find, found) = mpsc::channel(room);
        let bounds = Live::from(bounds);
        let following = Following {
            rules: worker.preparer.rules.changing.clone(),
            bounds: bounds.clone(),
            lanes: worker.lanes.clone(),
        };
        let following = tokio::spawn(following.follow(reloads.config.clone()));
        let (mut events, health) = source.open(config, &worker, outbox, room);
        let sweeping = Sweeping {
            pubsub: source.pubsub().cloned(),
            worker: Arc::clone(&worker),
            find,
            incidents: incidents.clone(),
        };
        let sweeping = sweeping.start(reloads.config.clone(), stop.clone());
        let mut receiver = Receiver::new(Arc::clone(&worker), live, bounds, found);
        watchdog.reading(receiver.rounds());
        let telling = dead_man::start(heartbeat, config, &worker, receiver.canaries(), &incidents);
        let watched = stream::Watched {
            pubsub: source.pubsub().cloned(),
            rebuild: events.rebuild(),
            health,
            arrivals: receiver.arrivals(),
            gate: worker.outages.gate.clone(),
            incidents,
            clock: Arc::clone(&worker.clock),
        };
        let watching = stream::watch(watched, config.canary.interval);
        drop(worker);
        let farewell = tokio::spawn(announce_stop(stop.clone(), Arc::clone(readiness), status.stages()));
        let ended = tokio::select! {
            ended = receiver.run(&mut events, stop) => ended.map_err(DaemonError::from),
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
        drop((watching, telling));
        if !stop.is_cancelled() {
            farewell.abort();
        } else if let Err(error) = farewell.await {
            tracing::warn!("the stop was not announced: {error}");
        }
        if !Box::new(events).stop(LAST_WORDS).await {
            tracing::warn!("the last settlements may not have arrived: their events may come again");
        }
        ended
    }
}

/// Tells everybody who asks that a stop has begun.
async fn announce_stop(
    stop: CancellationToken,
    readiness: Arc<http::Readiness>,
    stage: watch::Sender<Stage>,
) {
    stop.cancelled().await;
    readiness.hold("stopping", "the daemon is stopping");
    systemd::stopping(&status_line::stopping(Tally::now()));
    stage.send_replace(Stage::Stopping);
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
