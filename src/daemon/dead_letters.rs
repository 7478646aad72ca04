//! Dead letters, beside the routing: the consumer of the dead-letter subscription, where there is one, and whoever tells
//! people of the records that nobody was told of. They start and end with the routing.
//!
//! The stream is built anew whenever it ends. If we die, letters that are not acked come again, and records that nobody was
//! told of are told by the next.

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
use crate::ops::chance::Chance;
use crate::ops::supervised::{Report, Supervised};
use crate::ports::{Clock, EventSource};
use crate::routing::dead_letter::{AT_ONCE, DeadLetters, Records};

/// The tasks.
pub(super) struct Consuming(Tasks);

/// What they are made of.
pub(super) struct Parts<'a> {
    pub(super) config: &'a Config,
    /// Absent: there is no dead-letter subscription.
    pub(super) pubsub: Option<&'a PubsubSettings>,
    pub(super) pool: Pool,
    /// Whoever tells people; absent where nobody is told.
    pub(super) alerts: Option<Alerts>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) chance: Arc<Chance>,
}

impl Consuming {
    /// Starts them.
    pub(super) fn start(parts: Parts<'_>) -> Self {
        let seed = parts.chance.uuid().as_u64_pair().0;
        let letters = Arc::new(DeadLetters {
            records: Records::new(parts.pool, &parts.config.state.dir),
            clock: parts.clock,
            chance: parts.chance,
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

    /// What is in work goes back; what is recorded is known when it comes again.
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
