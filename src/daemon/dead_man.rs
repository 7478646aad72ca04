//! The dead man's switch: after a canary event has gone the whole way, a service elsewhere learns that all is
//! well. When this host, its network, Pub/Sub or this process dies, that silence is what calls people.
//!
//! The call is made only while it is true: the database answers as the role it is used as, no claim is stuck, no
//! incident of ours is open. If we die, nothing is owed. At most one call is on its way; nothing waits for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::config::Config;
use crate::gateway::heartbeat::Heartbeat;
use crate::journal;
use crate::kernel::tasks::Tasks;
use crate::ops::incident::Incidents;
use crate::ops::metrics::{HEARTBEATS, HeartbeatResult};
use crate::ops::telemetry::EventName;
use crate::routing::store::sweep::SweepBounds;
use crate::routing::worker::Worker;
use crate::scrub::scrub;

/// Shortest pause between two calls, whatever the interval of canaries: a volley is one sign of life.
const REST: Duration = Duration::from_secs(30);

/// Result of the last call; logged when it changes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Last {
    Sent,
    /// A fault of ours.
    Withheld(String),
    /// A fault out there.
    Failed(String),
}

/// Calls until the set is dropped; does nothing where no URL is configured.
pub(super) fn start(
    heartbeat: Option<Heartbeat>,
    config: &Config,
    worker: &Arc<Worker>,
    canaries: watch::Receiver<u64>,
    incidents: &Incidents,
) -> Tasks {
    let mut tasks = Tasks::new();
    match (heartbeat, config.canary.interval) {
        (Some(heartbeat), Some(interval)) => {
            let teller = Teller {
                heartbeat,
                worker: Arc::clone(worker),
                bounds: config.into(),
                incidents: incidents.clone(),
                rest: REST.min(interval / 2),
            };
            tasks.spawn("heartbeat", |_| teller.run(canaries));
        }
        (Some(heartbeat), None) => {
            tracing::warn!(
                "no heartbeat is sent to {}: it follows canary events, and there are none; set canary.interval",
                heartbeat.host()
            );
        }
        (None, _) => {}
    }
    tasks
}

struct Teller {
    heartbeat: Heartbeat,
    worker: Arc<Worker>,
    bounds: SweepBounds,
    incidents: Incidents,
    rest: Duration,
}

impl Teller {
    async fn run(self, mut canaries: watch::Receiver<u64>) {
        let mut last = Last::Sent;
        while canaries.changed().await.is_ok() {
            let now = match self.trouble().await {
                Some(why) => Last::Withheld(why),
                None => self.heartbeat.beat().await.map_or_else(Last::Failed, |()| Last::Sent),
            };
            let result = match now {
                Last::Sent => HeartbeatResult::Sent,
                Last::Withheld(_) => HeartbeatResult::Withheld,
                Last::Failed(_) => HeartbeatResult::Failed,
            };
            HEARTBEATS.add(result, 1);
            if now != last {
                self.say(&now);
            }
            last = now;
            self.worker.clock.sleep(self.rest).await;
        }
    }

    /// Why the call must not say that all is well.
    async fn trouble(&self) -> Option<String> {
        // Submissions that others do not make ready are no sign of our death.
        if let Some(key) = self.incidents.keys().into_iter().find(|key| key.is_ours()) {
            return Some(format!("incident {} is open", key.label()));
        }
        match self.worker.store.sweep_count(&self.bounds).await {
            Ok(count) if count.stuck > 0 => Some("claims are stuck".to_owned()),
            Ok(_) => None,
            Err(error) => Some(format!("the database does not answer: {}", scrub(&error.to_string()))),
        }
    }

    fn say(&self, now: &Last) {
        let host = self.heartbeat.host();
        match now {
            Last::Sent => journal!(info, EventName::Heartbeat, "heartbeats go to {host} again"),
            Last::Withheld(why) => {
                journal!(
                    warn,
                    EventName::Heartbeat,
                    "no heartbeat is sent to {host} until this is over: {why}"
                );
            }
            Last::Failed(why) => journal!(
                warn,
                EventName::Heartbeat,
                "the heartbeat was not taken: {why}; is the URL in canary.heartbeat_url_file still good?"
            ),
        }
    }
}
