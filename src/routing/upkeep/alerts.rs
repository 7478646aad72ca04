//! Failures for the alerter: those without an alert, their leases, and their texts.
//!
//! Several daemons share the rows: a lease keeps them from alerting the same ones. If we die after Slack's ok and before
//! the confirmation, the lease ends and people are notified again: at least once, never not at all. An alert names a
//! submission, its form, a stage and a code; never a recipient.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::db::DbError;
use crate::ops::alerting::message::span;
use crate::ops::rng::Rng;
use crate::ops::set_aside::{SetAside, Writing};
use crate::ports::{AlertLease, Clock, Failures, LedgerTrouble, Story, Unalerted};
use crate::routing::outages::named;
use crate::routing::store::alerts::{AlertStore, Confirmed, Sample};
use crate::routing::submission::cause::{Cause, anonymous};
use crate::routing::submission::text::{bounded, one_line};
use crate::scrub::scrub;

/// Longest part of a reply that is shown, in characters.
const MAX_REPLY: usize = 160;
/// Number of tries of a row locked elsewhere, with this pause between them.
const BUSY_TRIES: usize = 5;
const BUSY_PAUSE: Duration = Duration::from_millis(200);

/// The failures in the rows.
#[derive(Debug)]
pub struct FailureAlerts {
    /// Store of the rows.
    pub store: AlertStore,
    /// Clock of pauses.
    pub clock: Arc<dyn Clock>,
    /// Source of lease tokens.
    pub rng: Arc<Rng>,
    /// Rows that refuse a write.
    pub set_aside: SetAside,
}

impl FailureAlerts {
    async fn leased(&self, cause: &str) -> Result<Option<AlertLease>, DbError> {
        let token = self.rng.uuid();
        let resting = self.set_aside.resting(Writing::Alert);
        let leased = self.store.lease(cause, token, &resting).await?;
        // A lease does not prove that the row takes the confirmation: only a confirmation ends its rest.
        self.set_aside.note(Writing::Alert, [], &named(&leased.refused));
        if leased.rows.is_empty() {
            return Ok(None);
        }
        // Without a sample the message has less detail, and is still right.
        let sample = self.store.sample(&leased.rows).await.ok().flatten();
        let story = story(&Cause::of(cause), sample.as_ref());
        Ok(Some(AlertLease { token, rows: leased.rows, more: leased.more, story }))
    }
}

/// Writes to the leased rows, to busy ones a little later. A row that stays busy is alerted again when its lease ends;
/// one that refuses the write is set aside.
pub(super) async fn recorded<Confirming>(
    clock: &dyn Clock,
    set_aside: &SetAside,
    lease: &AlertLease,
    record: impl Fn(Vec<uuid::Uuid>) -> Confirming,
) -> Result<usize, DbError>
where
    Confirming: Future<Output = Result<Confirmed, DbError>>,
{
    let (mut done, mut rest) = (0, lease.rows.clone());
    for again in 0..BUSY_TRIES {
        if again > 0 {
            clock.sleep(BUSY_PAUSE).await;
        }
        let Confirmed { recorded, busy, refused } = record(rest.clone()).await?;
        done += recorded;
        rest.retain(|id| !busy.contains(id) && !refused.iter().any(|refused| refused.id == *id));
        set_aside.note(Writing::Alert, rest, &named(&refused));
        rest = busy;
        if rest.is_empty() {
            break;
        }
    }
    Ok(done)
}

impl Failures for FailureAlerts {
    fn unalerted(&self) -> BoxFuture<'_, Result<Vec<Unalerted>, LedgerTrouble>> {
        async { self.store.unalerted().await.map_err(trouble) }.boxed()
    }

    fn lease<'a>(&'a self, cause: &'a str) -> BoxFuture<'a, Result<Option<AlertLease>, LedgerTrouble>> {
        async move { self.leased(cause).await.map_err(trouble) }.boxed()
    }

    fn confirm<'a>(&'a self, lease: &'a AlertLease) -> BoxFuture<'a, Result<usize, LedgerTrouble>> {
        let confirm =
            move |rows: Vec<uuid::Uuid>| async move { self.store.confirm(lease.token, &rows).await };
        async move { recorded(&*self.clock, &self.set_aside, lease, confirm).await.map_err(trouble) }.boxed()
    }

    fn give_back<'a>(&'a self, lease: &'a AlertLease) -> BoxFuture<'a, Result<(), LedgerTrouble>> {
        let give_back =
            move |rows: Vec<uuid::Uuid>| async move { self.store.give_back(lease.token, &rows).await };
        async move { recorded(&*self.clock, &self.set_aside, lease, give_back).await.map(drop).map_err(trouble) }.boxed()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn trouble(error: DbError) -> LedgerTrouble {
    LedgerTrouble(scrub(&error.to_string()))
}

/// Text of an alert. Pure.
fn story(cause: &Cause<'_>, sample: Option<&Sample>) -> Story {
    let mut story = Story {
        what: cause.words(),
        details: Vec::new(),
        commands: vec![cause.listing()],
        runbook: cause.runbook(),
    };
    let Some(sample) = sample else { return story };
    // A cause without a stage has no server's reply.
    let said = sample.said.as_ref().filter(|_| !cause.details.is_empty());
    if let Some(said) =
        said.map(|(key, reply)| anonymous(&one_line(reply), key)).filter(|said| !said.is_empty())
    {
        story.details.push(format!("one reply: {}", bounded(said, MAX_REPLY)));
    }
    let others = match sample.forms {
        ..=1 => String::new(),
        2 => " and 1 other form".to_owned(),
        forms => format!(" and {} other forms", forms - 1),
    };
    story.details.push(format!(
        "form {}{others}; the oldest failed {} ago",
        sample.form_id,
        span(sample.age)
    ));
    story.commands.insert(0, format!("maple-router explain {}", sample.id));
    story
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_story_names_a_submission_and_nobody() {
        let sample = |forms, said: Option<(&str, &str)>| Sample {
            id: Uuid::from_u128(7),
            form_id: "contact".to_owned(),
            age: Duration::from_secs(720),
            forms,
            said: said.map(|(key, reply)| (key.to_owned(), reply.to_owned())),
        };
        let details = |key, sample: Option<Sample>| {
            let story = story(&Cause::of(key), sample.as_ref());
            let lines = [vec![story.what], story.details, story.commands, vec![story.runbook.to_string()]];
            lines.concat().join("\n")
        };
        let refused = Some(("1|bob@x.test", "<bob@x.test>: no mailbox\r\n for Bob here"));
        insta::assert_snapshot!([
            details("refused|RCPT|550|5.1.1", Some(sample(3, refused))),
            details("exhausted|connect||", Some(sample(2, Some(("1|bob@x.test", ""))))),
            details("infected", Some(sample(1, refused))),
            details("no_actions", None),
        ].join("\n\n"), @r"
        submission failed: a delivery was refused for good (RCPT 550 5.1.1)
        one reply: <address>: no mailbox for … here
        form contact and 2 other forms; the oldest failed 12 min ago
        maple-router explain 00000000-0000-0000-0000-000000000007
        maple-router list --status failed --reason-code refused
        /usr/share/doc/maple-router/runbooks/rb-009-routing-failure.md, section refused

        submission failed: its attempts are spent and something is still open (connect)
        form contact and 1 other form; the oldest failed 12 min ago
        maple-router explain 00000000-0000-0000-0000-000000000007
        maple-router list --status failed --reason-code exhausted
        /usr/share/doc/maple-router/runbooks/rb-009-routing-failure.md, section exhausted

        submission failed: an attachment is infected (rb-008)
        form contact; the oldest failed 12 min ago
        maple-router explain 00000000-0000-0000-0000-000000000007
        maple-router list --status failed --reason-code infected
        /usr/share/doc/maple-router/runbooks/rb-008-infected-attachment.md, section infected

        submission failed: its form has no actions
        maple-router list --status failed --reason-code no_actions
        /usr/share/doc/maple-router/runbooks/rb-009-routing-failure.md, section no_actions
        ");
    }
}
