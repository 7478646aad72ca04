//! Start here. The composition root: the daemon's parts, the order in which it starts, and how it stops.
//!
//! Start: database (it must meet the contract), relay (it must answer once), subscription where there is one, then READY and
//! [`Receiver::run`](crate::routing::receive::Receiver::run). A dependency that is down is waited for; a
//! configuration that cannot work ends the process with 78. If we die at any moment, the row says what follows.

mod alerting;
pub mod card;
mod dead_letters;
mod dead_man;
mod delivery_tracking;
mod desk;
mod forms;
mod grading;
mod ground;
mod help_desk;
mod later_grades;
mod outages;
mod parts;
mod publications;
mod relay;
mod relay_health;
mod reload;
mod retention;
mod returned;
mod review;
mod routing;
mod screening;
mod source;
mod spool;
mod start;
mod status;
mod stream;
mod upkeep;
mod uploads;
mod watchdog;

use std::time::Duration;

use alerting::Alerting;
pub use parts::preflight;
pub use reload::Reloads;
use start::Start;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::db::contract::Check;
use crate::kernel::Card;
use crate::ops::status_line;
use crate::ops::tally::Tally;
use crate::ops::{http, metrics, systemd};
use crate::parts::PartError;
use crate::ports::SourceError;

/// The cards of the house and of all rooms.
pub const ROOMS: &[&Card] = &[
    &card::CARD,
    &crate::routing::card::CARD,
    &crate::outbox::card::CARD,
    &crate::grey_queue::card::CARD,
    &crate::desk::card::CARD,
    &crate::uploads::card::CARD,
    &crate::forms::card::CARD,
    &crate::retention::card::CARD,
    &crate::screening::card::CARD,
    &crate::grading::card::CARD,
];

/// Time that remains after `drain_timeout` for recording sent mails.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// The lines of `check`, in their order.
#[must_use]
pub fn checks() -> Vec<&'static Check> {
    let mut checks: Vec<_> = ROOMS.iter().flat_map(|room| room.checks).collect();
    checks.sort_by_key(|check| check.order);
    checks
}

/// Why the daemon did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// A part cannot be made from this configuration.
    #[error(transparent)]
    Part(#[from] PartError),
    /// The database is there and does not meet the contract.
    #[error("the database does not meet the contract: {0}")]
    Contract(String),
    /// The event source can never work as configured.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The subscription differs from the configuration, and with its values an inequality does not hold.
    #[error("{name} does not fit the configuration: {broken}")]
    Subscription {
        /// Full name.
        name: String,
        /// The broken inequality, with both values.
        broken: String,
    },
    /// Metrics cannot be set up.
    #[error(transparent)]
    Metrics(#[from] metrics::MetricsError),
    /// No thread for the watchdog.
    #[error("the thread that feeds systemd's watchdog cannot be started: {0}; see TasksMax= of the unit")]
    Watchdog(#[source] std::io::Error),
    /// The loopback endpoint cannot be opened.
    #[error(transparent)]
    Http(#[from] http::BindError),
}

/// Runs until `stop` is cancelled, then drains; follows `reloads` while it runs. Cancelling `stop` during the start
/// ends it cleanly.
///
/// # Errors
/// [`DaemonError`]: the configuration or the database must be mended first.
pub async fn run(config: Config, reloads: Reloads, stop: CancellationToken) -> Result<(), DaemonError> {
    let (mut ground, mut makings, people) = ground::lay(&config, &stop).await?;
    let desk = desk::open(&config, &reloads, &ground, &stop);
    let uploading = uploads::open(&config, &reloads, &ground, &stop);
    forms::watch(&config, &reloads, &mut ground);
    retention::watch(&config, &mut ground);
    screening::watch(&config, &mut ground);
    grading::work(&config, &mut ground);
    let start = Start::new(&config, &ground.readiness, &ground.outages, &makings.parts.source);
    let tell = || people.start(&config, &ground);
    let (began, alerting) = start.begin((&ground.pool, &ground.smtp), tell, &stop).await;
    let found = start.found();
    let ended = match began {
        Ok(true) => {
            let alerts = alerting.as_ref().and_then(Alerting::alerts);
            makings.parts.source = makings.parts.source.with_found(found.as_ref());
            routing::run(&config, &reloads, (&mut ground, makings), alerts, &stop).await
        }
        Ok(false) => {
            systemd::stopping(&status_line::stopping(Tally::now()));
            Ok(())
        }
        Err(error) => Err(error),
    };
    if let Some(alerting) = alerting {
        alerting.stop().await;
    }
    if let Some(desk) = desk {
        desk.stop().await;
    }
    if let Some(uploading) = uploading {
        uploading.stop().await;
    }
    ground.leave().await;
    ended
}
