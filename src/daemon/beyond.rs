//! Follows the relay's log beside the routing, with `[relay_log]` on.
//!
//! If we die, its place in the log is kept, and the next start reads on from there.

use std::sync::Arc;

use super::LAST_WORDS;
use crate::config::Config;
use crate::gateway::relay_log::{self, RelayQueue};
use crate::gateway::smtp::our_addresses;
use crate::kernel::tasks::Task;
use crate::ops::alerting::Alerts;
use crate::ops::chance::Chance;
use crate::ops::incident::Incidents;
use crate::ops::state_dir::StateDir;
use crate::ports::{Clock, RelayLogError};
use crate::routing::delivery::book::Book;
use crate::routing::delivery::doubt::{AskQueue, Doubts};
use crate::routing::delivery::follower::{Follower, FollowerParts};
use crate::routing::delivery::sender::ReturnAddress;
use crate::routing::delivery::tracker::Ours;
use crate::routing::outages::Outages;
use crate::routing::store::Store;

/// The follower of the relay's log, where there is one.
pub(super) struct Beyond {
    task: Option<Task>,
    /// Resolves what is perhaps sent.
    pub(super) doubts: Doubts,
}

/// What it is made of.
pub(super) struct BeyondParts<'a> {
    pub(super) config: &'a Config,
    pub(super) store: &'a Store,
    pub(super) outages: &'a Outages,
    pub(super) book: Book,
    pub(super) incidents: &'a Incidents,
    /// Absent: nobody is alerted.
    pub(super) alerts: Option<Alerts>,
    /// With `[bounces]`: what our mails are sent from.
    pub(super) senders: Option<ReturnAddress>,
    pub(super) clock: &'a Arc<dyn Clock>,
    pub(super) chance: &'a Arc<Chance>,
}

impl Beyond {
    /// Reads on where the last one ended.
    pub(super) async fn start(parts: BeyondParts<'_>) -> Self {
        let BeyondParts { config, store, outages, book, incidents, alerts, senders, clock, chance } = parts;
        if !config.relay_log.enabled {
            return Self { task: None, doubts: Doubts::unfollowed(Arc::clone(clock)) };
        }
        let (mut follower, position) = Follower::resume(FollowerParts {
            store: store.clone(),
            state: StateDir::new(&config.state.dir),
            book,
            incidents: incidents.clone(),
            alerts,
            outages: outages.clone(),
            clock: Arc::clone(clock),
            chance: Arc::clone(chance),
            ours: Ours { addresses: our_addresses(&config.smtp.host, config.smtp.port).await, senders },
        })
        .await;
        let mut log = relay_log::open(&config.relay_log, &position);
        follower.take_place(&mut *log).await;
        let doubts = Doubts::new(follower.following(), queue_of(config), Arc::clone(clock));
        let task = Task::spawn("relay's log", |stop| async move { follower.run(log, &stop).await });
        Self { task: Some(task), doubts }
    }

    /// What is being recorded is recorded; what is not is read by the next.
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
