//! One daemon: the real receiver, worker, store and gateways, put together as `daemon.rs` does, with a wire of its
//! own to the database, a relay and a door of the help desk of its own, so that it can be caught, cut and killed alone.
//!
//! A kill aborts all its tasks and cuts its wires: nothing more comes from it, as from a dead process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use devkit::help_desk::{self as desk, Call, Door};
use devkit::postgres::{CuttingProxy, TestDatabase, Traffic, Trap};
use devkit::smtp::{Rule, SmtpServer, Stage};
use devkit::stage::Source;
use devkit::trap::Trapped;
use futures::FutureExt as _;
use maple_router::config::{Config, InDoubt, SignerKind};
use maple_router::db::Pool;
use maple_router::db::contract::{self, ContractOptions, StartDecision};
use maple_router::db::readiness::Readiness;
use maple_router::gateway::objects::Objects;
use maple_router::gateway::signed_url::UrlSigner;
use maple_router::gateway::slack::Slack;
use maple_router::gateway::smtp::{Connections, SmtpSettings, offer};
use maple_router::ops::alerting::{AlertSender, Alerter, AlerterParts, Letterhead};
use maple_router::ops::breaker::Probe;
use maple_router::ops::gate::Gate;
use maple_router::ops::incident::{Incidents, Open};
use maple_router::ops::rng::Rng;
use maple_router::parts;
use maple_router::ports::{Clock, EventSource, Webhook};
use maple_router::routing::claims::in_doubt_permits::InDoubtPermits;
use maple_router::routing::claims::{ClaimBounds, LiveClaims};
use maple_router::routing::follow::doubt::Doubts;
use maple_router::routing::outages::Outages;
use maple_router::routing::receive::{ReceiveBounds, Receiver};
use maple_router::routing::spool::{Spool, Try};
use maple_router::routing::store::Store;
use maple_router::routing::store::alerts::AlertStore;
use maple_router::routing::upkeep::alerts::FailureAlerts;
use maple_router::routing::upkeep::sweep::{Outlet, Sweeper};
use maple_router::routing::worker::persist::Persist;
use maple_router::routing::worker::prepare::{MailRules, Preparer};
use maple_router::routing::worker::{Mails, Pauses, Tickets, Worker};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::clock::SimClock;
use crate::help_desk;
use crate::history;
use crate::ops::{At, Point};
use crate::outbox::{self, MortalClock};
use crate::topic::{Stream, Tie, Topic};

/// After `drain_timeout`, as in `daemon.rs`.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Tools that cost much to make (certificates are read, keys parsed) and know nothing of the process that uses them.
pub(crate) struct Tools {
    signer: Arc<UrlSigner>,
    /// Reads nothing here, where attachments are linked.
    objects: Arc<Objects>,
    webhook: Arc<dyn Webhook>,
    head: Letterhead,
}

impl Tools {
    /// From the key and the webhook's address in a world's directory.
    pub(crate) fn of(dir: &Path) -> Self {
        let mut config = Config::default();
        outside(&mut config, dir);
        let signer = Arc::new(parts::signer(&config).expect("a signer"));
        let webhook = config.slack_webhook().expect("a secret").expect("an address");
        let slack = Slack::new(&webhook.secret, "#alerts", config.slack.timeout).expect("a client");
        let head = Letterhead { host: parts::host(), channel: "#alerts".to_owned(), ..Letterhead::default() };
        let objects = Arc::new(Objects::new(dir).expect("a client"));
        Self { signer, objects, webhook: Arc::new(slack), head }
    }
}

fn outside(config: &mut Config, dir: &Path) {
    config.signed_url.signer = SignerKind::KeyFile;
    config.signed_url.key_file = Some(dir.join("key.json"));
    config.slack.webhook_file = Some(dir.join("webhook"));
}

/// Surroundings of a process.
pub(crate) struct Place<'a> {
    pub(crate) database: &'a TestDatabase,
    pub(crate) traffic: &'a Traffic,
    pub(crate) relay: &'a SmtpServer,
    pub(crate) door: &'a Door,
    /// The subscription; absent where events come from the outbox.
    pub(crate) topic: Option<&'a Arc<Topic>>,
    pub(crate) clock: &'a SimClock,
    pub(crate) dir: &'a Path,
    pub(crate) tools: &'a Tools,
    /// Outlives the process.
    pub(crate) state: &'a Path,
    pub(crate) hold: bool,
}

/// Fate of a caught process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doom {
    Crash,
    Cut,
    Stall,
}

/// A trap that waits, or holds somebody.
pub(crate) struct Armed {
    pub(crate) point: Point,
    pub(crate) doom: Doom,
    pub(crate) trapped: Trapped,
    /// Counted already: it stands there since.
    pub(crate) seen: bool,
}

/// A running daemon.
pub(crate) struct Process {
    pub(crate) traps: Vec<Armed>,
    pub(crate) proxy: CuttingProxy,
    pub(crate) tie: Arc<Tie>,
    pub(crate) stop: CancellationToken,
    mortal: MortalClock,
    given: Arc<std::sync::Mutex<std::collections::BTreeMap<u64, u32>>>,
    sweeper: Arc<Sweeper>,
    gate: Gate,
    main: JoinHandle<()>,
    around: Vec<JoinHandle<()>>,
}

fn config(place: &Place<'_>, url: String) -> Config {
    let mut config = Config::default();
    config.database.url = url;
    config.database.max_connections = 4;
    // Real time, for a statement that waits for a row locked by a stalled transaction.
    config.database.lock_timeout = Duration::from_millis(150);
    config.database.statement_timeout = Duration::from_secs(1);
    config.smtp.host = "127.0.0.1".to_owned();
    config.smtp.port = place.relay.port();
    config.smtp.hello_name = Some("maple.test".to_owned());
    config.smtp.lanes = 2;
    // Real time, and only a fault waits for it; the deadline is simulated time, longer than the fence.
    config.smtp.connect_timeout = Duration::from_secs(1);
    config.smtp.command_timeout = Duration::from_millis(400);
    config.smtp.dot_timeout = Duration::from_millis(400);
    config.smtp.delivery_deadline = Duration::from_secs(400);
    config.mail.from = "gpus-it-security@greenpeace.org".to_owned();
    outside(&mut config, place.dir);
    help_desk::configure(&mut config, place.door.base_url(), place.dir);
    config.routing.in_doubt = if place.hold { InDoubt::Hold } else { InDoubt::Resend };
    config
}

impl Process {
    /// Starts one under a name nobody had before.
    pub(crate) async fn start(place: &Place<'_>, name: &str, seed: u64) -> Self {
        let proxy = CuttingProxy::counted(place.database, place.traffic).await.expect("a wire");
        let url = format!("{}&{}", proxy.url_as("forms_app"), history::options(name));
        let mut config = config(place, url);
        config.routing.worker_name = Some(name.to_owned());
        let mortal = MortalClock::new(place.clock);
        let clock: Arc<dyn Clock> = Arc::new(mortal.clone());
        let rng = Arc::new(Rng::seeded(seed));
        let (stop, force) = (CancellationToken::new(), CancellationToken::new());
        let pool = parts::pool(&config, Arc::clone(&clock)).expect("a pool");
        let store = parts::store(&config, pool.clone()).expect("a store");
        let preparer = Preparer {
            rules: MailRules::new(&config).expect("rules"),
            store: store.clone(),
            signer: Arc::clone(&place.tools.signer),
            objects: Arc::clone(&place.tools.objects),
            rng: Arc::clone(&rng),
            tickets: Some(help_desk::rules(&config)),
        };
        let connections = Connections::new(SmtpSettings::from(&config.smtp), Arc::clone(&clock));
        let bounds = ClaimBounds {
            fence_after: config.routing.fence_after,
            delivery_deadline: config.smtp.delivery_deadline,
        };
        let live = LiveClaims::new(bounds, stop.child_token());
        let spool = Spool::new(place.state, Arc::clone(&clock));
        let (outages, incidents, probes, tickets) = outages(&config, place, &pool, &preparer, &clock, &rng);
        let preparer = preparer.with_tickets_behind(&outages.help_desk_gate);
        let worker = Arc::new(Worker {
            outages,
            spool: spool.clone(),
            store,
            mails: Mails {
                connections: connections.clone(),
                in_doubt_permits: InDoubtPermits::beside(config.smtp.lanes),
                doubts: Doubts::unfollowed(Arc::clone(&clock)),
                rules: preparer.rules.changing.clone(),
                clock: Arc::clone(&clock),
            },
            tickets: Some(tickets),
            preparer,
            persist: Persist::new(force.clone(), Arc::clone(&clock)),
            pauses: Pauses {
                backed_off_by_source: place.topic.is_some(),
                min: config.routing.backoff_min,
                max: config.routing.backoff_max,
            },
            clock: Arc::clone(&clock),
            rng,
        });
        let heart = heartbeat(&worker, &live, config.routing.heartbeat);
        let tie = Arc::<Tie>::default();
        let mut given = Arc::default();
        let mut source: Box<dyn EventSource> = if let Some(topic) = place.topic {
            let stream = Stream::of(topic, &tie);
            given = Arc::clone(&stream.given);
            Box::new(stream)
        } else {
            Box::new(outbox::source(&config, &pool, Arc::clone(&clock), Arc::clone(&worker.rng)))
        };
        let (find, found) = tokio::sync::mpsc::channel(16);
        let bounds = ReceiveBounds { max_in_flight: 8, max_waiting: 64 };
        let outlet = Outlet { queue: Some(find), events: None };
        let aside = || worker.outages.set_aside.clone();
        let sweeper =
            Sweeper::new(worker.store.clone(), (&config).into(), outlet, Arc::clone(&worker.rng), aside());
        let sweeper = Arc::new(sweeper);
        let sweep =
            sweep(&sweeper, &clock, config.routing.sweep_interval, &stop, worker.outages.gate.clone());
        let gate = worker.outages.gate.clone();
        let mut around = probes;
        let readiness = Readiness::new(None).expect("no column");
        let failures = FailureAlerts {
            store: AlertStore::new(pool.clone(), &readiness, &config),
            clock: Arc::clone(&clock),
            rng: Arc::clone(&worker.rng),
            set_aside: aside(),
        };
        let sender = AlertSender {
            webhook: Arc::clone(&place.tools.webhook),
            failures: vec![Arc::new(failures)],
            head: place.tools.head.clone(),
        };
        let (alerter, alerts) = Alerter::new(AlerterParts {
            sender: Arc::new(sender),
            intervals: parts::alert_intervals(&config),
            incidents,
            clock: Arc::clone(&clock),
            rng: Arc::clone(&worker.rng),
            is_measured: true,
        });
        let telling = stop.clone();
        around.push(tokio::spawn(async move {
            alerter.run(telling).await;
            drop(alerts);
        }));
        let store = worker.store.clone();
        around.push(tokio::spawn(keep_empty(spool.clone(), store.clone(), Arc::clone(&clock))));
        around.extend([heart, sweep]);
        let mut receiver = Receiver::new(worker, live, bounds, found);
        let (stopping, drain) = (stop.clone(), config.routing.drain_timeout);
        let main = tokio::spawn(async move {
            // Spooled acceptances are known before anything is sent, as in `daemon/spool.rs`.
            spool.prepare().await.expect("a directory");
            while spool.replay(&store, Try::Everything).await.is_err() && !stopping.is_cancelled() {
                clock.sleep(Duration::from_secs(2)).await;
            }
            drop(store);
            let out_of_time = async {
                stopping.cancelled().await;
                clock.sleep(drain).await;
                force.cancel();
                clock.sleep(LAST_WORDS).await;
            };
            tokio::select! {
                _ = receiver.run(&mut *source, &stopping) => {}
                () = out_of_time => {}
            }
            drop(receiver);
            source.stop(LAST_WORDS).await;
            connections.close().await;
            pool.close();
        });
        Self { traps: Vec::new(), proxy, tie, stop, mortal, given, sweeper, gate, main, around }
    }

    /// Catches the next to come to a point.
    pub(crate) fn catch(
        &mut self,
        (relay, door): (&SmtpServer, &Door),
        source: Source,
        point: Point,
        doom: Doom,
    ) {
        let trapped = match point {
            Point::BeforeAck if source == Source::Postgres => {
                self.proxy.trap(Trap::CommitSent("outbox_settle"), 1)
            }
            Point::AfterAck if source == Source::Postgres => {
                self.proxy.trap(Trap::CommitAnswered("outbox_settle"), 1)
            }
            Point::BeforeTake => self.proxy.trap(Trap::TakenSent("outbox_claim"), 1),
            Point::AfterTake => self.proxy.trap(Trap::TakenAnswered("outbox_claim"), 1),
            Point::Before(tx) => self.proxy.trap(Trap::CommitSent(tx.name()), 1),
            Point::After(tx) => self.proxy.trap(Trap::CommitAnswered(tx.name()), 1),
            Point::Smtp(at) => relay.trap(Rule::at(stage(at))),
            Point::Ticket(step) => door.trap(desk::Rule::at(help_desk::stage(step)).call(Call::Create)),
            Point::BeforeAck => return self.tie.trap_ack(Some(false)),
            Point::AfterAck => return self.tie.trap_ack(Some(true)),
        };
        self.traps.push(Armed { point, doom, trapped, seen: false });
    }

    /// A pass, as if the timer had come to it.
    pub(crate) fn sweep(&mut self) {
        let sweeper = Arc::clone(&self.sweeper);
        let gate = self.gate.clone();
        self.around.push(tokio::spawn(async move { drop(sweeper.pass(|| gate.is_open()).await) }));
    }

    /// Whether the process ended by itself.
    pub(crate) fn has_ended(&self) -> bool {
        self.main.is_finished()
    }

    /// Dies now. Its connections break, its leases run out.
    pub(crate) async fn crash(self, topic: Option<&Topic>) {
        self.tie.cut();
        self.mortal.die();
        self.main.abort();
        self.around.iter().for_each(JoinHandle::abort);
        drop(self.proxy);
        for armed in self.traps {
            armed.trapped.cut();
        }
        // Gone is gone: only then does anything else happen.
        self.main.await.ok();
        let given = self.given.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        if let Some(topic) = topic {
            topic.orphan(&given);
        }
    }
}

pub(crate) fn stage(at: At) -> Stage {
    match at {
        At::Connect => Stage::Banner,
        At::Mail => Stage::Mail,
        At::Rcpt => Stage::Rcpt,
        At::Data => Stage::Data,
        At::Body => Stage::Body,
        At::Dot => Stage::Dot,
        At::Stored => Stage::AfterDot,
        At::Replied => Stage::Replied,
    }
}

async fn keep_empty(spool: Spool, store: Store, clock: Arc<dyn Clock>) {
    loop {
        clock.sleep(Duration::from_secs(60)).await;
        drop(spool.replay(&store, Try::Waiting).await);
    }
}

/// The breakers and their probes, as `daemon/outages.rs` has them.
fn outages(
    config: &Config,
    place: &Place<'_>,
    pool: &Pool,
    preparer: &Preparer,
    clock: &Arc<dyn Clock>,
    rng: &Arc<Rng>,
) -> (Outages, watch::Receiver<Open>, Vec<JoinHandle<()>>, Tickets) {
    let (incidents, open) = Incidents::new();
    let (outages, probers) = Outages::new(Gate::new(), &incidents, Arc::clone(clock), rng);
    let (pool, smtp) = (pool.clone(), SmtpSettings::from(&config.smtp));
    let (looked_at, breaker) = (pool.clone(), outages.contract.clone());
    // A submission that could not be asked has not ended.
    let contract: Probe = Box::new(move || {
        let (pool, breaker) = (looked_at.clone(), breaker.clone());
        async move {
            let lines = contract::inspect_essentials(&pool, &ContractOptions::default()).await;
            match (contract::broken(&lines), contract::verdict(&lines)) {
                (Some(broken), _) => Err(broken.what),
                (None, StartDecision::Start) => Ok(()),
                (None, StartDecision::LookAgain | StartDecision::Refuse) if breaker.is_open() => {
                    Err("not asked".to_owned())
                }
                (None, StartDecision::LookAgain | StartDecision::Refuse) => Ok(()),
            }
        }
        .boxed()
    });
    let sender = preparer.rules.from.address.clone();
    let postgres: Probe = Box::new(move || {
        let pool = pool.clone();
        async move { pool.ask().await.map_err(|error| error.to_string()) }.boxed()
    });
    let relay: Probe = Box::new(move || {
        let (smtp, sender) = (smtp.clone(), sender.clone());
        async move { offer(&smtp, &sender).await.map_err(|fault| fault.reply.reply) }.boxed()
    });
    // A key file cannot be down.
    let signer: Probe = Box::new(|| futures::future::ready(Ok(())).boxed());
    let tickets = help_desk::carrier(config, place.state, &outages.help_desk_gate, clock);
    let tasks = [
        tokio::spawn(probers.help_desk.run(help_desk::probe(tickets.client()))),
        tokio::spawn(probers.postgres.run(postgres)),
        tokio::spawn(probers.relay.run(relay)),
        tokio::spawn(probers.signer.run(signer)),
        tokio::spawn(probers.contract.run(contract)),
    ];
    (outages, open, tasks.into(), tickets)
}

fn sweep(
    sweeper: &Arc<Sweeper>,
    clock: &Arc<dyn Clock>,
    every: Duration,
    stop: &CancellationToken,
    gate: Gate,
) -> JoinHandle<()> {
    let (sweeper, clock, stop) = (Arc::clone(sweeper), Arc::clone(clock), stop.clone());
    tokio::spawn(async move { sweeper.run(&*clock, every, || gate.is_open(), &stop).await })
}

/// Heartbeats as in `daemon.rs`, by the simulated clock.
fn heartbeat(worker: &Arc<Worker>, live: &LiveClaims, every: Duration) -> JoinHandle<()> {
    let (worker, live) = (Arc::clone(worker), live.clone());
    tokio::spawn(async move {
        loop {
            worker.clock.sleep(every).await;
            let claims = live.all();
            if claims.is_empty() {
                continue;
            }
            let before = worker.clock.monotonic();
            if let Ok(heartbeat) = worker.store.heartbeat(&claims).await {
                live.heartbeat(&claims, &heartbeat, before);
            }
        }
    })
}
