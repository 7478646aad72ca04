//! The workers: one for each state that has a job. A run is taken on a lease, looked at, and goes on by the edge that follows.
//!
//! Each works by the submission as it stands, compared with the digest that the run began with, and by the first result that was recorded
//! for the job, whoever recorded it. If we die anywhere, the lease runs out, and the next worker finds what was recorded. Nothing here
//! approves by an error: whatever is in doubt is tried again, given up on, or a person's.

mod admission;
mod publish;
mod repository;
mod rules;
mod tier1;
mod tier2;
mod trees;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use self::admission::Admission;
pub use self::publish::Publish;
pub use self::rules::Rulesets;
pub use self::tier1::Tier1;
pub use self::tier2::{JUDGE, Judging, Tier2, compose, texts};
pub use self::trees::{TreeError, Trees};
use super::journal::{self, JournalObserver};
use super::store::{ScreeningStore, Submitted};
use super::table::{Screening, State};
use crate::config::ScreeningForm;
use crate::db::DbError;
use crate::gateway::git::Git;
use crate::kernel::jobs::listener::Listener;
use crate::kernel::jobs::retries::{Ending, Retries};
use crate::kernel::jobs::works::{self, Bounds, Work};
use crate::kernel::jobs::{Consumer, ConsumerParts, IDLE, Settings};
use crate::kernel::rows::{Kinds, Row};
use crate::kernel::tasks::Tasks;
use crate::ops::gate::Gate;
use crate::ops::rng::Rng;
use crate::ports::Clock;
use crate::scrub::scrub;

/// Name of the channel on which the schema says that there is work.
pub const CHANNEL: &str = "maple_router_screening";
/// Claims of a job that nobody came back from, after which whatever works on it is taken to die of it.
const MOST_LOST: u32 = 8;
/// Tries of what may fail by itself: one, and three more.
pub const MOST_TRIES: u32 = 4;
/// Tries of a repository whose host does not answer.
const MOST_FETCHES: u32 = 2;
/// Claims that the kernel itself gives up at: outages claim, too.
const NEVER: u32 = 1_000_000;
/// Lease of a job; it is extended while somebody works.
const LEASE: Duration = Duration::from_secs(60);
/// Interval of looks for jobs whose pause is over.
const POLL: Duration = Duration::from_secs(1);
/// Shortest and longest pause before another try, doubling.
const PAUSES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(300));
/// Pause after a fault of the database.
const REST: Duration = Duration::from_secs(5);
/// Time for which a stop waits for what is being looked at.
const DRAIN: Duration = Duration::from_secs(5);
/// Jobs in hand of those that mostly wait for the database: one that scans or fetches takes a permit for it.
const QUICK: usize = 64;
/// Interval of passes for runs that nobody made.
const BIRTHS: Duration = Duration::from_secs(60);
/// Runs made in a pass.
const MOST_BIRTHS: i32 = 1_000;

/// Why a job is given up on, as `dead_reason` has it.
mod dead {
    /// Nobody came back from it.
    pub(super) const POISON: &str = "poison";
    /// The submission is not what the run began with.
    pub(super) const CHANGED: &str = "content_changed";
    /// The repository's host does not answer.
    pub(super) const NETWORK: &str = "source_network";
    /// There is nothing on this host that fetches repositories.
    pub(super) const NO_GIT: &str = "git_unavailable";
}

/// What all of them need.
#[derive(Debug, Clone)]
pub struct Tools {
    /// The runs, as the screener's role.
    pub store: ScreeningStore,
    /// The rules.
    pub rulesets: Arc<Rulesets>,
    /// What scans repositories.
    pub trees: Trees,
    /// What fetches repositories; absent where nothing does.
    pub git: Option<Git>,
    /// The judge; absent where none is configured.
    pub judge: Option<Arc<Judging>>,
    /// For how long the judge is waited for.
    pub patience: Duration,
    /// Scans at once: a permit each. A run without one waits with its fields in memory, never with a repository's text.
    pub scans: Arc<Semaphore>,
    /// Fetches at once: a permit each.
    pub fetches: Arc<Semaphore>,
    /// The clock of durations.
    pub clock: Arc<dyn Clock>,
    /// Spreads pauses, makes fences and nonces.
    pub rng: Arc<Rng>,
}

/// Runs the workers until `stop`, or until one of them ends by itself; `listener` makes the one that waits for each state.
/// Returns whether all of them worked until `stop`.
pub async fn run(tools: Tools, listener: impl Fn() -> Listener, stop: CancellationToken) -> bool {
    let lost = CancellationToken::new();
    let mut tasks = Tasks::new();
    let judged = tools.judge.as_ref().map_or_else(Gate::new, |judge| judge.gate.clone());
    let most_judged = tools.judge.as_ref().map_or(QUICK, |judge| judge.slots);
    let publish = || Publish { tools: tools.clone() };
    tasks.spawn("screening's admission", {
        let work = Admission { tools: tools.clone() };
        let consumer = consumer(&tools, State::Received, QUICK, listener());
        work_on(consumer, work, Gate::new(), lost.clone())
    });
    tasks.spawn("screening's rules", {
        let work = Tier1 { tools: tools.clone() };
        let consumer = consumer(&tools, State::Tier1Scanning, QUICK, listener());
        work_on(consumer, work, Gate::new(), lost.clone())
    });
    tasks.spawn("screening's judge", {
        let work = Tier2 { tools: tools.clone() };
        let consumer = consumer(&tools, State::Tier2Scanning, most_judged, listener());
        work_on(consumer, work, judged, lost.clone())
    });
    for (name, from) in [
        ("screening's publications", State::AutoApproved),
        ("screening's trusted publications", State::VendorApproved),
    ] {
        let (work, consumer) = (publish(), consumer(&tools, from, QUICK, listener()));
        tasks.spawn(name, work_on(consumer, work, Gate::new(), lost.clone()));
    }
    tasks.spawn("screening's births", {
        let tools = tools.clone();
        move |stop| async move { tools.births(&stop).await }
    });
    if let Some(judge) = tools.judge.clone() {
        let clock = Arc::clone(&tools.clock);
        tasks.spawn("screening's probes", move |stop| async move { judge.probe(&*clock, &stop).await });
    }
    stop.run_until_cancelled(lost.cancelled()).await;
    let in_order = stop.is_cancelled();
    tasks.stop(DRAIN + REST).await;
    in_order
}

fn consumer(tools: &Tools, from: State, most: usize, listener: Listener) -> Consumer<Screening> {
    let retries = Retries { max_attempts: NEVER, min: PAUSES.0, max: PAUSES.1, doublings: 1 };
    let parts = ConsumerParts {
        rows: (*tools.store).clone(),
        from,
        kinds: Kinds::Only(vec!["live"]),
        settings: Settings { most, lease: LEASE, poll: POLL, retries, idle: IDLE },
        clock: Arc::clone(&tools.clock),
        rng: Arc::clone(&tools.rng),
        observer: Arc::new(JournalObserver),
    };
    Consumer::start(parts, listener)
}

/// The work of a consumer; whatever ends it is told by `lost`.
fn work_on(
    consumer: Consumer<Screening>,
    work: impl Work<Of = Screening>,
    gate: Gate,
    lost: CancellationToken,
) -> impl FnOnce(CancellationToken) -> BoxFuture<'static, ()> {
    move |stop| {
        let lost = lost.drop_guard();
        async move {
            let _lost = lost;
            works::run(consumer, Arc::new(work), Bounds { poison: NEVER, drain: DRAIN, gate }, stop).await;
        }
        .boxed()
    }
}

impl Tools {
    async fn births(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            match self.store.births(MOST_BIRTHS).await {
                Ok(0) => {}
                Ok(born) => {
                    tracing::warn!("{born} submissions had no run of screening: they have one now");
                }
                // The workers report a database that does not answer.
                Err(error) => tracing::debug!("runs are looked for again: {}", scrub(&error.to_string())),
            }
            stop.run_until_cancelled(self.clock.sleep(BIRTHS)).await;
        }
    }

    /// The rules of a form.
    fn form(&self, form: &str) -> ScreeningForm {
        self.rulesets.form(form)
    }

    /// What the run is about, as it stands; `Err` says how the job ends where there is nothing to look at.
    async fn submitted(&self, row: &Row<Screening>) -> Result<Submitted, Ending<Screening>> {
        self.submitted_beside(row, 0).await
    }

    /// The same, beside others with the same content, which are counted up to `most`.
    async fn submitted_beside(
        &self,
        row: &Row<Screening>,
        most: u32,
    ) -> Result<Submitted, Ending<Screening>> {
        let Some(token) = row.token else { return Err(Ending::AtOnce) };
        let column = self.form(&row.columns.form_id).origin_column;
        match self.store.submitted(row.id, token, column.as_deref(), most).await {
            // The lease is another's: whatever we say changes nothing.
            Ok(None) => Err(Ending::AtOnce),
            Ok(Some(submitted)) => match &row.columns.digest {
                Some(digest) if *digest != submitted.digest => Err(given_up(dead::CHANGED)),
                Some(_) | None => Ok(submitted),
            },
            Err(error) => Err(database(row, &error)),
        }
    }
}

/// The end of a job that kills its workers.
fn poisoned(row: &Row<Screening>) -> Option<Ending<Screening>> {
    (row.claims.saturating_sub(row.columns.returned) > MOST_LOST).then(|| given_up(dead::POISON))
}

/// A person has it.
fn given_up(reason: &'static str) -> Ending<Screening> {
    Ending::GivenUp { why: reason.to_owned(), columns: Some(json!({"dead_reason": reason})) }
}

/// The database did not do what was asked: nothing is known, and nothing follows.
fn database(row: &Row<Screening>, error: &DbError) -> Ending<Screening> {
    journal::waits(row, &scrub(&error.to_string()));
    Ending::After(REST)
}

/// An array as PostgreSQL writes one; bars are words of ours.
fn array(words: &[String]) -> String {
    format!("{{{}}}", words.join(","))
}

fn millis(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}
