//! Registries hear of what screening has published: a row of the outbox each, written in the transaction that published it.
//!
//! At least once, to the topic of `[screening.git]`: whoever listens goes by skill and version. Where none is named, nobody is told; the
//! publication itself stands in `screening.published`.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::LAST_WORDS;
use crate::config::Config;
use crate::gateway::pubsub::PubsubSettings;
use crate::gateway::pubsub::error::Fault;
use crate::gateway::pubsub::publisher::{PublishError, PubsubPublisher};
use crate::kernel::jobs::listener::Listener;
use crate::kernel::jobs::retries::Ending;
use crate::kernel::jobs::works::{self, Bounds, Work};
use crate::kernel::jobs::{Consumer, ConsumerParts, Settings};
use crate::kernel::rows::{Kinds, Row};
use crate::kernel::tasks::Task;
use crate::ops::gate::Gate;
use crate::outbox::parts::OutboxParts;
use crate::outbox::row::{delivered, failed};
use crate::outbox::table::Outbox;
use crate::ports::RecordKind;
use crate::screening::store::{PUBLISHED, ScreeningStore};
use crate::scrub::scrub;

/// Rows in hand at once.
const AT_ONCE: usize = 64;
/// Interval of looks for schema screening, and for rows that wait.
const LOOK: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_secs(5);
/// Claims that nobody came back from, after which a row is given up on.
const POISON: u32 = 20;

/// Tells registries, wherever there is a schema screening.
pub(super) struct Publications(Task);

impl Publications {
    /// Looks for rows until it is stopped.
    pub(super) fn start(config: &Config, store: ScreeningStore, outbox: &OutboxParts, gate: Gate) -> Self {
        let topic = config.screening.git.topic.as_deref();
        let topic = topic.map(|topic| PubsubSettings::publishing_to(&config.pubsub, topic));
        let outbox = OutboxParts {
            settings: Settings { most: AT_ONCE, poll: POLL, ..outbox.settings },
            ..outbox.clone()
        };
        Self(Task::spawn("screening's publications", |stop| async move {
            while !stop.is_cancelled() {
                // The breaker reports a database that does not answer.
                if store.is_there().await.unwrap_or(false) {
                    match told(topic.clone()).await {
                        Ok(tells) => tells.run(&outbox, gate.clone(), stop.clone()).await,
                        Err(why) => tracing::error!(
                            "registries are not told of publications, which wait: {}",
                            scrub(&why)
                        ),
                    }
                }
                stop.run_until_cancelled(outbox.clock.sleep(LOOK)).await;
            }
        }))
    }

    /// Stops: whoever was told stands in the row; the others are told by the next start.
    pub(super) async fn stop(self) {
        self.0.stop(LAST_WORDS).await;
    }
}

/// Whoever is told, if anybody is.
async fn told(
    topic: Option<Result<PubsubSettings, crate::gateway::pubsub::SettingsError>>,
) -> Result<Tells, String> {
    let Some(settings) = topic.transpose().map_err(|error| error.to_string())? else {
        return Ok(Tells(None));
    };
    PubsubPublisher::open(&settings)
        .await
        .map(|publisher| Tells(Some(publisher)))
        .map_err(|error| error.to_string())
}

/// The work of a row that tells of a publication.
#[derive(Debug)]
struct Tells(Option<PubsubPublisher>);

impl Tells {
    async fn run(self, outbox: &OutboxParts, gate: Gate, stop: CancellationToken) {
        let parts = ConsumerParts { kinds: Kinds::Only(vec![PUBLISHED]), ..outbox.jobs() };
        let consumer = Consumer::start(parts, Listener::silent());
        works::run(consumer, Arc::new(self), Bounds { poison: POISON, drain: LAST_WORDS / 2, gate }, stop)
            .await;
    }
}

impl Work for Tells {
    type Of = Outbox;

    fn run<'a>(&'a self, row: &'a Row<Outbox>) -> BoxFuture<'a, Ending<Outbox>> {
        async move {
            let Some(publisher) = &self.0 else { return delivered(None) };
            match publisher.publish(row.columns.attributes(), row.columns.payload.clone()).await {
                Ok(id) => delivered(Some(id)),
                Err(PublishError::Pubsub(error)) if error.fault == Fault::Refused => {
                    failed(RecordKind::Notification, "the topic does not take it")
                }
                Err(error) => {
                    tracing::warn!(
                        "registries are told of a publication (outbox row {}) later: {}",
                        row.id,
                        scrub(&error.to_string())
                    );
                    Ending::Again
                }
            }
        }
        .boxed()
    }
}
