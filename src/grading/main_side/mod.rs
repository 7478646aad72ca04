//! The main side's workers: what is ready is published to the grader, or compared with its key; callbacks are taken in; what comes too late is
//! failed. Each is safe to run in every daemon at once.
//!
//! If we die anywhere, leases run out, messages are there as before, and another daemon goes on.

mod intake;
mod publish;
mod scheduler;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub use self::publish::{Publish, Unpublishable};
use super::consume;
use super::core::band::Bands;
use super::journal::MainObserver;
use super::link::{self, Link};
use super::queue::Queue;
use super::store::GradingStore;
use super::table::{Grading, State};
use crate::gateway::signed_url::UrlSigner;
use crate::kernel::jobs::listener::Listener;
use crate::kernel::jobs::retries::Retries;
use crate::kernel::jobs::works::{self, Bounds};
use crate::kernel::jobs::{Consumer, ConsumerParts, IDLE, Settings};
use crate::kernel::rows::Kinds;
use crate::kernel::tasks::Tasks;
use crate::ops::gate::Gate;
use crate::ops::rng::Rng;
use crate::ports::Clock;
use crate::scrub::scrub;

/// Channel on which the schema says that there is an attempt to publish.
pub const CHANNEL: &str = "maple_router_grading";
/// Claims that the kernel itself gives up at: outages claim, too.
const NEVER: u32 = 1_000_000;
/// Lease of an attempt that is published.
const LEASE: Duration = Duration::from_secs(60);
/// Interval of looks for attempts whose pause is over.
const POLL: Duration = Duration::from_secs(1);
/// Shortest and longest pause before another try, doubling.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Attempts in hand at once.
const MOST: usize = 64;
/// Time for which a stop waits for what is in hand.
const DRAIN: Duration = Duration::from_secs(5);
/// Pause after a fault of the database.
const REST: Duration = Duration::from_secs(5);
/// Interval of looks for attempts that nobody opened, and for deadlines.
const LOOK: Duration = Duration::from_secs(15);

/// Tools of all workers.
#[derive(Debug, Clone)]
pub struct MainTools {
    /// The attempts, as the daemon's role.
    pub store: GradingStore,
    /// The queue of callbacks.
    pub callbacks: Queue,
    /// The link to the grader, where topics carry the messages.
    pub link: Option<Link>,
    /// Signs links to audio; absent where nothing signs.
    pub signer: Option<Arc<UrlSigner>>,
    /// Thresholds of the bands.
    pub bands: Bands,
    /// The clock of durations.
    pub clock: Arc<dyn Clock>,
    /// Spreads pauses, makes fences and ids.
    pub rng: Arc<Rng>,
}

/// Notifiers of the workers.
#[derive(Debug)]
pub struct Notified {
    /// Of callbacks.
    pub callbacks: Listener,
    /// Of attempts.
    pub attempts: Listener,
    /// Of requests that are to be published; nobody asks it where there is no link.
    pub requests: Listener,
}

/// Runs the workers until `stop`.
pub async fn run(tools: MainTools, notified: Notified, stop: CancellationToken) {
    let Notified { callbacks, attempts, requests } = notified;
    let mut tasks = Tasks::new();
    if let Some(link) = tools.link.clone() {
        tasks.spawn("grading's link", move |stop| link::run(link, requests, stop));
    }
    tasks.spawn("grading's publisher", {
        let work = Publish { tools: tools.clone() };
        let consumer = consumer(&tools, attempts);
        move |stop| async move {
            let bounds = Bounds { poison: NEVER, drain: DRAIN, gate: Gate::new() };
            works::run(consumer, Arc::new(work), bounds, stop).await;
        }
    });
    tasks.spawn("grading's intake", {
        let tools = tools.clone();
        move |stop| async move { consume::run(&tools, &*tools.clock, &callbacks, &stop).await }
    });
    tasks.spawn("grading's deadlines", {
        let tools = tools.clone();
        move |stop| async move { scheduler::run(&tools, &stop).await }
    });
    tasks.spawn("grading's births", move |stop| async move { births(&tools, &stop).await });
    stop.cancelled().await;
    tasks.stop(DRAIN + REST).await;
}

fn consumer(tools: &MainTools, listener: Listener) -> Consumer<Grading> {
    let retries = Retries { max_attempts: NEVER, min: PAUSES.0, max: PAUSES.1, doublings: 1 };
    let parts = ConsumerParts {
        rows: (*tools.store).clone(),
        from: State::Pending,
        kinds: Kinds::Only(vec!["live"]),
        settings: Settings { most: MOST, lease: LEASE, poll: POLL, retries, idle: IDLE },
        clock: Arc::clone(&tools.clock),
        rng: Arc::clone(&tools.rng),
        observer: Arc::new(MainObserver),
    };
    Consumer::start(parts, listener)
}

async fn births(tools: &MainTools, stop: &CancellationToken) {
    const MOST_BIRTHS: i32 = 1_000;
    while !stop.is_cancelled() {
        match tools.store.births(MOST_BIRTHS).await {
            Ok(0) => {}
            Ok(born) => tracing::warn!("{born} submissions had no attempt at grading: they have one now"),
            // The breaker reports a database that does not answer.
            Err(error) => tracing::debug!("attempts are looked for again: {}", scrub(&error.to_string())),
        }
        stop.run_until_cancelled(tools.clock.sleep(LOOK)).await;
    }
}
