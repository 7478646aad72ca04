//! What people are told of entries, beside what opened them: the security team is asked, entries expire, a remedy is given
//! up on. Leased in the rows and confirmed there, so that it is told at least once, whatever dies.
//!
//! No text that people wrote, and no name, goes to a channel: the entry has both.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::card::RUNBOOK;
use super::store::{Due, GreyQueueStore, Notice};
use crate::db::DbError;
use crate::ops::alerting::message::span;
use crate::ops::rng::Rng;
use crate::ports::{AlertLease, Failures, LedgerTrouble, Runbook, Story, Unalerted};
use crate::scrub::scrub;

/// Entries in one message.
const MOST: i64 = 200;

/// Entries of one kind of notice, for the alerter.
#[derive(Debug, Clone)]
pub struct Notices {
    /// The entries.
    pub store: GreyQueueStore,
    /// What people are told.
    pub notice: Notice,
    /// How long before an expiry.
    pub warn: Duration,
    /// Time for a message before another process sends one.
    pub lease: Duration,
    /// The desk's address, for the link; absent where there is no desk.
    pub origin: Option<String>,
    /// Makes tokens.
    pub rng: Arc<Rng>,
}

impl Failures for Notices {
    fn unalerted(&self) -> BoxFuture<'_, Result<Vec<Unalerted>, LedgerTrouble>> {
        async {
            // The desk's schema may come and go while we run.
            if !self.store.is_there().await.map_err(trouble)? {
                return Ok(Vec::new());
            }
            let due = self.store.unnotified(self.notice, self.warn, MOST).await.map_err(trouble)?;
            let count = u64::try_from(due.len()).unwrap_or(u64::MAX);
            let cause = format!("review_{}", self.notice);
            Ok(if count == 0 { Vec::new() } else { vec![Unalerted { cause, count }] })
        }
        .boxed()
    }

    fn lease<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<AlertLease>, LedgerTrouble>> {
        async {
            let leased =
                self.store.lease_notice(self.notice, self.warn, MOST, self.lease).await.map_err(trouble)?;
            let Some(first) = leased.first() else { return Ok(None) };
            let story = self.story(first, leased.len());
            let rows: Vec<_> = leased.iter().map(|due| due.id).collect();
            let more = i64::try_from(rows.len()).is_ok_and(|n| n == MOST);
            Ok(Some(AlertLease { token: self.rng.uuid(), rows, more, story }))
        }
        .boxed()
    }

    fn confirm<'a>(&'a self, lease: &'a AlertLease) -> BoxFuture<'a, Result<usize, LedgerTrouble>> {
        async {
            let told = self.store.notified(self.notice, &lease.rows).await.map_err(trouble)?;
            Ok(usize::try_from(told).unwrap_or(usize::MAX))
        }
        .boxed()
    }

    fn give_back<'a>(&'a self, lease: &'a AlertLease) -> BoxFuture<'a, Result<(), LedgerTrouble>> {
        async { self.store.give_notice_back(&lease.rows).await.map_err(trouble) }.boxed()
    }
}

impl Notices {
    fn story(&self, first: &Due, count: usize) -> Story {
        let ago = Duration::try_from(first.now.duration_since(first.at)).unwrap_or_default();
        let left = Duration::try_from(first.at.duration_since(first.now)).unwrap_or_default();
        let what = match self.notice {
            Notice::Escalated => {
                format!("the security team is asked about {} of the review queue", entries(count))
            }
            Notice::Expiring => {
                format!("{} of the review queue will expire, unless somebody takes them", entries(count))
            }
            Notice::Failed => format!("the remedy of {} of the review queue is given up on", entries(count)),
        };
        let when = match self.notice {
            Notice::Escalated => {
                format!("the first: {} ({}), asked {} ago", first.id, first.cause, span(ago))
            }
            Notice::Expiring => format!(
                "the first: {} ({}), in {}, a day from now at the earliest",
                first.id,
                first.cause,
                span(left)
            ),
            Notice::Failed => format!("the first: {} ({}), {} ago", first.id, first.cause, span(ago)),
        };
        let link = self.origin.as_ref().map(|origin| format!("{origin}/entries/{}", first.id));
        let list = match self.notice {
            Notice::Escalated => "maple-router review list --state Escalated",
            Notice::Expiring => "maple-router review list --state Pending",
            Notice::Failed => "maple-router review list --state Failed",
        };
        Story {
            what,
            details: [Some(when), link].into_iter().flatten().collect(),
            commands: vec![format!("maple-router review show {}", first.id), list.to_owned()],
            runbook: Runbook { file: RUNBOOK, section: self.notice.section() },
        }
    }
}

impl Notice {
    /// The section of the runbook.
    #[must_use]
    pub const fn section(self) -> &'static str {
        match self {
            Self::Escalated => "review_escalated",
            Self::Expiring => "review_expiring",
            Self::Failed => "review_failed",
        }
    }
}

fn entries(count: usize) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn trouble(error: DbError) -> LedgerTrouble {
    LedgerTrouble(scrub(&error.to_string()))
}
