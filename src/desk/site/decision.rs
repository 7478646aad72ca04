//! A decision by the form of an entry's page. Done: the browser is led to the entry, which says so. Refused: the page again, with
//! what is wrong beside its field and what was typed still there.

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use serde::Deserialize;

use super::actions::sentence;
use super::entry::{self, Back, Wanted};
use super::flash::Done;
use super::{Shared, entry_id, recipients, words, written};
use crate::desk::access::Visitor;
use crate::desk::access::credential::DeskKey;
use crate::desk::decide::{Decision, Outcome, Repeat, decide as carry_out, person};
use crate::desk::input::{Command, Path};
use crate::desk::pages::decision::{Field, Typed};
use crate::desk::problem::Problem;
use crate::grey_queue::decide::{Ask, Refusal, Verb};
use crate::kernel::subject::Remedy;

/// The fields of all forms of an entry.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Posted {
    version: Option<i64>,
    reason: String,
    escalation_reason: String,
    assignee: String,
    remedy: String,
    delivery: String,
    vouch: String,
    take_over: String,
    list: String,
}

impl Posted {
    fn ask(&self, verb: Verb) -> Ask {
        let said = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Ask {
            reason: said(&self.reason),
            assignee: said(&self.assignee),
            take_over: self.take_over == "true",
            escalation_reason: said(&self.escalation_reason),
            remedy: Remedy::parse(&self.remedy),
            vouch: self.vouch == "true",
            ..Ask::plain(verb)
        }
    }

    /// The form that has these fields.
    fn form(&self, verb: Verb) -> Done {
        match verb {
            Verb::Assign if self.take_over == "true" => Done::TakeOver,
            Verb::Assign if !self.assignee.is_empty() => Done::AssignTo,
            Verb::Assign => Done::AssignMe,
            Verb::Unassign => Done::Unassign,
            Verb::Escalate => Done::Escalate,
            Verb::DeEscalate => Done::DeEscalate,
            Verb::Resolve if self.vouch == "true" => Done::Vouch,
            Verb::Resolve => Done::Resolve,
            Verb::Reject => Done::Reject,
            Verb::Dismiss => Done::Dismiss,
            Verb::Reopen => Done::Reopen,
            Verb::Reset => Done::Reset,
            Verb::Start => Done::Start,
        }
    }

    fn typed(&self) -> Typed {
        let reason = if self.reason.is_empty() { &self.escalation_reason } else { &self.reason };
        Typed {
            reason: reason.clone(),
            assignee: self.assignee.clone(),
            remedy: self.remedy.clone(),
            delivery: self.delivery.clone(),
        }
    }
}

pub(super) async fn decide(
    State(site): Shared,
    Extension(secret): Extension<DeskKey>,
    visitor: Visitor,
    Path((id, command)): Path<(String, String)>,
    posted: Command<Posted>,
) -> Result<Response, Problem> {
    visitor.must_decide()?;
    let id = entry_id(&id)?;
    let verb = Verb::parse(&command).ok_or_else(|| Problem::not_found("such decision"))?;
    let Command { body, key, request, .. } = posted;
    let version = body.version.ok_or_else(Problem::precondition_required)?;
    let (mut ask, person) = (body.ask(verb), person(&visitor));
    if ask.remedy == Some(Remedy::ForceDelivery) {
        ask.delivery = recipients::key(&site, &secret, id, &body.delivery).await?;
    }
    let repeat = key.as_ref().map(|key| Repeat { key, request: &request });
    let decision = Decision { id, version, ask: &ask, by: &person, repeat };
    let outcome = carry_out(site.commands(), &decision).await?;
    let form = body.form(verb);
    let back = |problem: String| Back {
        form,
        command: words::command(verb),
        typed: body.typed(),
        problem,
        field: None,
        overtaken: None,
        key: None,
    };
    let (problem, back) = match outcome {
        Outcome::Done { .. } | Outcome::Repeated(_) => {
            return Ok(Redirect::to(&after(id, form, &body.list)).into_response());
        }
        Outcome::Unknown => return Err(Problem::not_found("entry of this id")),
        Outcome::Conflict(conflict) => {
            (conflict.problem(), Back { overtaken: Some(version), ..back(String::new()) })
        }
        Outcome::KeyMismatch => {
            let problem = Problem::idempotency_mismatch();
            let text =
                "This form was sent before with other words. Look at what was done, then send it again.";
            (problem, back(text.to_owned()))
        }
        Outcome::Refused(refusal) => {
            let (field, text) = wrong(&refusal);
            let key = key.map(|key| key.as_str().to_owned());
            (Problem::from(&refusal), Back { field, key, ..back(text) })
        }
    };
    let page = entry::page(&site, &secret, &visitor, id, (&Wanted::of_list(&body.list), Some(back))).await?;
    Ok(problem.page(written(&page)?))
}

/// The entry's path after a form that was accepted, in the list that the reader works through.
pub(super) fn after(id: uuid::Uuid, form: Done, list: &str) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("done", form.label());
    if !list.is_empty() {
        query.append_pair("list", list);
    }
    format!("/entries/{id}?{}", query.finish())
}

/// The field that a refusal is about, and what is wrong in a sentence.
fn wrong(refusal: &Refusal) -> (Option<Field>, String) {
    match refusal {
        Refusal::Guard { field, why } => {
            let at = match *field {
                "reason" | "escalation_reason" => Some(Field::Reason),
                "assignee" => Some(Field::Assignee),
                "remedy" | "delivery" => Some(Field::Remedy),
                _ => None,
            };
            (at, sentence(why))
        }
        Refusal::EvidenceMissing(missing) => {
            (Some(Field::Remedy), format!("Choose a remedy: evidence is missing ({}).", missing.join("; ")))
        }
        Refusal::Remedy(why) => {
            (Some(Field::Remedy), format!("The remedy is not possible: {}", sentence(why)))
        }
        Refusal::NotAllowed(_) | Refusal::NotPossible { .. } | Refusal::OpenTwin(_) => {
            (None, sentence(&refusal.to_string()))
        }
    }
}
