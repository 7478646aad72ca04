//! One decision for several entries, as the API's bulk carries it out: what somebody changed meanwhile is left alone and listed.
//! Repeated under the same key, the answer is given again.

use axum::extract::State;
use axum::response::{Html, IntoResponse as _, Response};
use serde_json::Value;
use uuid::Uuid;

use super::actions::sentence;
use super::queue::{self, Asked};
use super::{Shared, Site, written};
use crate::desk::access::{Role, Visitor};
use crate::desk::bulk::{Bulk, BulkOutcome, MOST, Selected, Selection, carry_out};
use crate::desk::decide::{Repeat, person};
use crate::desk::input::Command;
use crate::desk::pages::decision::Command as Offered;
use crate::desk::pages::frame::{Draft, Flash, Problem as Told, Tone};
use crate::desk::pages::plain;
use crate::desk::pages::queue::BulkTyped;
use crate::desk::problem::Problem;
use crate::grey_queue::decide::{Ask, Verb};

/// What the bar over the queue sends.
#[derive(Debug, Default)]
struct Posted {
    filters: String,
    entries: Vec<Selected>,
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
            ids: self.entries.iter().map(|entry| entry.id).collect(),
            command: Offered::parse(&self.command),
            reason: self.reason.clone(),
        }
    }
}

fn seen(value: &str) -> Result<Selected, Problem> {
    let parsed = value
        .split_once(':')
        .and_then(|(id, version)| Some(Selected { id: id.parse().ok()?, version: version.parse().ok()? }));
    parsed.ok_or_else(|| Problem::bad_request("A selected entry is ID:VERSION."))
}

/// What became of each entry.
#[derive(Debug, Default)]
struct Tally {
    done: usize,
    left: Vec<(Uuid, String)>,
}

impl Tally {
    /// The tally of an answer that was given before.
    fn of(answer: &Value) -> Self {
        let list = |name: &str| answer.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        let text = |item: &Value, name: &str| item.get(name).and_then(Value::as_str).map(str::to_owned);
        let left = |item: &Value| Some((text(item, "id")?.parse().ok()?, text(item, "why")?));
        Self { done: list("changed").len(), left: list("skipped").iter().filter_map(left).collect() }
    }
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
    let tally = given(&site, &visitor, &posted, verb, &sent).await?;
    let asked = Asked::of(&posted.filters, &visitor.user);
    told(&site, &visitor, asked, &posted, tally).await
}

async fn given(
    site: &Site,
    visitor: &Visitor,
    posted: &Posted,
    verb: Verb,
    sent: &Command<Vec<(String, String)>>,
) -> Result<Tally, Problem> {
    let by = person(visitor);
    let reason = Some(posted.reason.clone()).filter(|reason| !reason.trim().is_empty());
    let ask = Ask { reason, ..Ask::plain(verb) };
    let bulk = Bulk {
        selection: &Selection::These(posted.entries.clone()),
        ask: &ask,
        by: &by,
        repeat: sent.key.as_ref().map(|key| Repeat { key, request: &sent.request }),
    };
    match carry_out(site.commands(), &bulk).await? {
        BulkOutcome::Done(report) => Ok(Tally {
            done: report.changed.len(),
            left: report.skipped.into_iter().map(|item| (item.id, item.why)).collect(),
        }),
        BulkOutcome::Repeated(kept) => Ok(Tally::of(&kept.response)),
        BulkOutcome::KeyMismatch => Err(Problem::idempotency_mismatch()),
        BulkOutcome::SelectionChanged { expected, matched } => {
            Err(Problem::selection_changed(expected, matched))
        }
    }
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
