//! The queue: a list whose filters are the URL, its rows for the script, and the way to the next entry.

use axum::extract::{RawQuery, State};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use jiff::Timestamp;
use url::form_urlencoded;
use uuid::Uuid;

use super::{Shared, Site, html, words, written};
use crate::desk::access::{Role, Visitor};
use crate::desk::confined::narrow;
use crate::desk::filters;
use crate::desk::pages::decision::Command;
use crate::desk::pages::frame::Problem as Told;
use crate::desk::pages::queue::{BulkTyped, Choice, QueueChoices, QueueFilters, QueuePage, QueueRows};
use crate::desk::problem::Problem;
use crate::grey_queue::entry::Entry;
use crate::grey_queue::store::{Cursor, Filter, Order, Whose};
use crate::grey_queue::table::State as EntryState;

/// Entries of a page.
const PAGE: usize = 50;
/// Rows that the script may ask for at once.
const ROWS: usize = 100;
/// Commands that several entries can be given at once.
const BULK: [Command; 6] = [
    Command::Assign,
    Command::Unassign,
    Command::Resolve,
    Command::Reject,
    Command::Dismiss,
    Command::Reopen,
];

/// What a URL asks for.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked {
    pub(super) filter: Filter,
    pub(super) shown: QueueFilters,
    after: Option<Cursor>,
    pub(super) problems: Vec<Told>,
    ids: Vec<Uuid>,
}

impl Asked {
    /// Reads a query; `me` is whoever asks. What is empty was not filled in; what is not known is no filter.
    pub(super) fn of(query: &str, me: &str) -> Self {
        let mut asked = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if !value.is_empty() {
                asked.take(&name, &value, me);
            }
        }
        asked
    }

    fn take(&mut self, name: &str, value: &str, me: &str) {
        match name {
            "cursor" => match value.parse() {
                Ok(cursor) => self.after = Some(cursor),
                Err(error) => self.refuse(format!("The page cannot be found: {error}."), None),
            },
            "ids" => self.ids = value.split(',').filter_map(|id| id.parse().ok()).take(ROWS).collect(),
            _ => {
                if let Err(problem) = filters::set(&mut self.filter, name, value, me) {
                    let field = if name == "older_than" { "f-older".to_owned() } else { format!("f-{name}") };
                    self.refuse(problem.detail().to_owned(), Some(field));
                }
                self.show(name, value);
            }
        }
    }

    fn refuse(&mut self, text: String, field: Option<String>) {
        self.problems.push(Told { text, field });
    }

    fn show(&mut self, name: &str, value: &str) {
        let (shown, text) = (&mut self.shown, Some(value.to_owned()));
        match name {
            "state" => shown.states.extend(value.split(',').map(str::to_owned)),
            "cause" => shown.cause = text,
            "reason" => shown.reason = text,
            "form" => shown.form = text,
            "queue" => shown.queue = text,
            "assignee" => shown.assignee = text,
            "subject" => shown.subject = value.parse().ok(),
            "older_than" => shown.older_than = text,
            "order" => shown.order = text,
            _ => {}
        }
    }
}

pub(super) async fn home(_: Visitor) -> Redirect {
    Redirect::to("/queue")
}

pub(super) async fn list(
    State(site): Shared,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let asked = Asked::of(query.as_deref().unwrap_or_default(), &visitor.user);
    let wrong = asked.problems.first().map(|problem| problem.text.clone());
    let page = written(&page(&site, &visitor, asked).await?)?;
    Ok(match wrong {
        Some(what) => Problem::bad_request(what).page(page),
        None => Html(page).into_response(),
    })
}

/// The page of what is asked for; with a filter that cannot be understood, of the others.
pub(super) async fn page(site: &Site, visitor: &Visitor, asked: Asked) -> Result<QueuePage, Problem> {
    let Asked { mut filter, shown, after, problems, .. } = asked;
    narrow(&mut filter, visitor);
    let store = &site.commands().store;
    let listed = store.list(&filter, PAGE, after.as_ref()).await?;
    let counts = store.counts(&filter).await?;
    let all = if shown == QueueFilters::default() {
        counts.clone()
    } else {
        let mut every = Filter::default();
        narrow(&mut every, visitor);
        store.counts(&every).await?
    };
    // Names of forms are no matter of whoever sees one queue alone.
    let forms = match visitor.only_queue() {
        None => site.reader()?.view().forms().await?,
        Some(_) => Vec::new(),
    };
    let mut frame = Site::frame(visitor, listed.as_of);
    frame.problems = problems;
    Ok(QueuePage {
        frame,
        filters: shown,
        choices: choices(site, &forms, Filter { order: None, ..filter }.ordered()),
        summary: words::counts(&counts),
        entries: listed.items.iter().map(words::line).collect(),
        next_cursor: listed.next_cursor,
        is_first: after.is_none(),
        open_in_all: all.iter().map(|(_, count)| count).sum(),
        bulk: if visitor.role >= Role::Reviewer { BULK.to_vec() } else { Vec::new() },
        typed: BulkTyped::default(),
        idempotency_key: site.key(),
    })
}

fn choices(site: &Site, forms: &[String], default: Order) -> QueueChoices {
    let reviewers = site.users.all().into_iter().filter(|user| user.role >= Role::Reviewer);
    QueueChoices {
        causes: words::causes(),
        reasons: words::reasons(),
        forms: forms.iter().map(|form| words::choice(form, form)).collect(),
        queues: ["operations", "security", "screening", "grading"]
            .map(|queue| words::choice(queue, queue))
            .to_vec(),
        people: reviewers.map(|user| words::choice(&user.name, &user.name)).collect::<Vec<Choice>>(),
        orders: orders(default),
    }
}

/// The orders, that of the list without one before the others.
fn orders(default: Order) -> Vec<Choice> {
    let mut orders = Order::ALL.to_vec();
    orders.sort_by_key(|order| *order != default);
    let words = |order: &Order| match order {
        Order::Oldest => "The oldest first",
        Order::Newest => "The youngest first",
        Order::Priority => "The most urgent first",
    };
    orders.iter().map(|order| words::choice(order.label(), words(order))).collect()
}

/// The rows of some ids, as far as they fit the filters.
pub(super) async fn rows(
    State(site): Shared,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Html<String>, Problem> {
    let mut asked = Asked::of(query.as_deref().unwrap_or_default(), &visitor.user);
    narrow(&mut asked.filter, &visitor);
    let store = &site.commands().store;
    let (entries, now) = (store.some(&asked.ids).await?, store.time().await?);
    let fitting = entries.iter().filter(|entry| fits(&asked.filter, entry, now));
    html(&QueueRows {
        now,
        filters: asked.shown.clone(),
        entries: fitting.map(words::line).collect(),
        selectable: visitor.role >= Role::Reviewer,
    })
}

/// Whether the list's statement would have this entry.
fn fits(filter: &Filter, entry: &Entry, now: Timestamp) -> bool {
    let is = |wanted: &Option<String>, has: Option<&str>| wanted.is_none() || wanted.as_deref() == has;
    let state = filter.all_states
        || filter.states.contains(&entry.state)
        || filter.states.is_empty() && entry.state.is_open();
    let whose = match &filter.whose {
        None => true,
        Some(Whose::Nobodys) => entry.assignee.is_none(),
        Some(Whose::Of(name)) => entry.assignee.as_ref() == Some(name),
    };
    let old = filter.older_than.is_none_or(|age| {
        std::time::Duration::try_from(now.duration_since(entry.opened_at)).is_ok_and(|open| open > age)
    });
    state
        && whose
        && old
        && is(&filter.cause, Some(&entry.cause))
        && is(&filter.reason, Some(&entry.reason))
        && is(&filter.form, entry.form_id.as_deref())
        && is(&filter.queue, Some(&entry.queue))
        && filter.subject.is_none_or(|subject| subject == entry.subject.id)
}

pub(super) async fn next(State(site): Shared, visitor: Visitor) -> Result<Redirect, Problem> {
    let next = next_of(&site, &visitor, None, "").await?;
    Ok(Redirect::to(&next.map_or_else(|| "/queue".to_owned(), |id| format!("/entries/{id}"))))
}

/// The entry that waits longest for somebody of this role in the list that this query chooses, other than `but`.
pub(super) async fn next_of(
    site: &Site,
    visitor: &Visitor,
    but: Option<Uuid>,
    list: &str,
) -> Result<Option<Uuid>, Problem> {
    if visitor.role < Role::Instructor {
        return Ok(None);
    }
    let mut filter = Asked::of(list, &visitor.user).filter;
    narrow(&mut filter, visitor);
    if filter.states.is_empty() && !filter.all_states {
        filter.states = vec![EntryState::Pending];
    }
    if visitor.role == Role::Reviewer && filter.queue.is_none() {
        filter.queue = Some("operations".to_owned());
    }
    let waiting = site.commands().store.list(&filter, 2, None).await?;
    Ok(waiting.items.into_iter().map(|entry| entry.id).find(|id| Some(*id) != but))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_empty_is_no_filter_and_what_is_wrong_is_told_at_its_field() {
        let asked = Asked::of("state=Pending&state=UnderReview&cause=&form=a%26b&done=resolve", "anna");
        assert_eq!(asked.shown.states, ["Pending", "UnderReview"]);
        assert_eq!(asked.filter.states.len(), 2);
        assert_eq!((asked.shown.cause.as_deref(), asked.filter.form.as_deref()), (None, Some("a&b")));
        assert!(asked.problems.is_empty(), "{:?}", asked.problems);
        let wrong = Asked::of("older_than=soon&state=Melting&cursor=x&assignee=me", "anna");
        let fields: Vec<_> = wrong.problems.iter().map(|problem| problem.field.as_deref()).collect();
        assert_eq!(fields, [Some("f-older"), Some("f-state"), None]);
        assert_eq!(wrong.filter.whose, Some(Whose::Of("anna".to_owned())));
        assert_eq!(wrong.shown.older_than.as_deref(), Some("soon"), "what was typed stays");
    }
}
