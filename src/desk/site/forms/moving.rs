//! An admin's two commands: a form is made to follow a version, or goes back to the one before. Done: the browser is led to the
//! version, which says so. Refused: the page again, with what is wrong and what was typed.
//!
//! Judging takes as long as the policy does, so it is done beside the desk's own thread. The answer for a form that is sent again is
//! kept in the command's own transaction; a refused one leaves its decision with the reasons, and no answer: it may be sent again
//! once the reason is mended.

use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use uuid::Uuid;

use super::done::Done;
use super::told::{self, Back};
use super::version::Wanted;
use super::{form, form_id, no_version, not_installed, number, version};
use crate::desk::access::credential::KeyedDigest;
use crate::desk::access::{Role, Visitor};
use crate::desk::decide::person;
use crate::desk::input::{Command, Path};
use crate::desk::pages::forms::version_path;
use crate::desk::problem::Problem;
use crate::desk::site::{Shared, written};
use crate::desk::store::idempotency::{keep, once};
use crate::forms::commands::{By, CommandError, Judged, Versions};
use crate::forms::table::{ADMIN, Version};
use crate::kernel::rows::Row;
use crate::scrub::scrub;
use crate::web::idempotency::{Kept, Key, Once};

/// The fields of both forms.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::desk::site) struct Posted {
    expected: Option<String>,
    reason: String,
}

impl Posted {
    /// The version that was seen as current; `None`: the form followed its loader.
    fn seen(&self) -> Result<Option<Uuid>, Problem> {
        match self.expected.as_deref() {
            None => Err(Problem::precondition_required()),
            Some("") => Ok(None),
            Some(id) => id
                .parse()
                .map(Some)
                .map_err(|_| Problem::bad_request("What was seen as current is no version's id.")),
        }
    }
}

/// What is asked.
enum Asked {
    Promote(Uuid),
    RollBack(String),
}

/// A command, with everything that it takes.
struct Give {
    versions: Versions,
    by: By,
    user: String,
    asked: Asked,
    expected: Option<Uuid>,
    reason: Option<String>,
    repeat: Option<(Key, KeyedDigest)>,
}

/// What became of it.
enum Outcome {
    /// The form follows this version, by this command or by the same before.
    Done(Uuid),
    /// The checks or the policy are against it.
    Refused(Vec<String>),
    /// The key belongs to another request.
    KeyMismatch,
}

pub(in crate::desk::site) async fn promote(
    State(site): Shared,
    visitor: Visitor,
    Path((form, of)): Path<(String, String)>,
    posted: Command<Posted>,
) -> Result<Response, Problem> {
    visitor.must(Role::Admin)?;
    let (form, of) = (form_id(&form)?, number(&of)?);
    let versions = site.versions_there().await?.ok_or_else(not_installed)?;
    let row = versions.store.by_number(form, of).await?.ok_or_else(no_version)?;
    let asked = Asked::Promote(row.id);
    let (problem, back) = match given(&versions, &visitor, asked, posted).await? {
        Ok(followed) => return after(&versions, followed, Done::Promote).await,
        Err(refused) => refused,
    };
    let page = version::page(&site, &visitor, &versions, &row, (&Wanted::default(), Some(back))).await?;
    Ok(problem.page(written(&page)?))
}

pub(in crate::desk::site) async fn roll_back(
    State(site): Shared,
    visitor: Visitor,
    Path(form): Path<String>,
    posted: Command<Posted>,
) -> Result<Response, Problem> {
    visitor.must(Role::Admin)?;
    let form = form_id(&form)?;
    let versions = site.versions_there().await?.ok_or_else(not_installed)?;
    // To go back from whatever is followed is nothing that anybody has seen.
    if posted.body.seen()?.is_none() {
        return Err(Problem::precondition_required());
    }
    let asked = Asked::RollBack(form.to_owned());
    let (problem, back) = match given(&versions, &visitor, asked, posted).await? {
        Ok(followed) => return after(&versions, followed, Done::RollBack).await,
        Err(refused) => refused,
    };
    let page = form::page(&site, &visitor, &versions, form, Some(back)).await?;
    Ok(problem.page(written(&page)?))
}

/// The browser is led to what the form follows.
async fn after(versions: &Versions, followed: Uuid, done: Done) -> Result<Response, Problem> {
    let row: Row<Version> = versions.store.by_id(followed).await?.ok_or_else(no_version)?;
    let path = version_path(&row.columns.form_id, &row.columns.number);
    Ok(Redirect::to(&format!("{path}?done={done}")).into_response())
}

/// Gives the command. Returns the version that is followed, or the answer's problem and what the form gets back.
async fn given(
    versions: &Versions,
    visitor: &Visitor,
    asked: Asked,
    posted: Command<Posted>,
) -> Result<Result<Uuid, (Problem, Back)>, Problem> {
    let Command { body, key, request, .. } = posted;
    let seen = body.seen()?;
    let again = key.as_ref().map(|key| key.as_str().to_owned());
    let back = |problems: Vec<String>| Back { typed: body.reason.clone(), problems, ..Back::default() };
    let reason = match told::reason(&body.reason, matches!(asked, Asked::Promote(_))) {
        Ok(reason) => reason,
        Err(why) => {
            let back = Back { at_reason: true, key: again, ..back(vec![why.to_owned()]) };
            return Ok(Err((told::wrong_reason(why), back)));
        }
    };
    let give = Give {
        versions: versions.clone(),
        by: By { who: ADMIN, name: person(visitor).label },
        user: visitor.user.clone(),
        asked,
        expected: seen,
        reason,
        repeat: key.map(|key| (key, request)),
    };
    Ok(Err(match beside(give).await? {
        Ok(Outcome::Done(followed)) => return Ok(Ok(followed)),
        Ok(Outcome::KeyMismatch) => {
            let text =
                "This form was sent before with other words. Look at what was done, then send it again.";
            (Problem::idempotency_mismatch(), back(vec![text.to_owned()]))
        }
        Ok(Outcome::Refused(reasons)) => {
            let reasons: Vec<String> = reasons.iter().map(|reason| scrub(reason)).collect();
            (told::not_allowed(&reasons), Back { key: again, ..back(reasons) })
        }
        Err(CommandError::Moved) => (told::overtaken(), Back { overtaken: Some(seen), ..back(Vec::new()) }),
        Err(error) => {
            let (problem, text) = told::refused(error)?;
            (problem, Back { key: again, ..back(vec![text]) })
        }
    }))
}

/// Carries it out on a thread where nobody else waits; it goes on there even if whoever asked goes away.
async fn beside(give: Give) -> Result<Result<Outcome, CommandError>, Problem> {
    let runtime = Handle::current();
    let carried = spawn_blocking(move || runtime.block_on(give.carry_out()));
    carried.await.map_err(|_| Problem::internal())
}

impl Give {
    async fn carry_out(self) -> Result<Outcome, CommandError> {
        let Self { versions, by, user, asked, expected, reason, repeat } = self;
        let reason = reason.as_deref();
        versions
            .answered("desk_version", async |tx| {
                let tx = &tx;
                if let Some((key, request)) = &repeat {
                    match once(tx, &user, key, request).await? {
                        Once::Kept(kept) => return followed(&kept.response).map(Outcome::Done),
                        Once::Mismatch => return Ok(Outcome::KeyMismatch),
                        Once::Fresh => {}
                    }
                }
                let (id, judged) = match &asked {
                    Asked::Promote(id) => (*id, versions.promote_in(tx, *id, expected, reason, &by).await?),
                    Asked::RollBack(form) => versions.rollback_in(tx, form, expected, reason, &by).await?,
                };
                if let Judged::Refused(reasons) = judged {
                    return Ok(Outcome::Refused(reasons));
                }
                if let Some((key, request)) = &repeat {
                    let kept = Kept { status: 200, response: json!({ "version": id }) };
                    keep(tx, &user, key, request, &kept).await?;
                }
                Ok(Outcome::Done(id))
            })
            .await
    }
}

/// The version of an answer that was given before.
fn followed(answer: &Value) -> Result<Uuid, CommandError> {
    let id = answer.get("version").and_then(Value::as_str).and_then(|id| id.parse().ok());
    id.ok_or(CommandError::NoVersion)
}
