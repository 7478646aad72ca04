//! Announcement of submissions to the daemon: by an event through Pub/Sub, or by a row of the outbox. Every verb
//! announces here.
//!
//! An event only says "look": one too many changes nothing, and the daemon finds unannounced submissions in its time.

use anyhow::{Result, bail};
use uuid::Uuid;

use super::setup::{self, Setup};
use super::{CliError, Exit};
use crate::config::{Config, SourceKind};
use crate::db::contract;
use crate::gateway::pubsub::publisher::{PublishError, PubsubPublisher};
use crate::outbox::store::OutboxStore;
use crate::parts::{self, PartError};
use crate::routing::dead_letter::{Origin, Record, original_attributes};
use crate::routing::event::{self, Parsed, Reason, RoutingEvent, encode};
use crate::routing::store::sweep::Orphan;
use crate::routing::upkeep::sweep::Republisher;

/// Prefix of an outbox event's name, before the id of its row.
const OUTBOX: &str = "outbox:";

/// Way of announcing submissions to the daemon.
#[derive(Debug, Clone)]
pub(super) enum Way {
    Pubsub(PubsubPublisher),
    Outbox(OutboxStore),
}

/// Result of an announcement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Announced {
    /// Pub/Sub took the event under this id.
    Published(String),
    /// The event is in the outbox under this id.
    Written(String),
}

impl Announced {
    /// Id of the event.
    pub(super) fn message_id(&self) -> &str {
        match self {
            Self::Published(id) | Self::Written(id) => id,
        }
    }

    /// The announcement in words that follow a comma.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Published(id) => format!("published as message {id}"),
            Self::Written(id) => format!("announced as {id}"),
        }
    }

    /// The announcement as a sentence.
    pub(super) fn sentence(&self) -> String {
        match self {
            Self::Published(id) => format!("event {id} is published"),
            Self::Written(id) => format!("event {id} is written"),
        }
    }
}

impl Way {
    /// Opens the configured way; with PostgreSQL the database says whether there is an outbox.
    pub(super) async fn open(config: &Config) -> Result<Self> {
        match config.source.kind {
            SourceKind::Pubsub => Ok(Self::Pubsub(PubsubPublisher::open(&parts::pubsub(config)?).await?)),
            SourceKind::Postgres => {
                let outbox = parts::outbox(config, parts::verbs_pool(config)?);
                if !outbox.is_there().await? {
                    return Err(PartError::Outbox(contract::NO_OUTBOX).into());
                }
                Ok(Self::Outbox(outbox))
            }
        }
    }

    /// Announces one submission.
    pub(super) async fn announce(
        &self,
        id: Uuid,
        form_id: Option<&str>,
        reason: Reason,
    ) -> Result<Announced> {
        match self {
            Self::Outbox(outbox) => match outbox.announce(&[id], reason.label()).await?.first() {
                Some(row) => Ok(Announced::Written(format!("{OUTBOX}{row}"))),
                None => bail!("the outbox did not take the event"),
            },
            Self::Pubsub(publisher) => {
                let form_id = form_id.map(str::to_owned);
                let (attributes, data) = encode(&RoutingEvent { submission_id: id, form_id, reason });
                Ok(Announced::Published(publisher.publish(attributes, data).await?))
            }
        }
    }

    /// Announces a message again that was given up on.
    async fn again(&self, record: &Record) -> Result<Again> {
        let attributes = original_attributes(&record.attributes);
        if let Self::Pubsub(publisher) = self {
            let id = publisher.publish(attributes, record.payload.clone().into()).await?;
            return Ok(Again::Announced(Announced::Published(id)));
        }
        match event::parse(&attributes, &record.payload) {
            Parsed::Event(named) => {
                self.announce(named.submission_id, None, Reason::Operator).await.map(Again::Announced)
            }
            Parsed::Canary | Parsed::Poison { .. } => Ok(Again::Refused(
                "it names no submission, and with source.kind = \"postgres\" there is nobody else to read it: \
                 `maple-router dlq discard` closes it"
                    .to_owned(),
            )),
        }
    }
}

/// Result of announcing a dead letter again.
pub(super) enum Again {
    /// The letter was announced; its record is still open.
    Announced(Announced),
    /// The letter's row in the outbox is delivered again, and its record is closed with that.
    Closed(Announced),
    /// No announcement is possible, and why.
    Refused(String),
}

/// Announces any number of submissions; connects at the first.
pub(super) struct Announcer<'a> {
    config: &'a Config,
    way: Option<Way>,
    trouble: Option<String>,
}

impl<'a> Announcer<'a> {
    pub(super) fn of(config: &'a Config) -> Self {
        Self { config, way: None, trouble: None }
    }

    async fn way(&mut self) -> Result<&Way> {
        let way = match self.way.take() {
            Some(way) => way,
            None => Way::open(self.config).await?,
        };
        Ok(self.way.insert(way))
    }

    /// Announces a submission that the daemon would find in its time: the first failure is the last try, so that an
    /// outage does not delay the verb.
    pub(super) async fn announce(&mut self, id: Uuid, form_id: &str) -> Option<Announced> {
        if self.trouble.is_some() {
            return None;
        }
        let announced = match self.way().await {
            Ok(way) => way.announce(id, Some(form_id), Reason::Operator).await,
            Err(error) => Err(error),
        };
        announced.map_err(|error| self.trouble = Some(format!("{error:#}"))).ok()
    }

    /// Warning where something could not be announced.
    pub(super) fn warning(self) -> Option<String> {
        self.trouble.map(|why| format!("not everything was announced, the sweep finds the rest: {why}"))
    }

    /// Announces a dead letter again, to the source that gave up on it.
    pub(super) async fn again(&mut self, setup: &Setup, record: &Record, by: (&str, &str)) -> Result<Again> {
        let Origin::Outbox(row) = record.origin() else { return self.way().await?.again(record).await };
        let (actor, reason) = by;
        let redriven = parts::outbox(self.config, setup.pool.clone()).redrive(row, actor, reason).await?;
        Ok(match redriven.refusal() {
            None => Again::Closed(Announced::Written(format!("{OUTBOX}{row}"))),
            Some(why) => Again::Refused(why),
        })
    }
}

/// Announces one, or ends the verb; earlier changes stand.
pub(super) async fn or_end(
    config: &Config,
    id: Uuid,
    form_id: &str,
    reason: Reason,
) -> Result<Announced, CliError> {
    let announced = async { Way::open(config).await?.announce(id, Some(form_id), reason).await };
    announced.await.map_err(|error| {
        // Pub/Sub's refusal may pass, whatever its words; a part that cannot be made stays so.
        let exit = match error.downcast_ref::<PublishError>() {
            Some(PublishError::Pubsub(_)) => Exit::Unavailable,
            Some(PublishError::Settings(_)) => Exit::BadConfig,
            None => match error.downcast::<PartError>() {
                Ok(error) => return setup::part(error),
                Err(error) => return CliError::from(error.context("no event was written")),
            },
        };
        CliError::new(exit, error.context("no event was published"))
            .remedy(format!("`maple-router publish {id}` sends the event again"))
    })
}

/// Announces all of `found`, which the sweep would find as well; returns a warning about failures.
pub(super) async fn all(config: &Config, found: &[Orphan]) -> Option<String> {
    let wait = config.routing.due_grace + config.routing.sweep_interval;
    let wait = format!("the daemon's sweep takes them within {}", humantime::format_duration(wait));
    let announced = async {
        match Way::open(config).await? {
            Way::Outbox(outbox) => {
                let ids: Vec<Uuid> = found.iter().map(|found| found.id).collect();
                outbox.announce(&ids, Reason::Operator.label()).await?;
                Ok(())
            }
            Way::Pubsub(publisher) => {
                let events = Republisher::over(publisher);
                if events.publish(found).await { Ok(()) } else { bail!(events.fault().unwrap_or_default()) }
            }
        }
    };
    let announced: Result<()> = announced.await;
    announced.err().map(|error| format!("no event was published ({error:#}): {wait}"))
}

/// The publisher of events for submissions that a sweep finds, or why there is none.
pub(super) async fn republisher(config: &Config) -> Result<Republisher, String> {
    if config.source.kind != SourceKind::Pubsub {
        return Err("with source.kind = \"postgres\" it hands them on by itself".to_owned());
    }
    let settings = parts::pubsub(config).map_err(|error| error.to_string())?;
    Republisher::open(&settings).await.map_err(|error| error.to_string())
}
