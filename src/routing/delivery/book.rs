//! Lost mails as the alerter sees them: which wait to be told of, whose turn it is, and what is told of them.
//!
//! Kept in memory; whoever follows the relay puts a snapshot where it outlives us. Of what was added after the last
//! snapshot the ledger's mark says that nobody was told (`told_at` is absent), and the lines that told of it are read again:
//! it is added again. If we die after Slack's ok and before the ledger has it, people are told twice: at least once, never
//! not at all. Never changes a status. No transaction is open while Slack is spoken to.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use uuid::Uuid;

use super::lost::{self, Lost, LostCause, Mail, Pages, Shown, Snapshot};
use crate::db::DbError;
use crate::ops::alerting::message::span;
use crate::ops::chance::Chance;
use crate::ops::set_aside::{SetAside, Writing};
use crate::ports::{AlertLease, Clock, Failures, LedgerTrouble, Story, Unalerted};
use crate::routing::cause::anonymous;
use crate::routing::store::delivery_told::{TellingStore, Untold};
use crate::routing::sweep::named;
use crate::routing::text::{bounded, one_line};
use crate::scrub::scrub;

/// Longest part of a reply that is shown, in characters.
const MAX_REPLY: usize = 160;
/// Ledgers written to at once.
const PAGE: usize = 500;

/// The lost mails nobody was told of. Cheap to clone: all clones are the same book.
#[derive(Debug, Clone)]
pub struct Book {
    pages: Arc<Mutex<Pages>>,
    store: TellingStore,
    lease: Duration,
    clock: Arc<dyn Clock>,
    chance: Arc<Chance>,
    set_aside: SetAside,
}

impl Book {
    /// An empty book. `lease`: how long telling may take before another try is made.
    #[must_use]
    pub fn new(store: TellingStore, lease: Duration, clock: Arc<dyn Clock>, chance: Arc<Chance>) -> Self {
        let set_aside = SetAside::new(Arc::clone(&clock), None);
        Self { pages: Arc::default(), store, lease, clock, chance, set_aside }
    }

    /// The same, sharing the rows set aside with others.
    #[must_use]
    pub fn setting_aside(self, set_aside: SetAside) -> Self {
        Self { set_aside, ..self }
    }

    /// Takes in a mail whose ledger says that it is lost and not that people were told; idempotent. Call it after the
    /// commit of the mark.
    pub fn add(&self, lost: Lost) {
        self.pages().add(lost);
    }

    /// What is to outlive the process.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.pages().snapshot()
    }

    /// Takes in what a former process has left.
    pub fn restore(&self, left: Snapshot) {
        self.pages().restore(left);
    }

    /// Grows with every change that a snapshot would show.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.pages().changes()
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        // Each change is one that holds together.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn leased(&self, cause: &str) -> Result<Option<AlertLease>, DbError> {
        let (now, token) = (self.clock.monotonic(), self.chance.uuid());
        let until = now + self.lease;
        if let Some(count) = self.pages().lease_beyond(cause, token, until, now) {
            // So many that no row of them is known: only their number is told.
            let shown = usize::try_from(count).unwrap_or(lost::MOST).min(lost::MOST);
            let (rows, more) = (vec![Uuid::nil(); shown], u64::try_from(shown).is_ok_and(|n| n < count));
            return Ok(Some(AlertLease { token, rows, more, story: lost::story_beyond() }));
        }
        let (leased, more) = self.pages().lease(cause, token, until, now);
        if leased.is_empty() {
            return Ok(None);
        }
        let mails: Vec<Mail> = leased.iter().map(|lost| lost.mail.clone()).collect();
        let untold = match self.store.untold(&mails).await {
            Ok(untold) => untold,
            Err(error) => {
                self.pages().give_back(token);
                return Err(error);
            }
        };
        // Replayed meanwhile, purged, or told of by somebody else.
        let still: BTreeSet<usize> = untold.iter().map(|found| found.place).collect();
        let over = (0..).zip(&mails).filter(|(place, _)| !still.contains(place)).map(|(_, mail)| mail);
        self.pages().forget(over);
        let Some(story) = told_of(&leased, &untold) else { return Ok(None) };
        let rows = untold.iter().filter_map(|found| leased.get(found.place));
        let rows = rows.map(|lost| lost.mail.submission_id).collect();
        Ok(Some(AlertLease { token, rows, more, story }))
    }

    /// Writes into the ledgers that people were told; answers how many it was written into. What is locked by somebody else
    /// waits for the next time.
    async fn write(&self) -> Result<usize, DbError> {
        let mut written = 0;
        let mut mails = self.pages().unwritten(lost::MOST);
        mails.retain(|mail| !self.set_aside.is_resting(Writing::Told, mail.submission_id));
        for page in mails.chunks(PAGE) {
            let marked = self.store.told(page).await?;
            written += marked.written;
            let refuses = |id: Uuid| marked.refused.iter().any(|refused| refused.id == id);
            let is_over = |id: Uuid| !marked.busy.contains(&id) && !refuses(id);
            let over = page.iter().map(|mail| mail.submission_id).filter(|id| is_over(*id));
            self.set_aside.note(Writing::Told, over, &named(&marked.refused));
            self.pages().forget(page.iter().filter(|mail| is_over(mail.submission_id)));
        }
        Ok(written)
    }
}

impl Failures for Book {
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
            let beyond = usize::try_from(self.pages().told(lease.token)).unwrap_or(usize::MAX);
            Ok(self.write().await.map_err(trouble)?.saturating_add(beyond))
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

/// What is told of leased mails, of those that the ledger still calls lost; `None` where none is.
fn told_of(leased: &[Lost], untold: &[Untold]) -> Option<Story> {
    // Leased the oldest first.
    let first = untold.iter().min_by_key(|found| found.place)?;
    let lost = leased.get(first.place)?;
    let cause: LostCause = lost.cause;
    let ago = Duration::try_from(first.now.duration_since(lost.at)).unwrap_or_default();
    Some(lost::story(
        cause,
        &Shown {
            submission_id: lost.mail.submission_id,
            forms: untold.iter().map(|found| found.form_id.clone()).collect(),
            said: bounded(anonymous(&one_line(&first.text), &lost.mail.delivery), MAX_REPLY),
            ago: span(ago),
        },
    ))
}
