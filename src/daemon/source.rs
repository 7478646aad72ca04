//! The source of events: Pub/Sub, or the database itself. The only module of the daemon that knows which, and the
//! consequences for the rest of it.
//!
//! Either source is rebuilt whenever it ends. If we die, nothing is lost: unsettled events come again.

use std::sync::Arc;

use futures::FutureExt as _;
use tokio::sync::watch;

use super::DaemonError;
use super::stream::{self, Health};
use crate::config::{Config, SourceKind};
use crate::db::{DbErrorKind, contract};
use crate::gateway::pubsub::PubsubSettings;
use crate::gateway::pubsub::facts::SubscriptionFacts;
use crate::gateway::pubsub::source::PubsubSource;
use crate::kernel::jobs::Settings;
use crate::ops::supervised::{Open, Supervised};
use crate::outbox::parts::OutboxParts;
use crate::outbox::source::{NAME, OutboxSource};
use crate::parts;
use crate::ports::{EventSource, SourceError};
use crate::routing::worker::Worker;
use crate::scrub::scrub;

/// Fewest unsettled events that may be pending, where no `pubsub.max_outstanding` says how many.
const ROOM: usize = 256;

/// The source of events, as configured.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Pubsub(Box<PubsubSettings>),
    Postgres,
}

impl Source {
    /// The configured source; asks no server.
    pub(super) async fn of(config: &Config) -> Result<Self, DaemonError> {
        match config.source.kind {
            SourceKind::Postgres => Ok(Self::Postgres),
            SourceKind::Pubsub => {
                let settings = parts::pubsub(config)?;
                let human = |error: &crate::ports::SourceError| error.needs_a_human();
                settings.identity().await.or_else(|error| if human(&error) { Err(error) } else { Ok(()) })?;
                Ok(Self::Pubsub(Box::new(settings)))
            }
        }
    }

    /// Settings of Pub/Sub, where it is the source.
    pub(super) fn pubsub(&self) -> Option<&PubsubSettings> {
        match self {
            Self::Pubsub(settings) => Some(settings),
            Self::Postgres => None,
        }
    }

    /// The same source, with the values of the subscription as it was read.
    pub(super) fn with_found(self, found: Option<&SubscriptionFacts>) -> Self {
        let Some(found) = found else { return self };
        match self {
            Self::Pubsub(settings) => Self::Pubsub(Box::new(settings.with_found(found))),
            Self::Postgres => Self::Postgres,
        }
    }

    /// Says whether the source itself spaces returned events; else the rows' own due times do (protocol §7).
    pub(super) fn paces_retries(&self) -> bool {
        match self {
            Self::Pubsub(_) => true,
            Self::Postgres => false,
        }
    }

    /// Limit of pending unsettled events.
    pub(super) fn room(&self, max_in_flight: usize) -> usize {
        let most = match self {
            Self::Pubsub(settings) => usize::try_from(settings.max_outstanding).unwrap_or(usize::MAX),
            Self::Postgres => ROOM,
        };
        most.max(max_in_flight * 2)
    }

    /// The events, and the source's health: with up to `room` of them pending.
    pub(super) fn open(
        &self,
        config: &Config,
        worker: &Arc<Worker>,
        outbox: OutboxParts,
        room: usize,
    ) -> (Supervised, watch::Receiver<Health>) {
        let seed = worker.rng.uuid().as_u64_pair().0;
        match self {
            Self::Pubsub(settings) => {
                stream::supervised(of_pubsub(PubsubSettings::clone(settings)), seed, |_| true)
            }
            // The breaker reports a database that does not answer.
            Self::Postgres => stream::supervised(
                of_postgres(config, worker, outbox, room),
                seed,
                SourceError::needs_a_human,
            ),
        }
    }
}

fn of_pubsub(settings: PubsubSettings) -> Open {
    Box::new(move || {
        let settings = settings.clone();
        async move {
            let source = PubsubSource::open(&settings).await?;
            Ok(Box::new(source) as Box<dyn EventSource>)
        }
        .boxed()
    })
}

/// The outbox. A dropped one is asked for again and again, and people are notified; the sweep works meanwhile.
fn of_postgres(config: &Config, worker: &Arc<Worker>, outbox: OutboxParts, room: usize) -> Open {
    let outages = worker.outages.clone();
    let outbox = OutboxParts { settings: Settings { most: room, ..outbox.settings }, ..outbox };
    let config = config.clone();
    Box::new(move || {
        let (outages, outbox, config) = (outages.clone(), outbox.clone(), config.clone());
        async move {
            let refused = |error: parts::PartError| SourceError::Refused {
                subscription: NAME.to_owned(),
                said: scrub(&error.to_string()),
            };
            let there = outbox.store.is_there().await.map_err(|error| {
                outages.database(&error);
                let (subscription, said) = (NAME.to_owned(), scrub(&error.to_string()));
                match error.kind() {
                    DbErrorKind::Contract => SourceError::Refused { subscription, said },
                    DbErrorKind::Unreachable | DbErrorKind::Busy | DbErrorKind::Bug => {
                        SourceError::Transient { subscription, said }
                    }
                }
            })?;
            if !there {
                let said = contract::NO_OUTBOX.to_owned();
                return Err(SourceError::Refused { subscription: NAME.to_owned(), said });
            }
            let listener = parts::outbox_listener(&config, outbox.store.pooling(), Arc::clone(&outbox.clock))
                .map_err(refused)?;
            tracing::info!("events come from the outbox");
            Ok(Box::new(OutboxSource::open(&outbox, listener, config.canary.interval))
                as Box<dyn EventSource>)
        }
        .boxed()
    })
}
