//! What is asked for, and doing it: a ticket made, read, tagged or found, a list given.
//!
//! Documented: paths with their slash at the end, `page` from 1, `size` 10 and at most 50, `status` `_all` (the default) or
//! `_pending` or an id, `fields`, the page's own description, and the tags' `add`, `remove` and `staff_id` (knowledge base,
//! article 1039). Guessed: a `size` beyond 50 and an unknown parameter are refused (the service may lower and ignore them), a
//! page behind the last one is empty, the newest ticket comes first, 404 for what is not there. Not spoken: `sort`,
//! `category` and `minify_response` of a list, `show_cf_changes`.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::Response;
use serde_json::{Value, json};
use url::form_urlencoded;

use super::account::{Account, STATUS};
use super::answer;
use super::desk::{Desk, count, now, real_time};
use super::draft::{Draft, judge};
use super::lock::lock;
use super::payload::{Payload, split};
use super::refusal::{NO_CHOICE, REQUIRED, Refusal};
use super::rules::{Act, Call};
use super::search::Query;
use super::ticket::Ticket;

/// What every path begins with.
pub(super) const BASE: &str = "/api/1.1/json/";
/// Tickets on a page that names no size.
const SIZE: usize = 10;
/// Most tickets on a page.
const MOST: usize = 50;
/// Numbers of tickets that nobody made start here.
const STRANGERS: u64 = 900_000;

/// What the method and the path ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Create,
    List,
    Ticket(u64),
    Tags(u64),
    Categories,
    TicketFields,
    ContactFields,
    Priorities,
    Statuses,
    Staff,
    /// There is such a path, with another method.
    OtherMethod,
    Nothing,
}

impl Asked {
    pub(super) fn of(method: &Method, path: &str) -> Self {
        let path = path.strip_prefix(BASE).unwrap_or_default();
        let number = |text: &str| text.parse().ok().filter(|id: &u64| id.to_string() == text);
        let parts: Vec<&str> = path.split('/').collect();
        let (get, post) = match parts.as_slice() {
            ["tickets", ""] => (Some(Self::List), Some(Self::Create)),
            ["ticket", id, ""] => (number(id).map(Self::Ticket), None),
            ["ticket", id, "update_tags", ""] => (None, number(id).map(Self::Tags)),
            ["categories", ""] => (Some(Self::Categories), None),
            ["ticket_custom_fields", ""] => (Some(Self::TicketFields), None),
            ["user_custom_fields", ""] => (Some(Self::ContactFields), None),
            ["priorities", ""] => (Some(Self::Priorities), None),
            ["statuses", ""] => (Some(Self::Statuses), None),
            ["staff", ""] => (Some(Self::Staff), None),
            _ => (None, None),
        };
        let asked = if *method == Method::GET {
            get
        } else if *method == Method::POST {
            post
        } else {
            None
        };
        asked.unwrap_or(if get.or(post).is_some() { Self::OtherMethod } else { Self::Nothing })
    }

    /// What rules call it.
    pub(super) fn call(self) -> Call {
        match self {
            Self::Create => Call::Create,
            Self::List => Call::Search,
            Self::Ticket(_) => Call::Ticket,
            Self::Tags(_) => Call::Tags,
            Self::Categories => Call::Categories,
            Self::TicketFields => Call::TicketFields,
            Self::ContactFields => Call::ContactFields,
            Self::Priorities | Self::Statuses | Self::Staff => Call::Reference,
            Self::OtherMethod | Self::Nothing => Call::Unknown,
        }
    }
}

/// Which part of which list.
#[derive(Debug, Clone)]
pub(super) struct Listing {
    query: Query,
    status: Option<u64>,
    page: usize,
    size: usize,
    fields: Vec<String>,
}

/// A request that was read, and nothing done of it.
#[derive(Debug)]
pub(super) enum Work {
    Create(Payload),
    Tag { id: u64, add: Vec<String>, remove: Vec<String> },
    List(Listing),
    Ticket(u64),
    Reference(Asked),
}

/// What was done.
#[derive(Debug)]
pub(super) enum Done {
    Ticket(Arc<Ticket>),
    Found(Listing, Vec<Arc<Ticket>>),
    List(Value),
}

impl Done {
    /// How many tickets it is about.
    pub(super) fn tickets(&self) -> usize {
        match self {
            Self::Ticket(_) => 1,
            Self::Found(_, found) => found.len(),
            Self::List(_) => 0,
        }
    }
}

impl Work {
    /// Reads a request.
    pub(super) async fn read(asked: Asked, head: &Parts, body: Bytes, desk: &Desk) -> Result<Self, Refusal> {
        let query: Vec<(String, String)> =
            form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
        if let (false, Some((name, _))) = (asked == Asked::List, query.first()) {
            return Err(Refusal::of_field(
                name,
                "not a parameter of this path, or not spoken by this stand-in",
            ));
        }
        match asked {
            Asked::Create => Payload::read(&head.headers, body).await.map(Self::Create),
            Asked::Tags(id) => Self::tags_of(id, &Payload::read(&head.headers, body).await?),
            Asked::List => Listing::read(query, &lock(&desk.account)).map(Self::List),
            Asked::Ticket(id) => Ok(Self::Ticket(id)),
            Asked::OtherMethod => Err(Refusal::whole(405, "Method Not Allowed")),
            Asked::Nothing => Err(Refusal::whole(404, "Not Found")),
            Asked::Categories
            | Asked::TicketFields
            | Asked::ContactFields
            | Asked::Priorities
            | Asked::Statuses
            | Asked::Staff => Ok(Self::Reference(asked)),
        }
    }

    fn tags_of(id: u64, payload: &Payload) -> Result<Self, Refusal> {
        let mut lists = [Vec::new(), Vec::new()];
        let mut agent = None;
        for (name, value) in &payload.fields {
            match (name.as_str(), value) {
                ("add", Value::String(tags)) => lists[0] = split(tags),
                ("remove", Value::String(tags)) => lists[1] = split(tags),
                ("staff_id", Value::Number(number)) => agent = number.as_u64(),
                ("staff_id", Value::String(text)) if payload.is_form => agent = text.parse().ok(),
                _ => return Err(Refusal::of_field(name, "no such field, or not a string")),
            }
        }
        match agent {
            None => Err(Refusal::of_field("staff_id", REQUIRED)),
            Some(agent) if !Account::has_agent(agent) => Err(Refusal::of_field("staff_id", NO_CHOICE)),
            Some(_) => {
                let [add, remove] = lists;
                Ok(Self::Tag { id, add, remove })
            }
        }
    }

    /// The tags it is about.
    pub(super) fn tags(&self) -> Vec<String> {
        match self {
            Self::Create(payload) => payload.tags(),
            Self::Tag { add, remove, .. } => add.iter().chain(remove).cloned().collect(),
            Self::List(listing) => listing.query.tags(),
            Self::Ticket(_) | Self::Reference(_) => Vec::new(),
        }
    }

    /// The subject of a ticket that is to be made.
    pub(super) fn subject(&self) -> Option<String> {
        match self {
            Self::Create(payload) => payload.text("subject").map(str::to_owned),
            Self::Tag { .. } | Self::List(_) | Self::Ticket(_) | Self::Reference(_) => None,
        }
    }

    /// Does it.
    pub(super) fn carry_out(self, desk: &Desk) -> Result<Done, Refusal> {
        let missing = || Refusal::whole(404, "Not Found");
        match self {
            Self::Create(payload) => {
                let draft: Draft = judge(payload, &lock(&desk.account), desk.files_limit)?;
                let ticket = desk.store.make(draft, now(), real_time());
                count(&desk.tally.made);
                Ok(Done::Ticket(ticket))
            }
            Self::Tag { id, add, remove } => {
                desk.store.tag(id, &add, &remove).map(Done::Ticket).ok_or_else(missing)
            }
            Self::Ticket(id) => desk.store.get(id).map(Done::Ticket).ok_or_else(missing),
            Self::List(listing) => {
                count(&desk.tally.searches);
                let found = listing.find(desk);
                Ok(Done::Found(listing, found))
            }
            Self::Reference(asked) => Ok(Done::List(reference(asked, &lock(&desk.account)))),
        }
    }
}

fn reference(asked: Asked, account: &Account) -> Value {
    match asked {
        Asked::Categories => account.categories_json(),
        Asked::TicketFields => account.ticket_fields_json(),
        Asked::ContactFields => account.contact_fields_json(),
        Asked::Priorities => Account::priorities_json(),
        Asked::Statuses => Account::statuses_json(),
        Asked::Staff => account.staff_json(),
        Asked::Create
        | Asked::List
        | Asked::Ticket(_)
        | Asked::Tags(_)
        | Asked::OtherMethod
        | Asked::Nothing => Value::Null,
    }
}

impl Listing {
    fn read(query: Vec<(String, String)>, account: &Account) -> Result<Self, Refusal> {
        let mut listing =
            Self { query: Query::default(), status: None, page: 1, size: SIZE, fields: Vec::new() };
        for (name, value) in query {
            let number = |most: usize| value.parse().ok().filter(|n| (1..=most).contains(n));
            let wrong = || Refusal::of_field(&name, "out of range, or no number");
            match name.as_str() {
                "q" => listing.query = Query::parse(&value, account)?,
                "page" => listing.page = number(usize::MAX / MOST).ok_or_else(wrong)?,
                "size" => listing.size = number(MOST).ok_or_else(wrong)?,
                // Every ticket here is new, so it is pending as well.
                "status" if value == "_all" || value == "_pending" => {}
                "status" => {
                    let id = value.parse().ok().filter(|id| Account::is_pending(*id).is_some());
                    listing.status = Some(id.ok_or_else(|| Refusal::of_field("status", NO_CHOICE))?);
                }
                "fields" => listing.fields = split(&value),
                _ => {
                    return Err(Refusal::of_field(
                        &name,
                        "no such parameter, or not spoken by this stand-in",
                    ));
                }
            }
        }
        Ok(listing)
    }

    /// The tickets of the whole list, newest first.
    fn find(&self, desk: &Desk) -> Vec<Arc<Ticket>> {
        if self.status.is_some_and(|status| status != STATUS) {
            return Vec::new();
        }
        let account = lock(&desk.account).clone();
        let mut found = desk.store.indexed(now(), |ticket| self.query.finds(ticket, &account));
        found.reverse();
        found
    }

    fn to_json(&self, found: &[Arc<Ticket>], account: &Account) -> Value {
        let before = (self.page - 1) * self.size;
        let row = |ticket: &Arc<Ticket>| {
            let mut row = ticket.to_json(account);
            if let (false, Value::Object(fields)) = (self.fields.is_empty(), &mut row) {
                fields.retain(|name, _| self.fields.contains(name));
            }
            row
        };
        let rows: Vec<Value> = found.iter().skip(before).take(self.size).map(row).collect();
        answer::page(&rows, before, found.len(), self.size)
    }
}

/// Answers what was done, spoilt as a rule wants it.
pub(super) fn finish(desk: &Desk, done: Done, act: &Act) -> Response {
    let account = lock(&desk.account).clone();
    let mut body = match done {
        Done::Ticket(ticket) => ticket.to_json(&account),
        Done::List(list) => list,
        Done::Found(listing, found) => {
            let found = match act {
                Act::Strangers(count) => {
                    let stranger = |id| Arc::new(Ticket::of_a_stranger(STRANGERS + id, real_time()));
                    (1..=*count).map(stranger).collect()
                }
                Act::IgnoreQuery => Listing { query: Query::default(), ..listing.clone() }.find(desk),
                Act::Normal
                | Act::Status(_)
                | Act::Html(_)
                | Act::Redirect(_)
                | Act::Throttled(_)
                | Act::Disconnect
                | Act::Silence
                | Act::WithoutId
                | Act::WrongId
                | Act::Truncated => found,
            };
            listing.to_json(&found, &account)
        }
    };
    match act {
        Act::WithoutId => {
            if let Value::Object(fields) = &mut body {
                fields.remove("id");
            }
        }
        Act::WrongId => {
            if let Value::Object(fields) = &mut body {
                fields.insert("id".to_owned(), json!("not-a-number"));
            }
        }
        Act::Truncated => return answer::truncated(&body),
        Act::Normal
        | Act::Status(_)
        | Act::Html(_)
        | Act::Redirect(_)
        | Act::Throttled(_)
        | Act::Disconnect
        | Act::Silence
        | Act::Strangers(_)
        | Act::IgnoreQuery => {}
    }
    answer::json(200, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_exact() {
        let of = |method: &Method, path: &str| Asked::of(method, &format!("/api/1.1/json/{path}"));
        assert_eq!(of(&Method::POST, "tickets/"), Asked::Create);
        assert_eq!(of(&Method::GET, "tickets/"), Asked::List);
        assert_eq!(of(&Method::GET, "ticket/7/"), Asked::Ticket(7));
        assert_eq!(of(&Method::POST, "ticket/7/update_tags/"), Asked::Tags(7));
        for path in ["tickets", "ticket/7", "ticket/07/", "ticket/-7/", "ticket//", "", "users/"] {
            assert_eq!(of(&Method::GET, path), Asked::Nothing, "{path}");
        }
        for (method, path) in
            [(Method::PUT, "tickets/"), (Method::POST, "ticket/7/"), (Method::POST, "categories/")]
        {
            assert_eq!(of(&method, path), Asked::OtherMethod, "{path}");
        }
        assert_eq!(Asked::of(&Method::GET, "/api/1.1/yaml/tickets/"), Asked::Nothing);
    }
}
