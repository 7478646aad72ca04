//! What the daemon and the verbs are put together from: each part of the configuration turned into the thing it
//! describes. Nothing here connects to anything.

use std::sync::Arc;

use crate::config::Config;
use crate::config::secret::SecretError;
use crate::db::DbError;
use crate::db::readiness::Readiness;
use crate::db::{Pool, PoolOptions};
use crate::gateway::heartbeat::{Heartbeat, HeartbeatError};
use crate::gateway::pubsub::{PubsubSettings, SettingsError};
use crate::gateway::signed_url::{SignError, UrlSigner};
use crate::gateway::slack::{Slack, SlackError};
use crate::ops::alerting::{Desk, Letterhead, Pace};
use crate::ops::chance::Chance;
use crate::ops::clock::SystemClock;
use crate::outbox::bell::Bell;
use crate::outbox::feed::FeedSettings;
use crate::outbox::row::Retries;
use crate::outbox::store::OutboxStore;
use crate::ports::Clock;
use crate::routing::alerts::FailureAlerts;
use crate::routing::delivery::book::Book;
use crate::routing::pauses::PauseBook;
use crate::routing::prepare::{MailRules, Preparer};
use crate::routing::store::Store;
use crate::routing::store::alerts::AlertStore;
use crate::routing::store::delivery_told::TellingStore;
use crate::routing::store::pauses::PauseTable;

/// A part that cannot be made from this configuration.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    /// A secret cannot be read.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// `[database]` or `[readiness]`.
    #[error(transparent)]
    Database(#[from] DbError),
    /// `[pubsub]`.
    #[error(transparent)]
    Pubsub(#[from] SettingsError),
    /// `[signed_url]`.
    #[error(transparent)]
    Signer(#[from] SignError),
    /// `[slack]`
    #[error("{0}; see slack.webhook_file")]
    Slack(#[from] SlackError),
    /// `[canary]`
    #[error("{0}; see canary.heartbeat_url_file")]
    Heartbeat(#[from] HeartbeatError),
    /// `[mail]`.
    #[error("{0}")]
    Mail(String),
}

/// The pool of connections to PostgreSQL.
///
/// # Errors
/// [`PartError`].
pub fn pool(config: &Config, clock: Arc<dyn Clock>) -> Result<Pool, PartError> {
    Ok(Pool::new(&config.database, pool_options(config, clock)?)?)
}

fn pool_options(config: &Config, clock: Arc<dyn Clock>) -> Result<PoolOptions, PartError> {
    let mut options = PoolOptions::new(clock);
    options.password = config.database_password()?.map(|found| found.secret.expose().to_owned());
    Ok(options)
}

/// What rings when the outbox is written to. Must be called inside a tokio runtime.
///
/// # Errors
/// [`PartError`].
pub fn bell(config: &Config, clock: Arc<dyn Clock>) -> Result<Bell, PartError> {
    Ok(Bell::hang(config.database.clone(), pool_options(config, clock)?))
}

/// The outbox, wherever there is one.
#[must_use]
pub fn outbox(config: &Config, pool: Pool) -> OutboxStore {
    OutboxStore::new(pool, &format!("maple-router@{}", worker_name(config)))
}

/// How rows of the outbox are taken: up to `most` at once.
#[must_use]
pub fn outbox_feed(config: &Config, most: usize) -> FeedSettings {
    let outbox = &config.outbox;
    let retries =
        Retries { max_attempts: outbox.max_attempts, min: outbox.backoff_min, max: outbox.backoff_max };
    FeedSettings { most, lease: outbox.lease, poll: config.source.poll, retries }
}

/// Name of this host, for audit log and claims.
#[must_use]
pub fn host() -> String {
    hostname::get().ok().and_then(|name| name.into_string().ok()).unwrap_or_else(|| "unknown-host".to_owned())
}

/// Name of this worker: as configured, else `host/pid`.
#[must_use]
pub fn worker_name(config: &Config) -> String {
    config.routing.worker_name.clone().unwrap_or_else(|| format!("{}/{}", host(), std::process::id()))
}

/// The store of the mission.
///
/// # Errors
/// [`PartError`].
pub fn store(config: &Config, pool: Pool) -> Result<Store, PartError> {
    let readiness = Readiness::new(config.readiness.finalized_column.as_deref())?;
    Ok(Store::new(pool, &readiness, config, &host(), &worker_name(config)))
}

/// Where pauses are kept.
#[must_use]
pub fn pause_book(config: &Config, pool: Pool) -> PauseBook {
    PauseBook::new(PauseTable::new(pool), &config.state.dir)
}

/// Where alerts are made and handed to Slack; `None` where no webhook is configured: then nobody is told.
///
/// # Errors
/// [`PartError`].
pub fn alert_desk(
    config: &Config,
    pool: Pool,
    clock: Arc<dyn Clock>,
    chance: Arc<Chance>,
) -> Result<Option<Desk>, PartError> {
    let Some(webhook) = config.slack_webhook()? else { return Ok(None) };
    let slack = Slack::new(&webhook.secret, &config.slack.channel, config.slack.timeout)?;
    let readiness = Readiness::new(config.readiness.finalized_column.as_deref())?;
    let store = AlertStore::new(pool, &readiness, config);
    Ok(Some(Desk {
        webhook: Arc::new(slack),
        failures: vec![Arc::new(FailureAlerts { store, clock, chance })],
        head: Letterhead { host: host(), channel: config.slack.channel.clone() },
    }))
}

/// The lost mails nobody was told of: a place of failures for [`alert_desk`], filled by whoever follows the relay.
#[must_use]
pub fn lost_mails(config: &Config, pool: Pool, clock: Arc<dyn Clock>, chance: Arc<Chance>) -> Book {
    Book::new(TellingStore::new(pool), config.slack.lease, clock, chance)
}

/// Who is told that all is well; `None` where no URL is configured.
///
/// # Errors
/// [`PartError`].
pub fn heartbeat(config: &Config) -> Result<Option<Heartbeat>, PartError> {
    let Some(url) = config.heartbeat_url()? else { return Ok(None) };
    Ok(Some(Heartbeat::new(&url.secret)?))
}

/// How often people may be told.
#[must_use]
pub fn alert_pace(config: &Config) -> Pace {
    Pace { group_wait: config.slack.group_wait, repeat_interval: config.slack.repeat_interval }
}

/// The signer of links.
///
/// # Errors
/// [`PartError`].
pub fn signer(config: &Config) -> Result<UrlSigner, PartError> {
    Ok(UrlSigner::new(&config.signed_url, config.surroundings.metadata_host.as_deref())?)
}

/// What makes mails.
///
/// # Errors
/// [`PartError`].
pub fn preparer(config: &Config, store: Store, chance: Arc<Chance>) -> Result<Preparer, PartError> {
    let rules = MailRules::new(config).map_err(PartError::Mail)?;
    Ok(Preparer { rules, store, signer: Arc::new(signer(config)?.measured(Arc::new(SystemClock))), chance })
}

/// Names and endpoint of Pub/Sub.
///
/// # Errors
/// [`PartError`].
pub fn pubsub(config: &Config) -> Result<PubsubSettings, PartError> {
    Ok(PubsubSettings::from_config(&config.pubsub)?)
}
