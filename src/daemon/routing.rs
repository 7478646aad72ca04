//! The routing and what runs beside it, from the moment the database is known to meet its contract until the stop.
//!
//! If we die at any moment, the row says what follows.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::dead_letters::{self, Consuming};
use super::delivery_tracking::{DeliveryTracking, DeliveryTrackingParts};
use super::ground::{Ground, Makings};
use super::later_grades::LaterGrades;
use super::parts::DaemonParts;
use super::publications::Publications;
use super::relay::{self, Relaying};
use super::reload::{Following, Reloads};
use super::returned::Returning;
use super::review::Reviewing;
use super::source::Source;
use super::status::StatusLine;
use super::upkeep::{self, Keeping, Sweeping};
use super::watchdog::Watchdog;
use super::{DaemonError, LAST_WORDS, ROOMS, dead_man, help_desk, relay_health, spool, stream};
use crate::config::Config;
use crate::gateway::heartbeat::Heartbeat;
use crate::journal;
use crate::kernel::tasks::Task;
use crate::ops::alerting::Alerts;
use crate::ops::incident::Incidents;
use crate::ops::live::Live;
use crate::ops::status_line::{self, Stage};
use crate::ops::tally::Tally;
use crate::ops::telemetry::EventName;
use crate::ops::{http, systemd};
use crate::outbox::parts::OutboxParts;
use crate::ports::EventSource;
use crate::routing::claims::in_doubt_permits::InDoubtPermits;
use crate::routing::claims::{ClaimBounds, LiveClaims};
use crate::routing::receive::{ReceiveBounds, Receiver};
use crate::routing::spool::Spool;
use crate::routing::upkeep::pauses::PauseWatch;
use crate::routing::worker::persist::Persist;
use crate::routing::worker::{Mails, Pauses, Worker};

/// Limit of the goodbye to the other daemons.
const GOODBYE: Duration = Duration::from_secs(1);

/// Routes until `stop`, then drains.
pub(super) async fn run(
    config: &Config,
    reloads: &Reloads,
    (ground, makings): (&mut Ground, Makings),
    alerts: Option<Alerts>,
    stop: &CancellationToken,
) -> Result<(), DaemonError> {
    let Makings { parts, status, watchdog, given_up } = makings;
    let DaemonParts {
        pool,
        board,
        store,
        preparer,
        help_desk: desk,
        source,
        pending_notices,
        late,
        heartbeat,
        ..
    } = parts;
    let preparer = preparer.with_tickets_behind(&ground.outages.help_desk_gate);
    let (clock, rng) = (Arc::clone(&ground.clock), Arc::clone(&ground.rng));
    let (incidents, force) = (ground.incidents.clone(), CancellationToken::new());
    let spooled = Spool::new(&config.state.dir, Arc::clone(&clock));
    spool::empty(&spooled, &store, &incidents, stop).await;
    let every = config.routing.sweep_interval;
    let spooling = spool::keep_empty(spooled.clone(), store.clone(), incidents.clone(), every);
    ground.kept.spawn("late infections", |_| async move { late.run(every).await });
    let pause_store = crate::parts::pause_store(config, pool.clone());
    let identity = crate::parts::identity(config, &rng);
    let mut pauses = PauseWatch::new(pause_store.clone(), board, ground.gate.clone(), identity.clone());
    pauses.look().await;
    let desk = match desk {
        Some(client) => Some(help_desk::start(config, client, &pause_store, ground, alerts.as_ref()).await),
        None => None,
    };
    let (tickets, desk) = desk.unzip();
    let pausing = Task::spawn("pauses", |_| pauses.run(Arc::clone(&clock)));
    let delivery_tracking = DeliveryTracking::start(DeliveryTrackingParts {
        config,
        store: &store,
        outages: &ground.outages,
        pending_notices: pending_notices.clone(),
        incidents: &incidents,
        alerts: alerts.clone(),
        senders: preparer.rules.returns.clone(),
        clock: &clock,
        rng: &rng,
    })
    .await;
    let live = LiveClaims::new(bounds(config), given_up);
    let worker = Arc::new(Worker {
        store,
        mails: Mails {
            connections: ground.connections.clone(),
            in_doubt_permits: InDoubtPermits::beside(ground.smtp.connections),
            doubts: delivery_tracking.doubts.clone(),
            rules: preparer.rules.changing.clone(),
            clock: Arc::clone(&clock),
        },
        tickets,
        preparer,
        persist: Persist::new(force.clone(), Arc::clone(&clock)),
        spool: spooled,
        outages: ground.outages.clone(),
        pauses: Pauses {
            backed_off_by_source: source.paces_retries(),
            min: config.routing.backoff_min,
            max: config.routing.backoff_max,
        },
        clock: Arc::clone(&clock),
        rng: Arc::clone(&rng),
    });
    let outbox = OutboxParts {
        store: crate::parts::outbox(config, pool.clone()),
        settings: crate::parts::outbox_settings(config, relay::AT_ONCE),
        clock: Arc::clone(&clock),
        rng: Arc::clone(&rng),
        others: ROOMS.iter().flat_map(|room| room.kinds).copied().collect(),
        set_aside: worker.outages.set_aside.clone(),
    };
    let relaying = deliver_outbox(ground, config, reloads, &source, &outbox);
    let reviewing = Reviewing::start(config, reloads, ground, &worker, &outbox)?;
    let screened = crate::parts::screening_store(config, pool.clone());
    let publications = Publications::start(config, screened, &outbox, ground.gate.clone());
    let graded = crate::parts::grading_store(config, pool.clone());
    let subject =
        crate::parts::submission_subject(config, worker.store.clone(), pool.clone(), Arc::clone(&rng))?;
    let later_grades = LaterGrades::start(graded, subject, &outbox, ground.gate.clone());
    let settings = Arc::new(config.clone());
    relay_health::watch(&mut ground.kept, &settings, &pool, &ground.connections, &incidents, &clock);
    let heart = upkeep::heartbeat(&worker, &live, config.routing.heartbeat);
    let consuming = Consuming::start(dead_letters::DeadLetterParts {
        config,
        pubsub: source.pubsub(),
        pool,
        alerts,
        clock,
        rng,
    });
    let returning = Returning::start(
        &worker,
        reloads.config.clone(),
        &incidents,
        Box::new(move |lost| pending_notices.add(lost.into())),
    );
    ground.readiness.clear("starting");
    status.stages().send_replace(Stage::Routing);
    systemd::ready();
    reloads.ready.cancel();
    journal!(info, EventName::Ready, "ready: events are received");
    let routing = Routing {
        config,
        reloads,
        source,
        outbox,
        worker,
        live,
        readiness: &ground.readiness,
        incidents,
        heartbeat,
        stop,
        force: &force,
        status,
        watchdog,
    };
    let ended = routing.run().await;
    drop(heart);
    consuming.stop().await;
    if let Some(returning) = returning {
        returning.stop().await;
    }
    delivery_tracking.stop().await;
    if let Some(relaying) = relaying {
        relaying.stop().await;
    }
    reviewing.stop().await;
    publications.stop().await;
    later_grades.stop().await;
    drop((spooling, pausing, desk));
    // A daemon that cannot say goodbye is recognised by its silence.
    drop(tokio::time::timeout(GOODBYE, pause_store.leave(&identity)).await);
    ended
}

/// The outbox's upkeep, whatever the source is, and its relay to the topic where Pub/Sub is the source.
fn deliver_outbox(
    ground: &mut Ground,
    config: &Config,
    reloads: &Reloads,
    source: &Source,
    outbox: &OutboxParts,
) -> Option<Relaying> {
    let health = watch::Sender::new(None);
    let keeping = Keeping {
        store: outbox.store.clone(),
        clock: Arc::clone(&ground.clock),
        incidents: ground.incidents.clone(),
        relay: source.pubsub().map(|_| health.subscribe()),
        gate: source.pubsub().is_none().then(|| ground.gate.clone()),
    };
    ground.kept.spawn("outbox's upkeep", |_| keeping.run(reloads.config.clone()));
    source.pubsub().map(|pubsub| Relaying::start(config, pubsub, outbox.clone(), health))
}

/// The parts of the routing itself.
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
    /// Requests the end.
    stop: &'a CancellationToken,
    /// Forces the end.
    force: &'a CancellationToken,
    status: StatusLine,
    watchdog: Watchdog,
}

impl Routing<'_> {
    /// Receives until `stop`, then drains for `drain_timeout`, then forces the end.
    async fn run(self) -> Result<(), DaemonError> {
        let Self { config, reloads, source, worker, incidents, stop, .. } = self;
        let max_in_flight = config.routing.max_in_flight;
        let room = source.room(max_in_flight);
        let bounds = ReceiveBounds { max_in_flight, max_waiting: room };
        let (find, found) = mpsc::channel(room);
        let bounds = Live::from(bounds);
        let following = Following {
            rules: worker.preparer.rules.changing.clone(),
            bounds: bounds.clone(),
            connections: worker.mails.connections.clone(),
            help_desk: worker.tickets.as_ref().map(|tickets| Arc::clone(tickets.client())),
        };
        let following = tokio::spawn(following.follow(reloads.config.clone()));
        let (mut events, health) = source.open(config, &worker, self.outbox, room);
        let sweeping = Sweeping {
            pubsub: source.pubsub().cloned(),
            worker: Arc::clone(&worker),
            find,
            incidents: incidents.clone(),
        };
        let sweeping = sweeping.start(reloads.config.clone(), stop.clone());
        let mut receiver = Receiver::new(Arc::clone(&worker), self.live, bounds, found);
        self.watchdog.reading(receiver.rounds());
        let telling = dead_man::start(self.heartbeat, config, &worker, receiver.canaries(), &incidents);
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
        let farewell =
            tokio::spawn(announce_stop(stop.clone(), Arc::clone(self.readiness), self.status.stages()));
        let ended = tokio::select! {
            ended = receiver.run(&mut events, stop) => ended.map_err(DaemonError::from),
            () = out_of_time(config.routing.drain_timeout, stop, self.force) => {
                tracing::error!(
                    "not everything was finished within routing.drain_timeout: what is left is in doubt until the sweep \
                     takes it back"
                );
                Ok(())
            }
        };
        drop(receiver);
        drop(sweeping);
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

/// Announces to readiness, status line and systemd that a stop has begun.
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

/// Resolves when a stop has taken too long: `force` is cancelled, and unfinished records get a last moment.
async fn out_of_time(drain: Duration, stop: &CancellationToken, force: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(drain).await;
    force.cancel();
    tokio::time::sleep(LAST_WORDS).await;
}

fn bounds(config: &Config) -> ClaimBounds {
    ClaimBounds { fence_after: config.routing.fence_after, delivery_deadline: config.smtp.delivery_deadline }
}
