//! Uploads beside the routing: the API on its listener, and what follows from what it took: commits, scans, upkeep, the scanner's test.
//!
//! Both have a thread and a runtime of their own, and connections of their own: reading a file for its digest holds up no routing.
//! The work goes on while the API cannot be opened, and the other way round. What it cannot do never ends the daemon. If we die,
//! leases run out, and every row says what follows.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::ground::Ground;
use super::reload::Reloads;
use super::{DaemonError, LAST_WORDS};
use crate::config::{Config, Database};
use crate::gateway::clamd::{Clamd, ClamdSettings};
use crate::gateway::objects::store::ObjectStore;
use crate::kernel::jobs::retries::Retries;
use crate::kernel::jobs::works::{self, Bounds};
use crate::kernel::jobs::{Consumer, ConsumerParts, IDLE, Settings};
use crate::kernel::rows::Kinds;
use crate::kernel::tasks::Tasks;
use crate::ops::gate::Gate;
use crate::ops::incident::{Incident, Incidents};
use crate::ops::rng::Rng;
use crate::parts;
use crate::ports::Clock;
use crate::scrub::scrub;
use crate::uploads::api::Api;
use crate::uploads::card::UNAVAILABLE;
use crate::uploads::changes::Changes;
use crate::uploads::commands::Commands;
use crate::uploads::commit::Commit;
use crate::uploads::journal::JournalObserver;
use crate::uploads::scanner::Scanner;
use crate::uploads::store::UploadStore;
use crate::uploads::table::State;
use crate::uploads::trouble::StoreTrouble;
use crate::uploads::upkeep::Upkeep;
use crate::web::listener::{Listener, Shared};

/// Name of the connections.
const APPLICATION: &str = "maple-router-uploads";
/// Connections to the database.
const CONNECTIONS: usize = 6;
/// Longest wait for a lock, and longest statement.
const LOCK: Duration = Duration::from_secs(5);
const STATEMENT: Duration = Duration::from_secs(15);
/// Lease of a commit; it is extended while somebody reads.
const LEASE: Duration = Duration::from_secs(60);
/// Interval of looks for commits whose pause is over.
const POLL: Duration = Duration::from_secs(2);
/// Shortest and longest pause of a commit that has to wait.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// Claims of one commit, each outage's among them, after which its work is taken to die of it.
const POISON: u32 = 100_000;
/// Interval of looks whether schema content is there.
const LOOK: Duration = Duration::from_secs(60);

/// The running uploads.
pub(super) struct Uploading {
    api: Listener,
    stop: CancellationToken,
    ended: oneshot::Receiver<()>,
}

/// Starts them where an address is configured. They end with `stop`.
pub(super) fn open(
    config: &Config,
    reloads: &Reloads,
    ground: &Ground,
    stop: &CancellationToken,
) -> Option<Uploading> {
    config.uploads.listen.as_ref()?;
    match started(config, reloads, ground, stop) {
        Ok(uploading) => Some(uploading),
        Err(why) => {
            let what = format!("Uploads are not taken: {}. Routing goes on.", scrub(&why));
            tracing::error!("{what}");
            ground.incidents.raise(Incident::new(UNAVAILABLE, what, &["sudo maple-router check"]));
            None
        }
    }
}

fn started(
    config: &Config,
    reloads: &Reloads,
    ground: &Ground,
    stop: &CancellationToken,
) -> Result<Uploading, String> {
    let Ground { clock, rng, incidents, .. } = ground;
    let made = made(config, ground).map_err(|error| error.to_string())?;
    let ((store, objects, scanner), changes) = (made, Changes::default());
    let commands = parts::uploads_key(config).map(|key| Commands {
        store: store.clone(),
        objects: Arc::clone(&objects),
        key,
        config: reloads.config.clone(),
        changes: changes.clone(),
        clock: Arc::clone(clock),
        rng: Arc::clone(rng),
    });
    let shared = Shared { clock: Arc::clone(clock), incidents: incidents.clone() };
    let api = Api::new(commands.map_err(|error| error.to_string()), &config.uploads);
    let api =
        Listener::start(api, shared, stop).map_err(|error| format!("the API has no thread ({error})"))?;
    let work = Arc::new(Work {
        store,
        objects,
        scanner,
        changes,
        config: reloads.config.clone(),
        clock: Arc::clone(clock),
        rng: Arc::clone(rng),
        trouble: StoreTrouble::new(incidents.clone(), Arc::clone(clock)),
        incidents: incidents.clone(),
    });
    let (stop, (last, ended)) = (stop.child_token(), oneshot::channel());
    let stopping = stop.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("their work has no runtime ({error})"))?;
    let thread = std::thread::Builder::new().name("uploads-work".to_owned()).spawn(move || {
        runtime.block_on(work.run(stopping));
        // What does not end is not waited for: a resolver's thread may hang.
        runtime.shutdown_background();
        drop(last);
    });
    thread.map_err(|error| format!("their work has no thread ({error})"))?;
    Ok(Uploading { api, stop, ended })
}

fn made(config: &Config, ground: &Ground) -> Result<(UploadStore, Arc<ObjectStore>, Scanner), DaemonError> {
    let all = &config.database;
    let settings = Database {
        max_connections: CONNECTIONS,
        lock_timeout: LOCK.min(all.lock_timeout),
        statement_timeout: STATEMENT.min(all.statement_timeout),
        ..all.clone()
    };
    let pool = parts::other_pool(config, settings, APPLICATION, Arc::clone(&ground.clock))?;
    let store = parts::upload_store(config, pool);
    let objects = Arc::new(parts::object_store(config)?);
    // The configuration is refused without a scanner.
    let settings = ClamdSettings::new(&config.scan).ok_or(parts::PartError::Scanner)?;
    Ok((store, objects, Scanner::new(Clamd::new(settings))))
}

impl Uploading {
    /// Stops: open requests are answered, a commit that is read is given back.
    pub(super) async fn stop(mut self) {
        self.api.stop().await;
        self.stop.cancel();
        if tokio::time::timeout(LAST_WORDS, &mut self.ended).await.is_err() {
            tracing::warn!("the work on uploads did not end in time: leases run out");
        }
    }
}

/// What follows from what the API took.
struct Work {
    store: UploadStore,
    objects: Arc<ObjectStore>,
    scanner: Scanner,
    changes: Changes,
    config: watch::Receiver<Arc<Config>>,
    clock: Arc<dyn Clock>,
    rng: Arc<Rng>,
    /// One for all parts: what works for one of them ends the incident of all.
    trouble: StoreTrouble,
    incidents: Incidents,
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Commits,
    Upkeep,
    Scans,
    Scanner,
}

/// The parts, by the names of their tasks.
const PARTS: [(&str, Part); 4] = [
    ("uploads' commits", Part::Commits),
    ("uploads' upkeep", Part::Upkeep),
    ("uploads' scans", Part::Scans),
    ("uploads' scanner", Part::Scanner),
];

impl Work {
    async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut tasks = Tasks::new();
        for (name, part) in PARTS {
            let work = Arc::clone(&self);
            tasks.spawn(name, move |stop| async move { work.part(part, stop).await });
        }
        stop.cancelled().await;
        tasks.stop(LAST_WORDS / 2).await;
    }

    /// Runs a part wherever schema content is there.
    async fn part(&self, part: Part, stop: CancellationToken) {
        let mut said = false;
        while !stop.is_cancelled() {
            // The breaker reports a database that does not answer.
            match self.store.is_there().await {
                Ok(true) => break,
                Ok(false) if !std::mem::replace(&mut said, true) && matches!(part, Part::Upkeep) => {
                    tracing::error!(
                        "schema content is not there: as the owner, maple-router migrate --content"
                    );
                }
                Ok(false) | Err(_) => {}
            }
            stop.run_until_cancelled(self.clock.sleep(LOOK)).await;
        }
        if stop.is_cancelled() {
            return;
        }
        match part {
            Part::Commits => self.commits(stop).await,
            Part::Upkeep => self.upkeep().run(&stop).await,
            Part::Scans => self.upkeep().scan(&stop).await,
            Part::Scanner => self.scanner.watch(&*self.clock, &self.incidents, &stop).await,
        }
    }

    async fn commits(&self, stop: CancellationToken) {
        let config = Arc::clone(&self.config.borrow());
        let retries = Retries { max_attempts: POISON, min: PAUSES.0, max: PAUSES.1, doublings: 1 };
        let settings =
            Settings { most: config.uploads.verify_slots, lease: LEASE, poll: POLL, retries, idle: IDLE };
        let consumer = Consumer::start(
            ConsumerParts {
                rows: (*self.store).clone(),
                from: State::PendingCommit,
                kinds: Kinds::AllBut(Vec::new()),
                settings,
                clock: Arc::clone(&self.clock),
                rng: Arc::clone(&self.rng),
                observer: Arc::new(JournalObserver { changes: self.changes.clone() }),
            },
            self.changes.listener(),
        );
        let work = Commit {
            store: self.store.clone(),
            objects: Arc::clone(&self.objects),
            scanner: self.scanner.clone(),
            trouble: self.trouble.clone(),
            staging_bucket: config.uploads.staging_bucket.clone(),
            bucket: config.uploads.bucket.clone(),
            clock: Arc::clone(&self.clock),
        };
        let bounds = Bounds { poison: POISON, drain: LAST_WORDS / 4, gate: Gate::new() };
        works::run(consumer, Arc::new(work), bounds, stop).await;
    }

    fn upkeep(&self) -> Upkeep {
        let config = Arc::clone(&self.config.borrow());
        Upkeep {
            store: self.store.clone(),
            objects: Arc::clone(&self.objects),
            scanner: self.scanner.clone(),
            trouble: self.trouble.clone(),
            staging_bucket: config.uploads.staging_bucket.clone(),
            slots: config.uploads.verify_slots,
            clock: Arc::clone(&self.clock),
            incidents: self.incidents.clone(),
        }
    }
}
