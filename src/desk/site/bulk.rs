//! One decision for several entries, each in the version that was seen and in a transaction of its own: what somebody changed
//! meanwhile is left alone and listed. Repeated under the same key, each is carried out once. If we die in between, the entries
//! before are decided, and a repetition decides the rest.

use axum::extract::State;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use uuid::Uuid;

use super::actions::sentence;
use super::queue::{self, Asked};
use super::{Shared, Site, written};
use crate::desk::access::{Role, Visitor};
use crate::desk::decide::{Decision, Outcome, Repeat, decide, person};
use crate::desk::idempotency::Key;
use crate::desk::input::Command;
use crate::desk::pages::decision::Command as Offered;
use crate::desk::pages::frame::{Draft, Flash, Problem as Told, Tone};
use crate::desk::pages::plain;
use crate::desk::pages::queue::BulkTyped;
use crate::desk::problem::Problem;
use crate::grey_queue::decide::{Ask, Verb};

/// Entries of one decision.
const MOST: usize = 200;

/// What the bar over the queue sends.
#[derive(Debug, Default)]
struct Posted {
    filters: String,
    entries: Vec<(Uuid, i64)>,
    command: String,
    reason: String,
}

impl Posted {
    fn of(fields: &[(String, String)]) -> Result<Self, Problem> {
        let mut posted = Self::default();
        for (name, value) in fields {
            match name.as_str() {
                "filters" => posted.filters.clone_from(value),
                "command" => posted.command.clone_from(value),
                "reason" => posted.reason.clone_from(value),
                "entry" => posted.entries.push(seen(value)?),
                _ => {}
            }
        }
        if posted.entries.len() > MOST {
            return Err(Problem::bad_request(format!("At most {MOST} entries are decided at once.")));
        }
        Ok(posted)
    }

    fn typed(&self) -> BulkTyped {
        BulkTyped {
            ids: self.entries.iter().map(|(id, _)| *id).collect(),
            command: Offered::parse(&self.command),
            reason: self.reason.clone(),
        }
    }
}

fn seen(value: &str) -> Result<(Uuid, i64), Problem> {
    let parsed =
        value.split_once(':').and_then(|(id, version)| Some((id.parse().ok()?, version.parse().ok()?)));
    parsed.ok_or_else(|| Problem::bad_request("A selected entry is ID:VERSION."))
}

/// What became of each entry.
#[derive(Debug, Default)]
struct Tally {
    done: usize,
    left: Vec<(Uuid, String)>,
}

pub(super) async fn apply(
    State(site): Shared,
    visitor: Visitor,
    sent: Command<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    visitor.must(Role::Reviewer)?;
    let posted = Posted::of(&sent.body)?;
    let Some(verb) = Verb::parse(&posted.command) else {
        return refused(&site, &visitor, &posted, "Choose what to do.", "command").await;
    };
    if posted.entries.is_empty() {
        return refused(&site, &visitor, &posted, "Select the entries first.", "rows").await;
    }
    let needs_reason = matches!(verb, Verb::Resolve | Verb::Reject | Verb::Dismiss | Verb::Reopen);
    if needs_reason && posted.reason.trim().is_empty() {
        return refused(&site, &visitor, &posted, "Say why: it is kept for those who ask later.", "reason")
            .await;
    }
    let tally = each(&site, &visitor, &posted, verb, &sent).await?;
    let asked = Asked::of(&posted.filters, &visitor.user);
    if tally.left.is_empty() && tally.done == 0 {
        return Ok(Redirect::to(&asked.shown.href()).into_response());
    }
    told(&site, &visitor, asked, &posted, tally).await
}

async fn each(
    site: &Site,
    visitor: &Visitor,
    posted: &Posted,
    verb: Verb,
    sent: &Command<Vec<(String, String)>>,
) -> Result<Tally, Problem> {
    let (by, mut tally) = (person(visitor), Tally::default());
    let reason = Some(posted.reason.clone()).filter(|reason| !reason.trim().is_empty());
    let ask = Ask { reason, ..Ask::plain(verb) };
    for (id, version) in &posted.entries {
        let key = match &sent.key {
            Some(key) => Some(Key::new(&format!("{}.{}", key.as_str(), id.simple()))?),
            None => None,
        };
        let repeat = key.as_ref().map(|key| Repeat { key, request: &sent.request });
        let decision = Decision { id: *id, version: *version, ask: &ask, by: &by, repeat };
        let why = match decide(site.commands(), &decision).await? {
            Outcome::Done { .. } | Outcome::Repeated(_) => {
                tally.done += 1;
                continue;
            }
            Outcome::KeyMismatch => "it was sent before with other words".to_owned(),
            Outcome::Conflict(conflict) => {
                format!("{} changed it meanwhile; it is {} now", conflict.by, conflict.entry.state)
            }
            Outcome::Refused(refusal) => refusal.to_string(),
            Outcome::Unknown => "it is not there".to_owned(),
        };
        tally.left.push((*id, why));
    }
    Ok(tally)
}

/// The queue again, with what was done and what was left alone.
async fn told(
    site: &Site,
    visitor: &Visitor,
    asked: Asked,
    posted: &Posted,
    tally: Tally,
) -> Result<Response, Problem> {
    let mut page = queue::page(site, visitor, asked).await?;
    let done = u64::try_from(tally.done).unwrap_or_default();
    page.frame.flash = Some(Flash {
        tone: if tally.left.is_empty() { Tone::Done } else { Tone::Warning },
        text: format!("{}: {} decided.", plain::plural(&done, "entry", "entries"), posted.command),
        accepted: tally.left.is_empty().then_some(Draft::Bulk),
        next: None,
    });
    if !tally.left.is_empty() {
        page.typed = posted.typed();
        page.typed.ids = tally.left.iter().map(|(id, _)| *id).collect();
    }
    let shown = |id: &Uuid| page.entries.iter().any(|entry| entry.id == *id);
    let left = tally.left.iter().map(|(id, why)| Told {
        text: format!("Entry {} was left alone: {}", plain::short(id), sentence(why)),
        field: shown(id).then(|| format!("row-{id}")),
    });
    page.frame.problems = left.collect();
    Ok(Html(written(&page)?).into_response())
}

/// The queue again, with what is missing.
async fn refused(
    site: &Site,
    visitor: &Visitor,
    posted: &Posted,
    what: &'static str,
    field: &str,
) -> Result<Response, Problem> {
    let mut page = queue::page(site, visitor, Asked::of(&posted.filters, &visitor.user)).await?;
    page.typed = posted.typed();
    page.frame.problems = vec![Told { text: what.to_owned(), field: Some(field.to_owned()) }];
    Ok(Problem::guard(field, what).page(written(&page)?))
}
