//! One decision about many entries.

use std::collections::BTreeSet;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use utoipa::ToSchema;

use super::command::remedy;
use super::content::{Content, Named, word};
use super::document::{BulkHeaders, DecidesMany};
use super::{ApiState, Decider, schema};
use crate::desk::access::{Role, Visitor};
use crate::desk::bulk::{self, MOST, Selected, Selection, carry_out, moment};
use crate::desk::filters;
use crate::desk::problem::Problem;
use crate::grey_queue::decide::{Ask, Verb};
use crate::grey_queue::store::Filter;
use crate::web::input::Object;

/// A command, and the entries that were seen: each with its version, or the filter that they matched with their number.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Bulk {
    /// The command, with its own members as for one entry.
    #[schema(value_type = String, schema_with = schema::verb)]
    command: Verb,
    /// Why; recorded.
    #[schema(max_length = 2000)]
    reason: Option<String>,
    /// `assign`, `de-escalate`: who is to review them.
    assignee: Option<String>,
    /// `assign`: take them from whoever has them.
    take_over: Option<bool>,
    /// `escalate`: what the security team is asked.
    #[schema(max_length = 2000)]
    escalation_reason: Option<String>,
    /// `resolve`, `start`: what is to mend them.
    #[schema(schema_with = schema::remedy_or_none)]
    remedy: Option<String>,
    /// `resolve`, `start`: the delivery's key, for `force_delivery`.
    delivery: Option<String>,
    /// `resolve`: they are done, whatever the evidence.
    vouch: Option<bool>,
    /// The entries as they were seen.
    #[schema(value_type = Option<Vec<Item>>, min_items = 1, max_items = 200)]
    items: Option<Vec<Object<Selected>>>,
    /// Instead of `items`: what they matched.
    #[schema(value_type = Option<BulkFilter>)]
    filter: Option<Object<BulkFilter>>,
    /// `as_of` of the list that was seen: what was opened later is not meant.
    #[schema(value_type = Option<jiff::Timestamp>)]
    as_of: Option<String>,
    /// How many were seen.
    #[schema(maximum = 200)]
    expected: Option<u64>,
}

/// An entry as it was seen.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Item {
    /// The entry.
    id: uuid::Uuid,
    /// Its version.
    #[schema(schema_with = schema::version)]
    version: i64,
}

/// The parameters of the list.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct BulkFilter {
    /// States; none: the open ones; `all`: every state.
    state: Option<Vec<String>>,
    /// Cause.
    #[schema(min_length = 1, max_length = 255)]
    cause: Option<String>,
    /// The cause's own word.
    #[schema(min_length = 1, max_length = 255)]
    reason: Option<String>,
    /// Form.
    #[schema(min_length = 1, max_length = 255)]
    form: Option<String>,
    /// Queue.
    #[schema(min_length = 1, max_length = 255)]
    queue: Option<String>,
    /// `me`, `none`, or a user.
    #[schema(min_length = 1, max_length = 255)]
    assignee: Option<String>,
    /// The id of a submission or a dead letter.
    #[schema(value_type = Option<uuid::Uuid>)]
    subject: Option<String>,
    /// Opened longer ago than this, as `2h`.
    #[schema(pattern = "^[0-9]{1,5}[smhdw]$")]
    older_than: Option<String>,
}

/// Gives one command to many entries: those that were seen, never "all".
///
/// With `items`, each is changed if it has its version still. With `filter`, the entries that match now and were opened until
/// `as_of` are meant; is their number not `expected`, nothing is changed (409). Each entry is changed by itself: one that is skipped stops
/// none of the others.
#[utoipa::path(post, path = "/api/grey-queue/bulk", tag = "decisions", params(BulkHeaders), request_body = Bulk,
    responses((status = 200, description = "what became of each", body = schema::Report), DecidesMany))]
pub(super) async fn bulk(
    State(state): State<ApiState>,
    visitor: Visitor,
    Decider(person): Decider,
    content: Content<Bulk>,
) -> Result<Response, Problem> {
    visitor.must(Role::Reviewer)?;
    let Content { body, named } = content;
    body.only_own_members()?;
    let selection = body.selection(&person.name)?;
    let ask = body.ask()?;
    let repeat = named.as_ref().map(Named::repeat);
    let bulk = bulk::Bulk { selection: &selection, ask: &ask, by: &person, repeat };
    let kept = carry_out(&state.commands, &bulk).await?.answer()?;
    Ok(kept.into_response())
}

impl Bulk {
    /// Refuses what would be said and not heard.
    fn only_own_members(&self) -> Result<(), Problem> {
        let own: &[&str] = match self.command {
            Verb::Assign => &["assignee", "take_over"],
            Verb::DeEscalate => &["assignee"],
            Verb::Escalate => &["escalation_reason"],
            Verb::Resolve => &["remedy", "delivery", "vouch"],
            Verb::Start => &["remedy", "delivery"],
            Verb::Unassign | Verb::Reject | Verb::Dismiss | Verb::Reopen | Verb::Reset => &[],
        };
        let said = [
            ("assignee", self.assignee.is_some()),
            ("take_over", self.take_over.is_some()),
            ("escalation_reason", self.escalation_reason.is_some()),
            ("remedy", self.remedy.is_some()),
            ("delivery", self.delivery.is_some()),
            ("vouch", self.vouch.is_some()),
        ];
        match said.iter().find(|(name, said)| *said && !own.contains(name)) {
            Some((name, _)) => {
                Err(Problem::bad_request(format!("The command {} has no member {name}.", self.command)))
            }
            None => Ok(()),
        }
    }

    fn selection(&self, me: &str) -> Result<Selection, Problem> {
        let filtered = [self.filter.is_some(), self.as_of.is_some(), self.expected.is_some()];
        match (&self.items, &self.filter, &self.as_of, self.expected) {
            (Some(items), ..) if !filtered.contains(&true) => these(items),
            (None, Some(Object(filter)), Some(as_of), Some(expected)) => {
                let as_of = moment(as_of)
                    .ok_or_else(|| Problem::bad_request("as_of is no moment that a list has had."))?;
                let expected = usize::try_from(expected).ok().filter(|expected| *expected <= MOST);
                let expected =
                    expected.ok_or_else(|| Problem::bad_request(format!("expected is {MOST} at most.")))?;
                let filter = Filter { as_of: Some(as_of), ..filter.filter(me)? };
                Ok(Selection::Matching { filter, expected })
            }
            _ => Err(Problem::bad_request(
                "Which entries are meant is said by items, or by filter, as_of and expected together.",
            )),
        }
    }

    fn ask(self) -> Result<Ask, Problem> {
        Ok(Ask {
            verb: self.command,
            reason: self.reason,
            assignee: word("assignee", self.assignee)?,
            take_over: self.take_over.unwrap_or_default(),
            escalation_reason: self.escalation_reason,
            remedy: remedy(self.remedy)?,
            delivery: word("delivery", self.delivery)?,
            vouch: self.vouch.unwrap_or_default(),
        })
    }
}

fn these(items: &[Object<Selected>]) -> Result<Selection, Problem> {
    if items.is_empty() || items.len() > MOST {
        return Err(Problem::bad_request(format!("items has 1 to {MOST} entries.")));
    }
    let mut ids = BTreeSet::new();
    match items.iter().find(|item| !ids.insert(item.0.id)) {
        Some(twice) => Err(Problem::bad_request(format!("items has {} twice.", twice.0.id))),
        None => Ok(Selection::These(items.iter().map(|item| item.0).collect())),
    }
}

impl BulkFilter {
    fn filter(&self, me: &str) -> Result<Filter, Problem> {
        let mut filter = Filter::default();
        let members = [
            ("cause", &self.cause),
            ("reason", &self.reason),
            ("form", &self.form),
            ("queue", &self.queue),
            ("assignee", &self.assignee),
            ("subject", &self.subject),
            ("older_than", &self.older_than),
        ];
        let states = self.state.iter().flatten().map(|state| ("state", state));
        let given = members.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        for (name, value) in states.chain(given) {
            filters::set(&mut filter, name, value, me)?;
        }
        Ok(filter)
    }
}
