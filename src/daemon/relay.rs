//! The outbox's relay beside the routing: publishes the rows of schema `router`, where Pub/Sub is the source.
//!
//! The schema may come and go while we run. If we die, leases run out, and events published without being recorded
//! are published again.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::LAST_WORDS;
use crate::config::Config;
use crate::gateway::pubsub::PubsubSettings;
use crate::gateway::pubsub::publisher::PubsubPublisher;
use crate::kernel::tasks::Task;
use crate::outbox::parts::OutboxParts;
use crate::outbox::relay::Relay;
use crate::parts;
use crate::scrub::scrub;

/// Rows leased by the relay at once.
pub(super) const AT_ONCE: usize = 2_000;
/// Interval between two looks whether there is an outbox.
const LOOK: Duration = Duration::from_secs(60);

/// Why nothing can be published; absent while it can.
pub(super) type Health = watch::Sender<Option<String>>;

/// The relay, wherever there is an outbox.
pub(super) struct Relaying(Task);

impl Relaying {
    /// Looks for an outbox now and then, and publishes its rows.
    pub(super) fn start(
        config: &Config,
        pubsub: &PubsubSettings,
        outbox: OutboxParts,
        health: Health,
    ) -> Self {
        let (config, pubsub) = (config.clone(), pubsub.clone());
        Self(Task::spawn("outbox's relay", |stop| Keeper { config, pubsub, outbox, health, stop }.run()))
    }

    /// Stops: published rows are recorded; the next start publishes the others.
    pub(super) async fn stop(self) {
        self.0.stop(LAST_WORDS).await;
    }
}

struct Keeper {
    config: Config,
    pubsub: PubsubSettings,
    outbox: OutboxParts,
    health: Health,
    stop: CancellationToken,
}

impl Keeper {
    async fn run(self) {
        let clock = Arc::clone(&self.outbox.clock);
        while !self.stop.is_cancelled() {
            // The breaker reports a database that does not answer.
            if self.outbox.store.is_there().await.unwrap_or(false) {
                self.relay().await;
            }
            tokio::select! {
                biased;
                () = self.stop.cancelled() => {}
                () = clock.sleep(LOOK) => {}
            }
        }
    }

    /// Relays until the stop, or until there is no outbox any more.
    async fn relay(&self) {
        let (publisher, listener) = match (
            PubsubPublisher::open(&self.pubsub).await,
            parts::outbox_listener(&self.config, self.outbox.store.pooling(), Arc::clone(&self.outbox.clock)),
        ) {
            (Ok(publisher), Ok(listener)) => (publisher, listener),
            (Err(error), _) => return self.not_relayed(&error.to_string()),
            (_, Err(error)) => return self.not_relayed(&error.to_string()),
        };
        self.health.send_replace(None);
        tracing::info!("events of the outbox are published to the routing topic");
        let relay = Relay::new(&self.outbox, listener, publisher).reporting_to(self.health.clone());
        relay.run(&self.stop, LAST_WORDS / 2).await;
    }

    fn not_relayed(&self, why: &str) {
        let why = scrub(why);
        tracing::error!("events of the outbox are not published: {why}; the sweep finds their submissions");
        self.health.send_replace(Some(why));
    }
}
