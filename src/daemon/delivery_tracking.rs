//! Follows the relay's log beside the routing, with `[relay_log]` on.
//!
//! If we die, the position in the log is kept, and the next start reads on from there.

use std::sync::Arc;

use super::LAST_WORDS;
use crate::config::Config;
use crate::gateway::relay_log::{self, RelayQueue};
use crate::gateway::smtp::our_addresses;
use crate::kernel::tasks::Task;
use crate::ops::alerting::Alerts;
use crate::ops::incident::Incidents;
use crate::ops::rng::Rng;
use crate::ops::state_dir::StateDir;
use crate::ports::{Clock, RelayLogError};
use crate::routing::delivery::sender::ReturnAddress;
use crate::routing::delivery::tracker::Ours;
use crate::routing::follow::doubt::{AskQueue, Doubts};
use crate::routing::follow::follower::{Follower, FollowerParts};
use crate::routing::follow::pending_notices::PendingNotices;
use crate::routing::outages::Outages;
use crate::routing::store::Store;

/// The follower of the relay's log, where there is one.
pub(super) struct DeliveryTracking {
    task: Option<Task>,
    /// Resolves doubts about sent mails.
    pub(super) doubts: Doubts,
}

/// Inputs of the follower.
pub(super) struct DeliveryTrackingParts<'a> {
    pub(super) config: &'a Config,
    pub(super) store: &'a Store,
    pub(super) outages: &'a Outages,
    pub(super) pending_notices: PendingNotices,
    pub(super) incidents: &'a Incidents,
    /// Absent: nobody is alerted.
    pub(super) alerts: Option<Alerts>,
    /// With `[bounces]`: the envelope sender of our mails.
    pub(super) senders: Option<ReturnAddress>,
    pub(super) clock: &'a Arc<dyn Clock>,
    pub(super) rng: &'a Arc<Rng>,
}

impl DeliveryTracking {
    /// Reads on from the last position.
    pub(super) async fn start(parts: DeliveryTrackingParts<'_>) -> Self {
        let DeliveryTrackingParts { config, clock, .. } = parts;
        if !config.relay_log.enabled {
            return Self { task: None, doubts: Doubts::unfollowed(Arc::clone(clock)) };
        }
        let (mut follower, position) = Follower::resume(FollowerParts {
            store: parts.store.clone(),
            state: StateDir::new(&config.state.dir),
            pending_notices: parts.pending_notices,
            incidents: parts.incidents.clone(),
            alerts: parts.alerts,
            outages: parts.outages.clone(),
            clock: Arc::clone(clock),
            rng: Arc::clone(parts.rng),
            ours: Ours {
                addresses: our_addresses(&config.smtp.host, config.smtp.port).await,
                senders: parts.senders,
            },
        })
        .await;
        let mut log = relay_log::open(&config.relay_log, &position);
        follower.keep_position(&mut *log).await;
        let doubts = Doubts::new(follower.following(), queue_of(config), Arc::clone(clock));
        let task = Task::spawn("relay's log", |stop| async move { follower.run(log, &stop).await });
        Self { task: Some(task), doubts }
    }

    /// Stops: a record under way is finished; the next start reads the other lines.
    pub(super) async fn stop(self) {
        if let Some(task) = self.task {
            task.stop(LAST_WORDS).await;
        }
    }
}

fn queue_of(config: &Config) -> AskQueue {
    let queue = RelayQueue::new(&config.relay_log.queue_directory);
    Arc::new(move |ids| {
        let queue = queue.clone();
        Box::pin(async move { queue.find(&ids).await.map_err(|error| RelayLogError(error.to_string())) })
    })
}
