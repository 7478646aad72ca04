//! The grader: requests become jobs, jobs are worked on, and what came of them is sent back. A process of its own, under a role that sees neither
//! submissions nor people.
//!
//! Each paid call is kept before it counts, by what was asked: if we die anywhere, the lease runs out, and the next worker asks only for what is
//! missing. A job ends in the statement that writes its callback.

mod intake;
pub mod pipeline;
mod steps;
mod works;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub use self::pipeline::Pipeline;
pub use self::steps::{GRADER, Grading, TRANSCRIBER};
use self::works::{AfterError, Again, Begin};
use super::consume;
use super::job::store::JobStore;
use super::job::table::{Job, State};
use super::journal::JobObserver;
use super::link::{self, Link};
use super::queue::Queue;
use crate::kernel::jobs::listener::Listener;
use crate::kernel::jobs::retries::Retries;
use crate::kernel::jobs::works::{self as kernel_works, Bounds, Work};
use crate::kernel::jobs::{Consumer, ConsumerParts, IDLE, Settings};
use crate::kernel::rows::Kinds;
use crate::kernel::tasks::Tasks;
use crate::ops::gate::Gate;
use crate::ops::rng::Rng;
use crate::ports::Clock;
use crate::scrub::scrub;

/// Channel on which the schema says that there is a job.
pub const CHANNEL: &str = "maple_router_grading_job";
/// Claims of a state from which nobody came back, after which whatever works on the job is taken to die of it.
const MOST_LOST: u32 = 8;
/// Claims that the kernel itself gives up at: outages claim, too.
const NEVER: u32 = 1_000_000;
/// Lease of a job; it is extended while somebody works.
const LEASE: Duration = Duration::from_secs(60);
/// Interval of looks for jobs whose pause is over.
const POLL: Duration = Duration::from_secs(1);
/// Shortest and longest pause before another look, doubling.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Pause after a fault of the database.
const REST: Duration = Duration::from_secs(5);
/// Time for which a stop waits for what is worked on.
const DRAIN: Duration = Duration::from_secs(10);
/// Jobs in hand of those that only move.
const QUICK: usize = 64;
/// Interval of looks for jobs that are to be emptied.
const EMPTY: Duration = Duration::from_secs(60);
/// Jobs emptied in a look.
const MOST_EMPTIED: i32 = 1_000;

/// Tools of all workers.
#[derive(Debug, Clone)]
pub struct GraderTools {
    /// The jobs, as the grader's role.
    pub store: JobStore,
    /// The queue of requests.
    pub requests: Queue,
    /// The judges and the transcriber.
    pub grading: Arc<Grading>,
    /// Time for which what was written and said is kept after a job's end.
    pub keep: Duration,
    /// The clock of durations.
    pub clock: Arc<dyn Clock>,
    /// Spreads pauses, makes fences, ids and nonces.
    pub rng: Arc<Rng>,
}

/// Runs the workers until `stop`, or until one of them ends by itself; `listener` makes the one that waits for jobs, `requests` is notified of
/// requests, the link's own of callbacks that are to be published. Returns whether all of them worked until `stop`.
pub async fn run(
    tools: GraderTools,
    listener: impl Fn() -> Listener,
    requests: Listener,
    link: Option<(Link, Listener)>,
    stop: CancellationToken,
) -> bool {
    let lost = CancellationToken::new();
    let mut tasks = Tasks::new();
    if let Some((link, callbacks)) = link {
        tasks.spawn("the grader's link", move |stop| link::run(link, callbacks, stop));
    }
    tasks.spawn("the grader's intake", {
        let tools = tools.clone();
        move |stop| async move { consume::run(&tools, &*tools.clock, &requests, &stop).await }
    });
    spawn(
        &mut tasks,
        "the grader's beginnings",
        &tools,
        State::Queued,
        QUICK,
        Gate::new(),
        listener(),
        &lost,
        Begin,
    );
    let slots = tools.grading.slots;
    let gate = tools.grading.gate.clone();
    spawn(
        &mut tasks,
        "the grader's work",
        &tools,
        State::Processing,
        slots,
        gate,
        listener(),
        &lost,
        Pipeline { tools: tools.clone() },
    );
    spawn(
        &mut tasks,
        "the grader's errors",
        &tools,
        State::Error,
        QUICK,
        Gate::new(),
        listener(),
        &lost,
        AfterError { rng: Arc::clone(&tools.rng) },
    );
    spawn(
        &mut tasks,
        "the grader's retries",
        &tools,
        State::Retrying,
        QUICK,
        Gate::new(),
        listener(),
        &lost,
        Again,
    );
    tasks.spawn("the grader's probes", {
        let tools = tools.clone();
        move |stop| async move { tools.grading.probe(&*tools.clock, &stop).await }
    });
    tasks.spawn("the grader's forgetting", move |stop| async move { empty(&tools, &stop).await });
    stop.run_until_cancelled(lost.cancelled()).await;
    let in_order = stop.is_cancelled();
    tasks.stop(DRAIN + REST).await;
    in_order
}

#[expect(clippy::too_many_arguments, reason = "a row of the table above")]
fn spawn<W: Work<Of = Job> + 'static>(
    tasks: &mut Tasks,
    name: &'static str,
    tools: &GraderTools,
    from: State,
    most: usize,
    gate: Gate,
    listener: Listener,
    lost: &CancellationToken,
    work: W,
) {
    let retries = Retries { max_attempts: NEVER, min: PAUSES.0, max: PAUSES.1, doublings: 1 };
    let consumer = Consumer::start(
        ConsumerParts {
            rows: (*tools.store).clone(),
            from,
            kinds: Kinds::Only(vec!["live"]),
            settings: Settings { most, lease: LEASE, poll: POLL, retries, idle: IDLE },
            clock: Arc::clone(&tools.clock),
            rng: Arc::clone(&tools.rng),
            observer: Arc::new(JobObserver),
        },
        listener,
    );
    let lost = lost.clone();
    tasks.spawn(name, move |stop| {
        let lost = lost.drop_guard();
        async move {
            // Whatever ends a consumer is told by this.
            let _lost = lost;
            let bounds = Bounds { poison: NEVER, drain: DRAIN, gate };
            kernel_works::run(consumer, Arc::new(work), bounds, stop).await;
        }
    });
}

async fn empty(tools: &GraderTools, stop: &CancellationToken) {
    while !stop.is_cancelled() {
        match tools.store.empty(tools.keep, MOST_EMPTIED).await {
            Ok(0) => {}
            Ok(emptied) => {
                tracing::info!("{emptied} jobs that have ended are emptied of what was written and said");
            }
            Err(error) => tracing::debug!("jobs are emptied later: {}", scrub(&error.to_string())),
        }
        stop.run_until_cancelled(tools.clock.sleep(EMPTY)).await;
    }
}
