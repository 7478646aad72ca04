//! One process: the real workers of a daemon's main side, or of a grader, on a wire of its own to the database, so that it can be caught, cut and
//! killed alone.
//!
//! A kill aborts all its tasks, cuts its wire and stops its clock: nothing more comes from it, as from a dead process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use devkit::grader::{MODELS, ScriptedGrader};
use devkit::postgres::{CuttingProxy, TestDatabase, Traffic};
use devkit::trap::Trapped;
use maple_router::config::{Config, Send};
use maple_router::db::{Pool, PoolOptions};
use maple_router::grading::core::band::Bands;
use maple_router::grading::job::store::JobStore;
use maple_router::grading::main_side::{self, MainTools, Notified};
use maple_router::grading::queue::{Queue, QueueName};
use maple_router::grading::store::GradingStore;
use maple_router::grading::worker::{self, GraderTools};
use maple_router::kernel::jobs::listener::Listener;
use maple_router::ops::rng::Rng;
use maple_router::parts;
use maple_router::ports::Clock;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::ops::{Point, SAMPLES, TWO};
use crate::clock::SimClock;
use crate::history;
use crate::outbox::MortalClock;
use crate::process::Doom;

/// Surroundings of a process.
pub(super) struct Place<'a> {
    pub(super) database: &'a TestDatabase,
    pub(super) traffic: &'a Traffic,
    pub(super) grader: &'a ScriptedGrader,
    /// The grader's key.
    pub(super) key: &'a Path,
    pub(super) clock: &'a SimClock,
}

/// A trap that waits, or holds somebody.
pub(super) struct Armed {
    pub(super) point: Point,
    pub(super) doom: Doom,
    pub(super) trapped: Trapped,
    /// Counted already: it stands there since.
    pub(super) seen: bool,
}

/// A running process.
pub(super) struct Process {
    pub(super) traps: Vec<Armed>,
    pub(super) proxy: CuttingProxy,
    pub(super) is_severed: bool,
    pub(super) stop: CancellationToken,
    mortal: MortalClock,
    main: JoinHandle<()>,
}

impl Process {
    /// Starts a daemon's main side, or behind those a grader, under a name nobody had before.
    pub(super) async fn start(place: &Place<'_>, who: usize, started: u64) -> Self {
        let proxy = CuttingProxy::counted(place.database, place.traffic).await.expect("a wire");
        let is_main = who < TWO;
        let (role, letter) = if is_main { ("forms_app", 'm') } else { ("maple_grader", 'g') };
        let name = format!("{letter}{started}");
        let mut config = Config::default();
        config.database.url = format!("{}&{}", proxy.url_as(role), history::options(&name));
        config.database.max_connections = 4;
        // Real time, for a statement that waits for a row locked by a stalled transaction.
        config.database.lock_timeout = Duration::from_millis(150);
        config.database.statement_timeout = Duration::from_secs(1);
        let mortal = MortalClock::new(place.clock);
        let clock: Arc<dyn Clock> = Arc::new(mortal.clone());
        let pool = Pool::new(&config.database, PoolOptions::new(Arc::clone(&clock))).expect("a pool");
        let rng = Arc::new(Rng::seeded(started));
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        let main = if is_main {
            let tools = MainTools {
                store: GradingStore::new(pool.clone(), &name),
                callbacks: Queue::new(pool.clone(), QueueName::Callback),
                link: None,
                signer: None,
                bands: Bands::default(),
                clock,
                rng,
            };
            let notified = Notified {
                callbacks: Listener::silent(),
                attempts: Listener::silent(),
                requests: Listener::silent(),
            };
            tokio::spawn(async move {
                main_side::run(tools, notified, stopping).await;
                pool.close();
            })
        } else {
            asking(&mut config, place);
            let tools = GraderTools {
                store: JobStore::new(pool.clone(), &name),
                requests: Queue::new(pool.clone(), QueueName::Request),
                grading: Arc::new(parts::graders(&config, Arc::clone(&clock)).expect("clients")),
                keep: config.grading.keep,
                clock,
                rng,
            };
            tokio::spawn(async move {
                let in_order = worker::run(tools, Listener::silent, Listener::silent(), None, stopping).await;
                assert!(in_order, "a worker has ended by itself");
                pool.close();
            })
        };
        Self { traps: Vec::new(), proxy, is_severed: false, stop, mortal, main }
    }

    /// Catches the next to come to a point.
    pub(super) fn catch(&mut self, point: Point, doom: Doom) {
        let (trap, nth) = point.trap();
        let trapped = self.proxy.trap(trap, nth);
        self.traps.push(Armed { point, doom, trapped, seen: false });
    }

    pub(super) fn sever(&mut self, severed: bool) {
        self.is_severed = severed;
        self.proxy.sever(severed);
    }

    /// Whether something is done to it, or will be.
    pub(super) fn is_disturbed(&self) -> bool {
        self.is_severed || !self.traps.is_empty() || self.stop.is_cancelled()
    }

    /// Whether it ended by itself.
    pub(super) fn has_ended(&self) -> bool {
        self.main.is_finished()
    }

    /// Dies now. Its connections break, its leases run out.
    pub(super) async fn crash(self) {
        self.mortal.die();
        self.main.abort();
        drop(self.proxy);
        for armed in self.traps {
            armed.trapped.cut();
        }
        // Gone is gone: only then does anything else happen.
        self.main.await.ok();
    }
}

/// A grader's own settings: only a fault waits for the limit of its client, in real time.
fn asking(config: &mut Config, place: &Place<'_>) {
    let room = &mut config.grading;
    room.samples = SAMPLES;
    room.spot_check = 0;
    room.judge.base_url = Some(place.grader.base_url());
    room.judge.models = MODELS.map(str::to_owned).to_vec();
    room.judge.key_file = Some(place.key.to_owned());
    room.judge.timeout = Duration::from_secs(2);
    room.judge.slots = 2;
    room.judge.send = Send::Full;
    room.judge.allow_scripted = true;
}
