//! The relay's progress with accepted mails: while its queue is too long, the throttle is set and people are
//! notified; undelivered mails are counted. Only where its log is followed.
//!
//! If we die, the next start begins without a throttle and looks again. A queue that cannot be asked sets none.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use crate::config::Config;
use crate::db::pool::Pool;
use crate::db::readiness::Readiness;
use crate::db::rest::rest_after;
use crate::gateway::relay_log::RelayQueue;
use crate::gateway::smtp::{Connections, Throttle};
use crate::journal;
use crate::kernel::metric::Gauge;
use crate::kernel::tasks::Tasks;
use crate::ops::incident::{Incident, IncidentKey, Incidents};
use crate::ops::telemetry::EventName;
use crate::ports::Clock;
use crate::routing::delivery::followed::Followed;
use crate::routing::store::view::View;
use crate::scrub::scrub;

/// The relay's queue is too long: mails are sent slowly.
pub(super) const QUEUE_TOO_LONG: IncidentKey = IncidentKey::new("relay_queue");
/// Messages in the relay's queue at the last look.
pub(super) static RELAY_QUEUE: Gauge = Gauge::new(
    "maple_router_relay_queue_messages",
    "Messages in the relay's queue at the last look, counted up to twice relay_log.queue_limit; 0 where nobody looks",
);
/// Says whether mails are sent slowly.
pub(super) static RELAY_SLOWED: Gauge = Gauge::new(
    "maple_router_relay_slowed",
    "1 while mails are sent slowly, because the relay's queue is too long",
);
/// Mails accepted by the relay without a final report.
pub(super) static RELAY_UNDELIVERED: Gauge = Gauge::new(
    "maple_router_relay_undelivered",
    "Mails the relay accepted within a week and nothing final is known of; 0 where its log is not followed",
);
/// Age of the oldest of these mails.
pub(super) static RELAY_UNDELIVERED_OLDEST: Gauge = Gauge::new(
    "maple_router_relay_undelivered_oldest_seconds",
    "Age of the oldest of them, since its acceptance",
);

/// Shortest interval between two looks at the queue.
const LOOK: Duration = Duration::from_secs(10);
/// Postfix opens a file for each message it lists: a look may take one part in this many of the time.
const SHARE: u32 = 20;

/// Counts messages up to a number; says whether it ended there.
type Ask = Box<dyn Fn(usize) -> BoxFuture<'static, Result<(usize, bool), String>> + Send + Sync>;

/// Starts both watches in `tasks`, and they end with it. Does nothing where the relay's log is not followed.
pub(super) fn watch(
    tasks: &mut Tasks,
    config: &Arc<Config>,
    pool: &Pool,
    connections: &Connections,
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
            connections: connections.clone(),
            incidents: incidents.clone(),
            clock: Arc::clone(clock),
            throttle: Throttle::Off,
            trouble: None,
        };
        tasks.spawn("relay's queue", |_| watch.run());
    }
    tasks.spawn("undelivered mails", |_| count(Arc::clone(config), pool.clone(), Arc::clone(clock)));
}

/// Looks at the queue, and sets the throttle.
struct Watch {
    ask: Ask,
    limit: usize,
    connections: Connections,
    incidents: Incidents,
    clock: Arc<dyn Clock>,
    throttle: Throttle,
    /// Why the queue cannot be asked; logged once.
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
        RELAY_QUEUE.set((), depth);
        let throttle = self.throttle.next(depth, self.limit);
        if throttle == self.throttle {
            return;
        }
        self.take(throttle);
        match throttle.interval() {
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
                self.incidents.resolve(QUEUE_TOO_LONG);
            }
        }
    }

    /// Lifts the throttle where the queue is unknown. An open incident stays: whether it is over is not known either.
    fn unreadable(&mut self, why: &str) {
        if self.trouble.is_none() {
            tracing::warn!(
                "{why}; until that is mended its length slows nothing down: see `maple-router check`"
            );
            self.trouble = Some(why.to_owned());
        }
        self.take(Throttle::Off);
    }

    fn take(&mut self, throttle: Throttle) {
        self.throttle = throttle;
        self.connections.set_throttle(throttle);
        RELAY_SLOWED.set((), throttle != Throttle::Off);
    }
}

/// The incident of a queue that is too long.
fn too_long(depth: usize, limit: usize) -> Incident {
    let what = format!(
        "the relay's queue holds {depth} messages or more (relay_log.queue_limit is {limit}): it takes mails and does not get \
         rid of them, so mails are sent slowly until it does"
    );
    Incident::new(QUEUE_TOO_LONG, what, &["maple-router status", "maple-router check"]).advising(
        "nothing is lost and no attempt is spent; the next system behind Postfix is down, slow or refuses for now, or another \
         program of this host fills the queue",
    )
}

/// Counts accepted and undelivered mails with every sweep; less often where that takes long, because it opens the
/// ledgers of a week.
async fn count(config: Arc<Config>, pool: Pool, clock: Arc<dyn Clock>) {
    // Nothing asked here depends on the column.
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
            Ok(found) => {
                RELAY_UNDELIVERED.set((), found.count.unsigned_abs());
                RELAY_UNDELIVERED_OLDEST.set((), found.oldest_seconds.unsigned_abs());
            }
            Err(error) => tracing::warn!(
                "what is undelivered was not counted, its metrics stay as they are for {} s: {}",
                rest.as_secs(),
                scrub(&error.to_string())
            ),
        }
    }
}
