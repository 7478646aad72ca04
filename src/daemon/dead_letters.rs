//! Dead letters, beside the routing: the consumer of the dead-letter subscription, where there is one, and the
//! notifier of people about new records. Both start and end with the routing.
//!
//! The stream is rebuilt whenever it ends. If we die, letters that are not acked come again, and the next start
//! notifies people of the records not yet notified.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::LAST_WORDS;
use crate::config::Config;
use crate::db::pool::Pool;
use crate::gateway::pubsub::PubsubSettings;
use crate::gateway::pubsub::source::PubsubSource;
use crate::kernel::tasks::Tasks;
use crate::ops::alerting::Alerts;
use crate::ops::rng::Rng;
use crate::ops::supervised::{Report, Supervised};
use crate::ports::{Clock, EventSource};
use crate::routing::upkeep::dead_letters::{AT_ONCE, DeadLetters, Records};

/// The running tasks.
pub(super) struct Consuming(Tasks);

/// Inputs of the tasks.
pub(super) struct DeadLetterParts<'a> {
    pub(super) config: &'a Config,
    /// Absent: there is no dead-letter subscription.
    pub(super) pubsub: Option<&'a PubsubSettings>,
    pub(super) pool: Pool,
    /// Alerts to people; absent where nobody is alerted.
    pub(super) alerts: Option<Alerts>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) rng: Arc<Rng>,
}

impl Consuming {
    /// Starts the tasks.
    pub(super) fn start(parts: DeadLetterParts<'_>) -> Self {
        let seed = parts.rng.uuid().as_u64_pair().0;
        let letters = Arc::new(DeadLetters {
            records: Records::new(parts.pool, &parts.config.state.dir),
            clock: parts.clock,
            rng: parts.rng,
            news: Notify::new(),
        });
        let mut tasks = Tasks::new();
        if let Some(pubsub) = parts.pubsub {
            match pubsub.dead_letter_subscription.clone() {
                Some(subscription) => {
                    let source = supervised(pubsub, subscription, seed);
                    let letters = Arc::clone(&letters);
                    tasks.spawn("dead letters", |stop| consume(letters, source, stop));
                }
                None => tracing::warn!(
                    "pubsub.dead_letter_subscription is not configured: nobody looks at what Pub/Sub gives up on"
                ),
            }
        }
        if let Some(alerts) = parts.alerts {
            tasks.spawn("records", |stop| async move { letters.tell(&alerts, &stop).await });
        }
        Self(tasks)
    }

    /// Stops: letters in work go back; recorded ones are recognised when they come again.
    pub(super) async fn stop(self) {
        self.0.stop(LAST_WORDS).await;
    }
}

async fn consume(letters: Arc<DeadLetters>, mut source: Supervised, stop: CancellationToken) {
    if let Err(error) = letters.run(&mut source, &stop).await {
        tracing::error!("no dead letters: {error}");
    }
    Box::new(source).stop(LAST_WORDS).await;
}

fn supervised(pubsub: &PubsubSettings, subscription: String, seed: u64) -> Supervised {
    let at_once = u32::try_from(AT_ONCE).unwrap_or(u32::MAX);
    let settings = PubsubSettings { max_outstanding: at_once, streams: 1, ..pubsub.clone() };
    let open = Box::new(move || {
        let (settings, subscription) = (settings.clone(), subscription.clone());
        Box::pin(async move {
            let source = PubsubSource::open_on(&settings, &subscription).await?;
            Ok(Box::new(source) as Box<dyn EventSource>)
        }) as futures::future::BoxFuture<'static, _>
    });
    Supervised::new(open, seed, |report| match report {
        Report::Lost { error, rest } if error.needs_a_human() => {
            tracing::error!("no dead letters: {error}; tried again in {} s", rest.as_secs());
        }
        Report::Lost { error, rest } => {
            tracing::warn!("no dead letters: {error}; tried again in {} s", rest.as_secs());
        }
        Report::Discarded | Report::Opened => {}
        Report::Flowing => tracing::info!("dead letters are looked at again"),
    })
}
