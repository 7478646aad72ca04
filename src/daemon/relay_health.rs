//! How the relay gets on with what it has accepted: while its queue is too long, lanes are slowed down and people are told;
//! what it has not delivered yet is counted. Where its log is followed only.
//!
//! If we die, the next start begins with open lanes and looks again. A queue that cannot be asked slows nothing down.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use crate::config::Config;
use crate::db::pace::rest_after;
use crate::db::pool::Pool;
use crate::db::readiness::Readiness;
use crate::gateway::relay_log::RelayQueue;
use crate::gateway::smtp::{Brake, Lanes};
use crate::journal;
use crate::kernel::tasks::Tasks;
use crate::ops::incident::{Incident, IncidentKey, Incidents};
use crate::ops::metrics;
use crate::ops::telemetry::EventName;
use crate::ports::Clock;
use crate::routing::delivery::followed::Followed;
use crate::routing::store::view::View;
use crate::scrub::scrub;

/// Between two looks at the queue, at least.
const LOOK: Duration = Duration::from_secs(10);
/// Postfix opens a file for each message it lists: of its time no more than this part is taken, one in so many.
const SHARE: u32 = 20;

/// Counts messages up to a number; says whether it ended there.
type Ask = Box<dyn Fn(usize) -> BoxFuture<'static, Result<(usize, bool), String>> + Send + Sync>;

/// Starts both in `tasks`; they end with it. Does nothing where the relay's log is not followed.
pub(super) fn watch(
    tasks: &mut Tasks,
    config: &Arc<Config>,
    pool: &Pool,
    lanes: &Lanes,
    incidents: &Incidents,
    clock: &Arc<dyn Clock>,
) {
    if !config.relay_log.enabled {
        return;
    }
    let queue = RelayQueue::new(&config.relay_log.queue_directory);
    let ask: Ask = Box::new(move |most| {
        let queue = queue.clone();
        Box::pin(async move { queue.depth(most).await.map_err(|error| error.to_string()) })
    });
    let limit = config.relay_log.queue_limit;
    if limit > 0 {
        let watch = Watch {
            ask,
            limit,
            lanes: lanes.clone(),
            incidents: incidents.clone(),
            clock: Arc::clone(clock),
            brake: Brake::Off,
            trouble: None,
        };
        tasks.spawn("relay's queue", |_| watch.run());
    }
    tasks.spawn("undelivered mails", |_| count(Arc::clone(config), pool.clone(), Arc::clone(clock)));
}

/// Looks at the queue, and slows lanes down.
struct Watch {
    ask: Ask,
    limit: usize,
    lanes: Lanes,
    incidents: Incidents,
    clock: Arc<dyn Clock>,
    brake: Brake,
    /// Why the queue cannot be asked; said once.
    trouble: Option<String>,
}

impl Watch {
    async fn run(mut self) {
        loop {
            let before = self.clock.monotonic();
            let answer = (self.ask)(self.limit.saturating_mul(2)).await;
            let took = self.clock.monotonic().saturating_duration_since(before);
            match answer {
                Ok((depth, _)) => self.seen(depth),
                Err(why) => self.unreadable(&scrub(&why)),
            }
            self.clock.sleep(LOOK.max(took.saturating_mul(SHARE))).await;
        }
    }

    fn seen(&mut self, depth: usize) {
        if self.trouble.take().is_some() {
            tracing::info!("the relay's queue can be looked at again");
        }
        metrics::relay_queue(depth);
        let brake = self.brake.next(depth, self.limit);
        if brake == self.brake {
            return;
        }
        self.take(brake);
        match brake.interval() {
            Some(interval) => {
                let seconds = interval.as_secs();
                journal!(
                    warn,
                    EventName::RelaySlowed,
                    "the relay's queue holds {depth} messages or more: one mail is sent every {seconds} s"
                );
                self.incidents.raise(too_long(depth, self.limit));
            }
            None => {
                journal!(
                    info,
                    EventName::RelayFlowing,
                    "the relay's queue is short again: mails are sent as they come"
                );
                self.incidents.resolve(IncidentKey::RelayQueue);
            }
        }
    }

    /// No brake without knowing. An incident that is open stays: whether it is over is not known either.
    fn unreadable(&mut self, why: &str) {
        if self.trouble.is_none() {
            tracing::warn!(
                "{why}; until that is mended its length slows nothing down: see `maple-router check`"
            );
            self.trouble = Some(why.to_owned());
        }
        self.take(Brake::Off);
    }

    fn take(&mut self, brake: Brake) {
        self.brake = brake;
        self.lanes.set_brake(brake);
        metrics::relay_slowed(brake != Brake::Off);
    }
}

/// What people are told.
fn too_long(depth: usize, limit: usize) -> Incident {
    let what = format!(
        "the relay's queue holds {depth} messages or more (relay_log.queue_limit is {limit}): it takes mails and does not get \
         rid of them, so mails are sent slowly until it does"
    );
    Incident::new(IncidentKey::RelayQueue, what, &["maple-router status", "maple-router check"]).advising(
        "nothing is lost and no attempt is spent; the next system behind Postfix is down, slow or refuses for now, or another \
         program of this host fills the queue",
    )
}

/// Counts what was accepted and not delivered, with every sweep; where that takes long, because it opens the ledgers of a week,
/// less often.
async fn count(config: Arc<Config>, pool: Pool, clock: Arc<dyn Clock>) {
    // Nothing that depends on the column is asked here.
    let Ok(readiness) = Readiness::new(None) else { return };
    let view = View::new(pool, &readiness, &config);
    let mut rest = config.routing.sweep_interval;
    loop {
        clock.sleep(rest).await;
        rest = config.routing.sweep_interval;
        let Followed::Since(since) = Followed::of(&config).await else { continue };
        let began = clock.monotonic();
        let found = view.undelivered(since).await;
        rest = rest_after(rest, clock.monotonic().saturating_duration_since(began), &found);
        match found {
            Ok(found) => metrics::relay_undelivered(
                found.count.unsigned_abs(),
                Duration::from_secs(found.oldest_seconds.unsigned_abs()),
            ),
            Err(error) => tracing::warn!(
                "what is undelivered was not counted, its metrics stay as they are for {} s: {}",
                rest.as_secs(),
                scrub(&error.to_string())
            ),
        }
    }
}
