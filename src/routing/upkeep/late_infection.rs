//! Attachments judged infected after their submission had been routed: its mails are out, with links that work, and
//! nothing else would report it (rb-008).
//!
//! A look at the infected attachments detects them; each submission is alerted once, by any daemon: a lease in the row
//! keeps others from it, and Slack's confirmation is stored in the row. If we die in between, people are notified again.
//! Detected submissions are kept in memory only, bounded, and detected again by the next look.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use uuid::Uuid;

use super::alerts::{recorded, trouble};
use crate::db::DbError;
use crate::ops::alerting::message::span;
use crate::ops::rng::Rng;
use crate::ops::set_aside::SetAside;
use crate::ports::{AlertLease, Clock, Failures, LedgerTrouble, Runbook, Story, Unalerted};
use crate::routing::metrics;
use crate::routing::store::alerts::{AlertStore, Late};
use crate::scrub::scrub;

/// Largest number of submissions of one lease, so of one message.
const LEASED: usize = 500;
/// Largest number of detected submissions kept without an alert; further ones are detected again.
const KEPT: usize = 10_000;
/// Number of submissions read by one statement.
const PAGE: usize = 200;
/// Rest after a look, in multiples of its duration: where no index helps a look reads all attachments.
const REST: u32 = 100;
/// The only cause of these alerts.
const CAUSE: &str = "infected_after_routing";

/// Detector of late infections, and source of their alerts.
#[derive(Debug)]
pub struct LateInfections {
    store: AlertStore,
    /// Longest life of a link.
    ttl: Duration,
    found: Mutex<BTreeSet<Uuid>>,
    clock: Arc<dyn Clock>,
    rng: Arc<Rng>,
    set_aside: SetAside,
}

impl LateInfections {
    /// No submission is detected yet. `ttl` is the longest life of a link.
    #[must_use]
    pub fn new(
        store: AlertStore,
        ttl: Duration,
        clock: Arc<dyn Clock>,
        rng: Arc<Rng>,
        set_aside: SetAside,
    ) -> Self {
        Self { store, ttl, found: Mutex::default(), clock, rng, set_aside }
    }

    /// Reads every infected attachment, page by page.
    ///
    /// # Errors
    /// [`DbError`]; submissions detected by then are alerted.
    pub async fn look(&self) -> Result<(), DbError> {
        let (mut after, mut routed) = (None, 0);
        loop {
            let page = self.store.late_infections(after, PAGE).await?;
            routed += page.routed;
            let mut found = self.found();
            let room = KEPT.saturating_sub(found.len());
            found.extend(page.unnotified.into_iter().take(room));
            drop(found);
            after = page.next;
            if after.is_none() {
                metrics::INFECTED_AFTER_ROUTING.set((), routed);
                return Ok(());
            }
        }
    }

    /// Looks about `every`, and more rarely where a look takes long, until it is aborted.
    pub async fn run(&self, every: Duration) {
        loop {
            let began = self.clock.monotonic();
            if let Err(error) = self.look().await {
                tracing::warn!(
                    "whether an attachment was found infected after it was sent is not known, it is looked for again: {}",
                    scrub(&error.to_string())
                );
            }
            let took = self.clock.monotonic().saturating_duration_since(began);
            self.clock.sleep(every.max(took * REST)).await;
        }
    }

    async fn leased(&self) -> Result<Option<AlertLease>, DbError> {
        let rows: Vec<Uuid> = self.found().iter().take(LEASED).copied().collect();
        let token = self.rng.uuid();
        let late = self.store.lease_late(&rows, token, self.ttl).await?;
        // A row not leased is alerted by another daemon, or over; otherwise it is detected again.
        let mut found = self.found();
        rows.iter().for_each(|id| {
            found.remove(id);
        });
        let more = !found.is_empty();
        drop(found);
        let Some(story) = story(&late) else { return Ok(None) };
        let rows = late.into_iter().map(|late| late.id).collect();
        Ok(Some(AlertLease { token, rows, more, story }))
    }

    fn found(&self) -> MutexGuard<'_, BTreeSet<Uuid>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Failures for LateInfections {
    fn unalerted(&self) -> BoxFuture<'_, Result<Vec<Unalerted>, LedgerTrouble>> {
        async {
            let count = u64::try_from(self.found().len()).unwrap_or(u64::MAX);
            let causes = (count > 0).then(|| Unalerted { cause: CAUSE.to_owned(), count });
            Ok(causes.into_iter().collect())
        }
        .boxed()
    }

    fn lease<'a>(&'a self, _cause: &'a str) -> BoxFuture<'a, Result<Option<AlertLease>, LedgerTrouble>> {
        async move { self.leased().await.map_err(trouble) }.boxed()
    }

    fn confirm<'a>(&'a self, lease: &'a AlertLease) -> BoxFuture<'a, Result<usize, LedgerTrouble>> {
        let confirm = move |rows: Vec<Uuid>| async move { self.store.confirm_late(lease.token, &rows).await };
        async move { recorded(&*self.clock, &self.set_aside, lease, confirm).await.map_err(trouble) }.boxed()
    }

    fn give_back<'a>(&'a self, lease: &'a AlertLease) -> BoxFuture<'a, Result<(), LedgerTrouble>> {
        let give_back =
            move |rows: Vec<Uuid>| async move { self.store.give_back_late(lease.token, &rows).await };
        async move {
            recorded(&*self.clock, &self.set_aside, lease, give_back).await.map_err(trouble)?;
            // Rows without a notification.
            let mut found = self.found();
            let room = KEPT.saturating_sub(found.len());
            found.extend(lease.rows.iter().take(room));
            Ok(())
        }
        .boxed()
    }
}

/// Text of the alert; `None` without rows. Pure.
fn story(late: &[Late]) -> Option<Story> {
    let shown = late.iter().max_by_key(|late| (late.links, late.id))?;
    let forms = late.iter().map(|late| &late.form_id).collect::<BTreeSet<_>>().len();
    let others = match forms {
        ..=1 => String::new(),
        2 => " and 1 other form".to_owned(),
        forms => format!(" and {} other forms", forms - 1),
    };
    let sent = shown
        .sent
        .map_or_else(String::new, |sent| format!("; its last mail was accepted {} ago", span(sent)));
    let links = if shown.links.is_zero() {
        "links in its mails have run out by now; a file inside stays where it is".to_owned()
    } else {
        format!(
            "links in its mails work for up to {} more, unless they are recalled (links revoke); a file inside stays where it is",
            span(shown.links)
        )
    };
    Some(Story {
        what: "an attachment was found infected after it was sent (rb-008)".to_owned(),
        details: vec![format!("form {}{others}{sent}", shown.form_id), links],
        commands: vec![
            format!("maple-router explain {}", shown.id),
            "maple-router list --infected-after-routing".to_owned(),
        ],
        runbook: Runbook { file: "rb-008-infected-attachment.md", section: CAUSE },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_whose_links_live_longest_is_shown_and_nobody_is_named() {
        let late = |n, form: &str, links| Late {
            id: Uuid::from_u128(n),
            form_id: form.to_owned(),
            sent: Some(Duration::from_secs(180)),
            links: Duration::from_secs(links),
        };
        let notice_of = |late: &[Late]| {
            let story = story(late).expect("something to tell");
            [vec![story.what], story.details, story.commands, vec![story.runbook.to_string()]]
                .concat()
                .join("\n")
        };
        assert_eq!(story(&[]), None);
        insta::assert_snapshot!(
            [notice_of(&[late(1, "contact", 60), late(7, "jobs", 86_000)]), notice_of(&[late(1, "contact", 0)])].join("\n\n"),
            @r"
        an attachment was found infected after it was sent (rb-008)
        form jobs and 1 other form; its last mail was accepted 3 min ago
        links in its mails work for up to 23 h 53 min more, unless they are recalled (links revoke); a file inside stays where it is
        maple-router explain 00000000-0000-0000-0000-000000000007
        maple-router list --infected-after-routing
        /usr/share/doc/maple-router/runbooks/rb-008-infected-attachment.md, section infected_after_routing

        an attachment was found infected after it was sent (rb-008)
        form contact; its last mail was accepted 3 min ago
        links in its mails have run out by now; a file inside stays where it is
        maple-router explain 00000000-0000-0000-0000-000000000001
        maple-router list --infected-after-routing
        /usr/share/doc/maple-router/runbooks/rb-008-infected-attachment.md, section infected_after_routing
        "
        );
    }
}
