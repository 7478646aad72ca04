//! The link between the queues of both sides, where topics carry the messages (`[grading] transport = "pubsub"`): of one database, or of two.
//!
//! A producer's queue is its outbox: the `relay` publishes what is in it, and takes out what the topic has. The `receiver` puts what comes into
//! the consumer's queue, where it has arrived, and acknowledges it then; from there on all is as without a topic. Messages come at least once, and
//! in any order: both sides take that anyway. If we die anywhere, a message is in a queue or in the topic still, or comes once more.
//! [`Arrivals`] knows whether what the other side has sent has come.

mod arrivals;
pub mod ends;
mod receiver;
mod relay;
pub mod topics;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub use self::arrivals::Arrivals;
use self::ends::Ends;
use crate::gateway::pubsub::PubsubSettings;
use crate::gateway::pubsub::inspect::verify;
use crate::kernel::jobs::listener::Listener;
use crate::kernel::tasks::Tasks;
use crate::ops::rng::Rng;
use crate::ports::Clock;
use crate::scrub::scrub;

/// Time for which a stop waits for what is on its way.
const DRAIN: Duration = Duration::from_secs(5);
/// Shortest and longest pause after a failure.
const RESTS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));
/// Interval of looks where nothing is notified.
const POLL: Duration = Duration::from_secs(1);

/// The link of one side.
#[derive(Debug, Clone)]
pub struct Link {
    /// The ends of both queues on this side.
    pub ends: Ends,
    /// The topic that this side publishes to.
    pub publishing: PubsubSettings,
    /// The subscription that this side receives from.
    pub receiving: PubsubSettings,
    /// The knowledge of messages to this side.
    pub arrivals: Arrivals,
    /// The clock of durations.
    pub clock: Arc<dyn Clock>,
    /// Spreads pauses.
    pub rng: Arc<Rng>,
}

impl Link {
    /// Returns whether everything that the other side sent a while ago has come. The server is asked at this moment: a subscription that is out of reach
    /// has brought nothing, and says so to nobody.
    pub async fn has_everything(&self) -> bool {
        match verify(&self.receiving).await {
            Ok(_) => {
                let now = self.clock.monotonic();
                self.arrivals.reached(now);
                self.arrivals.are_complete(now)
            }
            Err(error) => {
                tracing::debug!(
                    "{}s may wait in their topic: {}",
                    self.ends.receives(),
                    scrub(&error.to_string())
                );
                self.arrivals.lost(self.clock.monotonic());
                false
            }
        }
    }
}

/// Runs relay and receiver until `stop`; `outgoing` is notified of messages to be published.
pub async fn run(link: Link, outgoing: Listener, stop: CancellationToken) {
    let mut tasks = Tasks::new();
    tasks.spawn("grading's relay", {
        let link = link.clone();
        move |stop| async move { relay::run(&link, &outgoing, &stop).await }
    });
    tasks.spawn("grading's receiver", move |stop| async move { receiver::run(&link, &stop).await });
    stop.cancelled().await;
    tasks.stop(DRAIN).await;
}
