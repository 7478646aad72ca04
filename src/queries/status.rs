//! Counts of submissions by status, and faults.
//!
//! Reads only. Breakers are the daemon's own: the daemon on this host is asked. Values unknown to this version are
//! empty, or null where even that is not known. Where no daemon answers on this host, the counts are given all the
//! same.

use std::collections::BTreeMap;

use serde::Serialize;

use super::daemon_client::{self, BreakerPart};
use super::{QueryError, Reader};
use crate::config::SourceKind;
use crate::db::DbError;
use crate::kernel::rows::Depth;
use crate::ops::dependency::Dependency;
use crate::outbox::table::State;
use crate::routing::delivery::followed::Followed;
use crate::routing::explain::{Daemon, Reason};
use crate::routing::pause::Pause;
use crate::routing::store::view::Overview;
use crate::routing::upkeep::dead_letters::RecordError;

/// The report (interfaces page, `status`).
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    pub(crate) overview: Overview,
    pub(crate) paused: Vec<Pause>,
    /// Breakers of the daemon on this host; empty where none answers.
    pub(crate) breaker: Vec<BreakerPart>,
    pub(crate) daemon_reachable: bool,
    /// The daemon's own state.
    pub(crate) daemon: Daemon,
    /// Open ones by kind, as `dlq list` shows them, wherever events come from; null where the records of this host
    /// cannot be read.
    pub(crate) dead_letters: Option<BTreeMap<&'static str, u64>>,
    pub(crate) relay: Relay,
    /// Events that wait in schema `router`; null where there is no outbox.
    pub(crate) outbox: Option<Outbox>,
}

/// Collects the report.
pub(crate) async fn report(reader: &Reader) -> Result<Report, QueryError> {
    let overview = reader.view().overview().await?;
    let paused = reader.pauses().read().await?.iter().cloned().collect();
    let outbox = Outbox::of(reader).await?;
    let listen = &reader.config.http.listen;
    let (breakers, daemon) = futures::join!(
        daemon_client::breakers(listen, reader.rooms),
        daemon_client::readiness(listen, reader.rooms)
    );
    let mut breaker = breakers.unwrap_or_default();
    if reader.config.source.kind != SourceKind::Pubsub {
        breaker.retain(|one| one.dependency != Dependency::PUBSUB.label());
    }
    if !reader.config.happyfox.is_on() {
        breaker.retain(|one| one.dependency != Dependency::HELP_DESK.label());
    }
    let relay = Relay::of(reader).await?;
    let dead_letters = match reader.records().open().await {
        Ok(open) => Some(open),
        // The records in the state directory are root's and the service's; the other counts are no secret.
        Err(RecordError::File { .. }) => None,
        Err(RecordError::Database(error)) => return Err(error.into()),
    };
    let daemon_reachable = !matches!(daemon, Daemon::Silent { .. });
    Ok(Report { overview, paused, breaker, daemon_reachable, daemon, dead_letters, relay, outbox })
}

impl Report {
    /// The daemon's own state, in a sentence.
    pub(crate) fn daemon_words(&self) -> String {
        match &self.daemon {
            Daemon::Working => "It works.".to_owned(),
            Daemon::NotAsked => "It was not asked.".to_owned(),
            Daemon::Silent { .. } => "It does not answer.".to_owned(),
            Daemon::BreakerOpen { reasons } | Daemon::Idle { reasons } => {
                let said = |reason: &Reason| format!("{}: {}", reason.name, reason.detail);
                let reasons: Vec<String> = reasons.iter().map(said).collect();
                format!("It takes no work: {}.", reasons.join("; ").trim_end_matches('.'))
            }
        }
    }
}

/// Events that the database has written and that are not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Outbox {
    /// Events to be delivered, now or after a pause.
    pub(crate) pending: u64,
    /// Events being delivered.
    pub(crate) delivering: u64,
    /// Seconds since the oldest waiting event was due.
    pub(crate) oldest_seconds: u64,
    /// Events given up on.
    pub(crate) dead_letter: u64,
}

impl Outbox {
    async fn of(reader: &Reader) -> Result<Option<Self>, DbError> {
        let Some(outbox) = reader.outbox().await? else { return Ok(None) };
        Ok(Some(outbox.depths().await?.into_iter().fold(Self::default(), Self::with)))
    }

    fn with(mut self, depth: Depth<State>) -> Self {
        match depth.state {
            State::Pending | State::RetryWait => {
                self.pending += depth.count;
                self.oldest_seconds = self.oldest_seconds.max(depth.oldest.as_secs());
            }
            State::Delivering => self.delivering += depth.count,
            State::DeadLetter => self.dead_letter += depth.count,
            State::Delivered => {}
        }
        self
    }
}

/// The relay log's report on accepted mails; null where nobody reads it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Relay {
    /// Mails accepted by the relay at most a week ago, and not known to be delivered or lost.
    pub(crate) accepted_undelivered: Option<i64>,
    pub(crate) oldest_seconds: Option<i64>,
    /// Why the count is unknown although the log shall be followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unknown: Option<String>,
}

impl Relay {
    async fn of(reader: &Reader) -> Result<Self, DbError> {
        let since = match Followed::of(&reader.config).await {
            Followed::No => return Ok(Self::default()),
            Followed::Unknown(why) => return Ok(Self { unknown: Some(why), ..Self::default() }),
            Followed::Since(since) => since,
        };
        let found = reader.view().undelivered(since).await?;
        Ok(Self {
            accepted_undelivered: Some(found.count),
            oldest_seconds: Some(found.oldest_seconds),
            unknown: None,
        })
    }
}
