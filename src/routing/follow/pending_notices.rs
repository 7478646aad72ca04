//! Lost mails for the alerter: pending notices, their leases, and their texts.
//!
//! Kept in memory; the follower of the relay saves a snapshot that outlives us. A mail added after the last snapshot has
//! a relay entry without a notification (`notified_at` is absent), and its lines in the log are read again: it is added
//! again. If we die after Slack's ok and before the ledger has it, people are notified twice: at least once, never not
//! at all. Never changes a status. No transaction is open during a call of Slack.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use uuid::Uuid;

use crate::db::DbError;
use crate::ops::alerting::message::span;
use crate::ops::rng::Rng;
use crate::ops::set_aside::{SetAside, Writing};
use crate::ports::{AlertLease, Clock, Failures, LedgerTrouble, Story, Unalerted};
use crate::routing::delivery::lost;
use crate::routing::delivery::lost::{Lost, LostCause, Mail, Pages, Shown, Snapshot};
use crate::routing::outages::named;
use crate::routing::store::delivery_notified::{NotificationStore, Unnotified};
use crate::routing::submission::cause::anonymous;
use crate::routing::submission::text::{bounded, one_line};
use crate::scrub::scrub;

/// Longest part of a reply that is shown, in characters.
const MAX_REPLY: usize = 160;
/// Number of ledgers written in one call.
const PAGE: usize = 500;

/// The lost mails without a notification. Cheap to clone: all clones share their state.
#[derive(Debug, Clone)]
pub struct PendingNotices {
    pages: Arc<Mutex<Pages>>,
    store: NotificationStore,
    lease: Duration,
    clock: Arc<dyn Clock>,
    rng: Arc<Rng>,
    set_aside: SetAside,
}

impl PendingNotices {
    /// No pending notices yet. `lease`: time for a notification before another try is made.
    #[must_use]
    pub fn new(store: NotificationStore, lease: Duration, clock: Arc<dyn Clock>, rng: Arc<Rng>) -> Self {
        let set_aside = SetAside::new(Arc::clone(&clock), None);
        Self { pages: Arc::default(), store, lease, clock, rng, set_aside }
    }

    /// Shares the rows set aside with other parts.
    #[must_use]
    pub fn setting_aside(self, set_aside: SetAside) -> Self {
        Self { set_aside, ..self }
    }

    /// Adds a mail whose ledger says that it is lost and not that people were notified; idempotent. To be called after
    /// the commit of the relay entry.
    pub fn add(&self, lost: Lost) {
        self.pages().add(lost);
    }

    /// Returns the state that outlives the process.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.pages().snapshot()
    }

    /// Takes in the state of a former process.
    pub fn restore(&self, left: Snapshot) {
        self.pages().restore(left);
    }

    /// Number of changes that a snapshot would show.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.pages().changes()
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        // No change is left half done by a panic.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn leased(&self, cause: &str) -> Result<Option<AlertLease>, DbError> {
        let (now, token) = (self.clock.monotonic(), self.rng.uuid());
        let until = now + self.lease;
        if let Some(count) = self.pages().lease_rest(cause, token, until, now) {
            // The rows of the remaining mails are unknown: only their number is reported.
            let shown = usize::try_from(count).unwrap_or(lost::MOST).min(lost::MOST);
            let (rows, more) = (vec![Uuid::nil(); shown], u64::try_from(shown).is_ok_and(|n| n < count));
            return Ok(Some(AlertLease { token, rows, more, story: lost::story_of_the_rest() }));
        }
        let (leased, more) = self.pages().lease(cause, token, until, now);
        if leased.is_empty() {
            return Ok(None);
        }
        let mails: Vec<Mail> = leased.iter().map(|lost| lost.mail.clone()).collect();
        let unnotified = match self.store.unnotified(&mails).await {
            Ok(unnotified) => unnotified,
            Err(error) => {
                self.pages().give_back(token);
                return Err(error);
            }
        };
        // Replayed meanwhile, purged, or notified by another daemon.
        let still: BTreeSet<usize> = unnotified.iter().map(|found| found.index).collect();
        let over = (0..).zip(&mails).filter(|(index, _)| !still.contains(index)).map(|(_, mail)| mail);
        self.pages().forget(over);
        let Some(story) = notified_of(&leased, &unnotified) else { return Ok(None) };
        let rows = unnotified.iter().filter_map(|found| leased.get(found.index));
        let rows = rows.map(|lost| lost.mail.submission_id).collect();
        Ok(Some(AlertLease { token, rows, more, story }))
    }

    /// Records notifications in the ledgers; returns the number of ledgers written. A row locked elsewhere waits for the
    /// next call.
    async fn write(&self) -> Result<usize, DbError> {
        let mut written = 0;
        let mut mails = self.pages().unwritten(lost::MOST);
        mails.retain(|mail| !self.set_aside.is_resting(Writing::Notification, mail.submission_id));
        for page in mails.chunks(PAGE) {
            let marked = self.store.notified(page).await?;
            written += marked.written;
            let refuses = |id: Uuid| marked.refused.iter().any(|refused| refused.id == id);
            let is_over = |id: Uuid| !marked.busy.contains(&id) && !refuses(id);
            let over = page.iter().map(|mail| mail.submission_id).filter(|id| is_over(*id));
            self.set_aside.note(Writing::Notification, over, &named(&marked.refused));
            self.pages().forget(page.iter().filter(|mail| is_over(mail.submission_id)));
        }
        Ok(written)
    }
}

impl Failures for PendingNotices {
    fn unalerted(&self) -> BoxFuture<'_, Result<Vec<Unalerted>, LedgerTrouble>> {
        async {
            self.write().await.map_err(trouble)?;
            Ok(self.pages().causes(self.clock.monotonic()))
        }
        .boxed()
    }

    fn lease<'a>(&'a self, cause: &'a str) -> BoxFuture<'a, Result<Option<AlertLease>, LedgerTrouble>> {
        async move { self.leased(cause).await.map_err(trouble) }.boxed()
    }

    fn confirm<'a>(&'a self, lease: &'a AlertLease) -> BoxFuture<'a, Result<usize, LedgerTrouble>> {
        async move {
            let delivery_tracking = usize::try_from(self.pages().notified(lease.token)).unwrap_or(usize::MAX);
            Ok(self.write().await.map_err(trouble)?.saturating_add(delivery_tracking))
        }
        .boxed()
    }

    fn give_back<'a>(&'a self, lease: &'a AlertLease) -> BoxFuture<'a, Result<(), LedgerTrouble>> {
        async move {
            self.pages().give_back(lease.token);
            Ok(())
        }
        .boxed()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn trouble(error: DbError) -> LedgerTrouble {
    LedgerTrouble(scrub(&error.to_string()))
}

/// Text for leased mails that the ledger still calls lost; `None` where there are none.
fn notified_of(leased: &[Lost], unnotified: &[Unnotified]) -> Option<Story> {
    // Leases are in the order of age, the oldest first.
    let first = unnotified.iter().min_by_key(|found| found.index)?;
    let lost = leased.get(first.index)?;
    let cause: LostCause = lost.cause;
    let ago = Duration::try_from(first.now.duration_since(lost.at)).unwrap_or_default();
    Some(lost::story(
        cause,
        &Shown {
            submission_id: lost.mail.submission_id,
            forms: unnotified.iter().map(|found| found.form_id.clone()).collect(),
            said: bounded(anonymous(&one_line(&first.text), &lost.mail.delivery), MAX_REPLY),
            ago: span(ago),
        },
    ))
}
