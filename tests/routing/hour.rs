//! An hour without the relay, and an hour without the database, with the clock advanced: the real receiver, worker and
//! store in this process, on a clock that stands still until it is moved. Its events come from the outbox as a daemon reads
//! it; of Pub/Sub there is what the receiver sees of it, because the client's own timers cannot be moved.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use devkit::forms::{Form, SubmissionSeed};
use devkit::postgres::{Cluster, ClusterOptions};
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{Source, Stage, StageOptions};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use maple_router::config::{Config, Pooling};
use maple_router::db::pool::Pool;
use maple_router::gateway::smtp::{Connections, SmtpSettings, offer};
use maple_router::ops::gate::Gate;
use maple_router::ops::incident::{Incidents, Open};
use maple_router::ops::rng::Rng;
use maple_router::ops::set_aside::SetAside;
use maple_router::outbox::parts::OutboxParts;
use maple_router::outbox::source::OutboxSource;
use maple_router::parts;
use maple_router::ports::{Acknowledgement, Clock, EventSource, Incoming, Settle, SourceError};
use maple_router::routing::claims::in_doubt_permits::InDoubtPermits;
use maple_router::routing::claims::{ClaimBounds, LiveClaims};
use maple_router::routing::event::{self, Reason, RoutingEvent};
use maple_router::routing::follow::doubt::Doubts;
use maple_router::routing::outages::Outages;
use maple_router::routing::receive::{ReceiveBounds, Receiver};
use maple_router::routing::spool::Spool;
use maple_router::routing::worker::persist::Persist;
use maple_router::routing::worker::{Mails, Pauses, Worker};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::harness::{load, row};

const SECOND: Duration = Duration::from_secs(1);
/// Events pending at once.
const MOST: usize = 64;

/// Stands still until it is moved.
#[derive(Debug, Clone)]
struct Standing {
    started: Instant,
    passed: watch::Sender<Duration>,
}

impl Standing {
    #[expect(clippy::disallowed_methods, reason = "any instant will do as the first")]
    fn new() -> Self {
        Self { started: Instant::now(), passed: watch::Sender::new(Duration::ZERO) }
    }

    fn advance(&self, by: Duration) {
        self.passed.send_modify(|passed| *passed += by);
    }
}

impl Clock for Standing {
    fn monotonic(&self) -> Instant {
        self.started + *self.passed.borrow()
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
        let mut passed = self.passed.subscribe();
        let until = passed.borrow().saturating_add(pause);
        async move { drop(passed.wait_for(|passed| *passed >= until).await) }.boxed()
    }
}

/// Events as a subscription would bring them: what is given back comes again, and is counted.
#[derive(Debug, Clone, Default)]
struct Events(Arc<Mutex<Counted>>);

#[derive(Debug, Default)]
struct Counted {
    waiting: VecDeque<Uuid>,
    acked: u64,
}

impl Events {
    fn publish(&self, id: Uuid) {
        self.0.lock().expect("whole").waiting.push_back(id);
    }

    fn settled(&self, id: Uuid, verdict: Acknowledgement) {
        let mut events = self.0.lock().expect("whole");
        match verdict {
            Acknowledgement::Ack => events.acked += 1,
            Acknowledgement::Nack | Acknowledgement::Reject | Acknowledgement::Exhaust => {
                events.waiting.push_back(id);
            }
        }
    }
}

impl EventSource for Events {
    fn next(&mut self) -> BoxFuture<'_, Result<Incoming, SourceError>> {
        async {
            loop {
                let next = self.0.lock().expect("whole").waiting.pop_front();
                let Some(id) = next else {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    continue;
                };
                let events = self.clone();
                let event = RoutingEvent { submission_id: id, form_id: None, reason: Reason::Finalized };
                let (attributes, data): (_, Bytes) = event::encode(&event);
                let settle = Settle::new(move |verdict| events.settled(id, verdict));
                let (published_at, delivery_attempt) = (None, None);
                let message_id = id.to_string();
                return Ok(Incoming { message_id, published_at, delivery_attempt, attributes, data, settle });
            }
        }
        .boxed()
    }

    fn quiet(&mut self) -> BoxFuture<'_, ()> {
        futures::future::ready(()).boxed()
    }

    fn stop(self: Box<Self>, _timeout: Duration) -> BoxFuture<'static, bool> {
        futures::future::ready(true).boxed()
    }
}

/// Either source, with an eye on what it brings while it is paused.
struct Watched {
    source: Box<dyn EventSource>,
    paused: bool,
    brought_while_paused: Arc<AtomicU64>,
}

impl EventSource for Watched {
    fn next(&mut self) -> BoxFuture<'_, Result<Incoming, SourceError>> {
        async {
            let next = self.source.next().await;
            self.brought_while_paused.fetch_add(u64::from(self.paused), Ordering::SeqCst);
            next
        }
        .boxed()
    }

    fn pause(&mut self) -> BoxFuture<'_, ()> {
        self.paused = true;
        self.source.pause()
    }

    fn resume(&mut self) {
        self.paused = false;
        self.source.resume();
    }

    fn quiet(&mut self) -> BoxFuture<'_, ()> {
        self.source.quiet()
    }

    fn stop(self: Box<Self>, timeout: Duration) -> BoxFuture<'static, bool> {
        self.source.stop(timeout)
    }
}

/// A daemon's inside, without the process.
struct Inside {
    stage: Stage,
    clock: Standing,
    events: Events,
    brought_while_paused: Arc<AtomicU64>,
    gate: Gate,
    incidents: watch::Receiver<Open>,
    /// Counts of incidents raised and ended.
    incident_counts: Arc<Mutex<(u32, u32)>>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Inside {
    /// With two connections, so that some claims always wait for one.
    async fn start(stage: Stage) -> Self {
        load(&stage, &[Form::new("f").mail_to("a@x.test").mail_to("b@x.test")]).await;
        let path = stage
            .write_config("inside", &stage.config("inside", 0, "[smtp]\nlanes = 2"))
            .expect("a configuration");
        let config = Config::load(Some(&path), &maple_router::config::Environment::default());
        let config = config.expect("read").validated().expect("valid").config;
        let (clock, rng) = (Standing::new(), Arc::new(Rng::seeded(3)));
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let pool = parts::pool(&config, Arc::clone(&shared)).expect("a pool");
        let store = parts::store(&config, pool.clone()).expect("a store");
        let preparer = parts::preparer(&config, store.clone(), Arc::clone(&rng)).expect("a preparer");
        let smtp = SmtpSettings::from(&config.smtp);
        let (gate, (incidents, seen)) = (Gate::new(), Incidents::new());
        let (outages, probers) = Outages::new(gate.clone(), &incidents, Arc::clone(&shared), &rng);
        let (stop, force) = (CancellationToken::new(), CancellationToken::new());
        let bounds = ClaimBounds {
            fence_after: config.routing.fence_after,
            delivery_deadline: config.smtp.delivery_deadline,
        };
        let live = LiveClaims::new(bounds, stop.child_token());
        let source = stage.source();
        let (min, max) = (config.routing.backoff_min, config.routing.backoff_max);
        let worker = Arc::new(Worker {
            store,
            mails: Mails {
                connections: Connections::new(smtp.clone(), Arc::clone(&shared)),
                in_doubt_permits: InDoubtPermits::beside(smtp.connections),
                doubts: Doubts::unfollowed(Arc::clone(&shared)),
                rules: preparer.rules.changing.clone(),
                clock: Arc::clone(&shared),
            },
            tickets: None,
            preparer,
            persist: Persist::new(force, Arc::clone(&shared)),
            outages,
            spool: Spool::new(&config.state.dir, Arc::clone(&shared)),
            pauses: Pauses { backed_off_by_source: source == Source::Pubsub, min, max },
            clock: Arc::clone(&shared),
            rng: Arc::clone(&rng),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(probers.postgres.run(probe_of(pool.clone())));
        tasks.spawn(probers.relay.run(Box::new(move || {
            let smtp = smtp.clone();
            Box::pin(async move { offer(&smtp, "me@x.test").await.map_err(|fault| fault.reply.reply) })
        })));
        let incident_counts = Arc::new(Mutex::new((0, 0)));
        tasks.spawn(count(seen.clone(), Arc::clone(&incident_counts)));
        let events = Events::default();
        let source: Box<dyn EventSource> = match source {
            Source::Pubsub => Box::new(events.clone()),
            Source::Postgres => {
                let (store, settings) = (parts::outbox(&config, pool), parts::outbox_settings(&config, MOST));
                let listener = parts::outbox_listener(&config, Pooling::Session, Arc::clone(&shared))
                    .expect("a listener");
                let set_aside = SetAside::new(Arc::clone(&shared), None);
                let others = Vec::new();
                let outbox = OutboxParts { store, others, settings, clock: shared, rng, set_aside };
                Box::new(OutboxSource::open(&outbox, listener, None))
            }
        };
        let brought_while_paused = Arc::<AtomicU64>::default();
        let watched = Arc::clone(&brought_while_paused);
        let mut source = Watched { source, paused: false, brought_while_paused: watched };
        let ending = stop.clone();
        tasks.spawn(async move {
            let (_find, found) = mpsc::channel(16);
            let bounds = ReceiveBounds { max_in_flight: 8, max_waiting: MOST };
            let mut receiver = Receiver::new(worker, live, bounds, found);
            receiver.run(&mut source, &ending).await.expect("it ends well");
        });
        Self {
            stage,
            clock,
            events,
            brought_while_paused,
            gate,
            incidents: seen,
            incident_counts,
            stop,
            tasks,
        }
    }

    /// Lets an hour pass, second by second, with a moment of real time for real connections each.
    async fn an_hour(&self) {
        for _ in 0..3600 {
            self.clock.advance(SECOND);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Moves time on until it is so.
    async fn until(&self, what: &str, so: impl AsyncFn() -> bool) {
        for _ in 0..3000 {
            if so().await {
                return;
            }
            self.clock.advance(SECOND / 4);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("no {what}: {:?} {:?}", self.gate.reasons(), self.incidents.borrow());
    }

    /// Events that are done with.
    async fn acked(&self) -> u64 {
        match self.stage.source() {
            Source::Pubsub => self.events.0.lock().expect("whole").acked,
            Source::Postgres => self.stage.events().await.expect("a look").acked,
        }
    }

    /// Submissions become ready, and their events are on their way: the outbox has them from the database itself.
    async fn submit(&self, n: usize) -> Vec<Uuid> {
        let backend = self.stage.database.client_as("forms_app").await.expect("forms_app");
        let mut ids = Vec::new();
        for _ in 0..n {
            let id = SubmissionSeed::of("f").insert(&backend).await.expect("a row").id;
            self.events.publish(id);
            ids.push(id);
        }
        ids
    }

    /// All are routed at their first attempt that counts, their events settled, one incident come and gone.
    async fn all_is_routed_once(mut self, ids: &[Uuid]) {
        let eyes = self.stage.database.superuser().await.expect("superuser");
        for id in ids {
            self.until("end", async || row(&eyes, *id).await.status == "routed").await;
            let row = row(&eyes, *id).await;
            assert_eq!(row.attempts(), 1, "{row:?}");
            for key in ["1|a@x.test", "2|b@x.test"] {
                assert_eq!(row.entry(key)["state"], "accepted", "{row:?}");
                assert_eq!(row.entry(key)["doubted"], serde_json::Value::Null, "{row:?}");
            }
        }
        assert_eq!(self.stage.relay.counters().mails, 2 * ids.len() as u64);
        assert!(self.stage.relay.digests().values().all(|copies| *copies == 1), "nothing twice");
        self.until("acks", async || self.acked().await == ids.len() as u64).await;
        assert_eq!(*self.incident_counts.lock().expect("whole"), (1, 1), "one alert, one recovery");
        assert_eq!(self.brought_while_paused.load(Ordering::SeqCst), 0);
        assert!(self.gate.is_open());
        self.stop.cancel();
        self.clock.advance(SECOND);
        self.tasks.abort_all();
    }
}

fn probe_of(pool: Pool) -> maple_router::ops::breaker::Probe {
    Box::new(move || {
        let pool = pool.clone();
        Box::pin(async move { pool.ask().await.map_err(|error| error.to_string()) })
    })
}

async fn count(mut seen: watch::Receiver<Open>, counts: Arc<Mutex<(u32, u32)>>) {
    let mut open = 0;
    while seen.changed().await.is_ok() {
        let now = seen.borrow_and_update().len();
        let mut counts = counts.lock().expect("whole");
        if now > open {
            counts.0 += 1;
        } else {
            counts.1 += 1;
        }
        open = now;
    }
}

fn options(source: Source) -> StageOptions {
    StageOptions { sample_forms: false, ..StageOptions::of(source) }
}

devkit::with_either_source!(
    an_hour_without_the_relay_spends_nothing_and_is_one_alert,
    an_hour_without_the_database_leaves_no_doubt_and_is_one_alert,
);

async fn an_hour_without_the_relay_spends_nothing_and_is_one_alert(source: Source) {
    let inside = Inside::start(Stage::start(options(source)).await.expect("a stage")).await;
    inside.stage.relay.stop().await;
    let mut ids = inside.submit(10).await;
    inside.until("outage", async || !inside.gate.is_open()).await;
    inside.an_hour().await;
    let eyes = inside.stage.database.superuser().await.expect("superuser");
    for id in &ids {
        let row = row(&eyes, *id).await;
        assert_eq!((row.status.as_str(), row.attempts()), ("received", 0), "{row:?}");
    }
    ids.extend(inside.submit(5).await);
    inside.stage.relay.restart().await.expect("the relay is back");
    inside.all_is_routed_once(&ids).await;
}

async fn an_hour_without_the_database_leaves_no_doubt_and_is_one_alert(source: Source) {
    let cluster = Cluster::start(ClusterOptions::default()).await.expect("a server of our own");
    let database = cluster.database(options(source).variant).await.expect("a database");
    let inside = Inside::start(Stage::on(database, options(source)).await.expect("a stage")).await;
    // Some mails are on their way when the database goes: their facts outlive the claims' deadline.
    inside.stage.relay.rule(Rule::at(At::AfterDot).delay(Duration::from_millis(300)));
    let ids = inside.submit(12).await;
    // The outbox is polled by this clock: a test that waits for a mail must let it go on.
    inside.until("mail", async || inside.stage.relay.counters().mails > 0).await;
    cluster.stop().await;
    inside.until("outage", async || !inside.gate.is_open()).await;
    inside.an_hour().await;
    cluster.start_again().await.expect("it is back");
    inside.all_is_routed_once(&ids).await;
}
