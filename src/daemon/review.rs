//! The review beside the routing: remedies under way, what time brings, and mails to reviewers.
//!
//! Schema router may come and go while we run. If we die, leases run out, and every row says what follows.

mod mails;

use std::sync::Arc;
use std::time::Duration;

use mails::Mails;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::ground::Ground;
use super::reload::{self, Reloads};
use super::{DaemonError, LAST_WORDS};
use crate::config::Config;
use crate::grey_queue::automation::Attempt;
use crate::grey_queue::commands::{Commands, People};
use crate::grey_queue::journal::JournalObserver;
use crate::grey_queue::store::ASSIGNED;
use crate::grey_queue::table::{State, who};
use crate::grey_queue::upkeep::{Bounds as UpkeepBounds, Upkeep};
use crate::kernel::Who;
use crate::kernel::jobs::listener::Listener;
use crate::kernel::jobs::retries::Retries;
use crate::kernel::jobs::works::{self, Bounds};
use crate::kernel::jobs::{Consumer, ConsumerParts, IDLE, Settings};
use crate::kernel::rows::Kinds;
use crate::kernel::tasks::Tasks;
use crate::ops::incident::Incidents;
use crate::outbox::parts::OutboxParts;
use crate::parts::{self, PartError};
use crate::routing::worker::Worker;
use crate::routing::worker::prepare::MailRules;

/// Remedies looked after at once.
const AT_ONCE: usize = 8;
/// Mails to reviewers sent at once.
const MAILS: usize = 2;
/// Lease of an entry, and of a mail.
const LEASE: Duration = Duration::from_secs(120);
/// Interval of looks for entries and mails that are due.
const POLL: Duration = Duration::from_secs(5);
/// Interval of looks whether there is a review queue.
const LOOK: Duration = Duration::from_secs(60);
/// Shortest and longest pause between two attempts of a remedy; the longest grows fourfold from one to the next.
const PAUSES: (Duration, Duration) = (Duration::from_secs(900), Duration::from_secs(6 * 3600));
/// Claims of one entry, each of them a look, after which its work is taken to die of it.
const POISON: u32 = 100_000;

/// The users of the desk, as of the last reload.
#[derive(Debug, Clone)]
pub(super) struct Users(watch::Receiver<Arc<Config>>);

impl Users {
    pub(super) fn new(config: watch::Receiver<Arc<Config>>) -> Self {
        Self(config)
    }

    fn address_of(&self, name: &str) -> Option<String> {
        self.0.borrow().desk.users.get(name).map(|user| user.email.clone())
    }
}

impl People for Users {
    fn role_of(&self, name: &str) -> Option<Who> {
        self.0.borrow().desk.users.get(name).map(|user| who(user.role))
    }
}

/// The review's tasks.
pub(super) struct Reviewing(Tasks);

impl Reviewing {
    /// Starts them; each waits until there is a review queue.
    pub(super) fn start(
        config: &Config,
        reloads: &Reloads,
        ground: &Ground,
        worker: &Arc<Worker>,
        outbox: &OutboxParts,
    ) -> Result<Self, DaemonError> {
        let (clock, rng) = (Arc::clone(&ground.clock), Arc::clone(&ground.rng));
        let users = Users::new(reloads.config.clone());
        let commands = parts::review(
            config,
            ground.pool.clone(),
            worker.store.clone(),
            Arc::new(users.clone()),
            Arc::clone(&rng),
        )?;
        let actor: Arc<str> = format!("maple-router@{}", parts::worker_name(config)).into();
        let keeper = Keeper {
            commands,
            actor,
            outbox: OutboxParts {
                settings: Settings { most: MAILS, lease: LEASE, poll: POLL, ..outbox.settings },
                clock: Arc::clone(&clock),
                rng: Arc::clone(&rng),
                ..outbox.clone()
            },
            gate: worker.outages.gate.clone(),
            mails: Mails {
                users,
                connections: ground.connections.clone(),
                rules: Arc::new(MailRules::new(config).map_err(PartError::Mail)?),
                origin: config.desk.listen.as_ref().map(|_| config.desk.origin.clone()),
                host: parts::host(),
                store: parts::review_store(config, ground.pool.clone()),
            },
            incidents: ground.incidents.clone(),
            config: reloads.config.clone(),
        };
        let keeper = Arc::new(keeper);
        let mut tasks = Tasks::new();
        for (name, part) in PARTS {
            let keeper = Arc::clone(&keeper);
            tasks.spawn(name, |stop| async move { keeper.run(part, stop).await });
        }
        Ok(Self(tasks))
    }

    /// Stops: what is carried out stands in its row.
    pub(super) async fn stop(self) {
        self.0.stop(LAST_WORDS).await;
    }
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Remedies,
    Upkeep,
    Mails,
}

/// The parts, by the names of their tasks.
const PARTS: [(&str, Part); 3] = [
    ("review's remedies", Part::Remedies),
    ("review's upkeep", Part::Upkeep),
    ("review's mails", Part::Mails),
];

/// What the tasks need.
struct Keeper {
    commands: Commands,
    actor: Arc<str>,
    outbox: OutboxParts,
    gate: crate::ops::gate::Gate,
    mails: Mails,
    incidents: Incidents,
    config: watch::Receiver<Arc<Config>>,
}

impl Keeper {
    /// Runs a part wherever there is a review queue, anew with every reload.
    async fn run(&self, part: Part, stop: CancellationToken) {
        let mut config = self.config.clone();
        while !stop.is_cancelled() {
            let now = Arc::clone(&config.borrow_and_update());
            // The breaker reports a database that does not answer.
            if self.commands.store.is_there().await.unwrap_or(false) {
                let ends = stop.child_token();
                let running = self.part(part, &now, ends.clone());
                tokio::pin!(running);
                tokio::select! {
                    () = &mut running => {}
                    () = reload::changed(&mut config) => {
                        ends.cancel();
                        running.await;
                        continue;
                    }
                }
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.outbox.clock.sleep(LOOK) => {}
            }
        }
    }

    async fn part(&self, part: Part, config: &Config, stop: CancellationToken) {
        match part {
            Part::Remedies => self.remedies(config, stop).await,
            Part::Upkeep => self.upkeep(config).run(&stop).await,
            Part::Mails => self.mails(stop).await,
        }
    }

    async fn remedies(&self, config: &Config, stop: CancellationToken) {
        let review = &config.grey_queue;
        let retries =
            Retries { max_attempts: review.max_attempts, min: PAUSES.0, max: PAUSES.1, doublings: 2 };
        let consumer = Consumer::start(
            ConsumerParts {
                rows: (*self.commands.store).clone(),
                from: State::Processing,
                kinds: Kinds::AllBut(Vec::new()),
                settings: Settings { most: AT_ONCE, lease: LEASE, poll: POLL, retries, idle: IDLE },
                clock: Arc::clone(&self.outbox.clock),
                rng: Arc::clone(&self.outbox.rng),
                observer: Arc::new(JournalObserver),
            },
            Listener::silent(),
        );
        let work = Attempt {
            store: self.commands.store.clone(),
            subjects: self.commands.subjects.clone(),
            actor: Arc::clone(&self.actor),
            evidence_timeout: review.evidence_timeout,
        };
        let bounds = Bounds { poison: POISON, drain: LAST_WORDS / 2, gate: self.gate.clone() };
        works::run(consumer, Arc::new(work), bounds, stop).await;
    }

    fn upkeep(&self, config: &Config) -> Upkeep {
        let review = &config.grey_queue;
        Upkeep {
            store: self.commands.store.clone(),
            subjects: self.commands.subjects.clone(),
            bounds: UpkeepBounds {
                ttl: review.ttl,
                auto: review.auto.iter().cloned().collect(),
                max_attempts: review.max_attempts,
                keep: review.keep,
                every: config.routing.sweep_interval,
            },
            clock: Arc::clone(&self.outbox.clock),
            incidents: self.incidents.clone(),
            actor: Arc::clone(&self.actor),
        }
    }

    async fn mails(&self, stop: CancellationToken) {
        let parts = ConsumerParts { kinds: Kinds::Only(vec![ASSIGNED]), ..self.outbox.jobs() };
        let consumer = Consumer::start(parts, Listener::silent());
        let bounds = Bounds { poison: POISON, drain: LAST_WORDS / 2, gate: self.gate.clone() };
        works::run(consumer, Arc::new(self.mails.clone()), bounds, stop).await;
    }
}
