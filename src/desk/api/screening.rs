//! Screening under `/api/screening`: runs, forms, jobs, waivers and times to read, and one command, another run. Decisions about what waits
//! for a person are those about its entry. Nothing that people entered is shown.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path as UrlPath, RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::form_urlencoded;
use utoipa::ToSchema;
use uuid::Uuid;

use super::content::{Content, Named};
use super::document::{BulkHeaders, Reads, Rescreens, RunParameters, RunPath};
use super::{ApiState, Decider, schema};
use crate::desk::access::{Role, Visitor};
use crate::desk::decide::Repeat;
use crate::desk::problem::{Kind, Problem};
use crate::desk::store::idempotency::{keep, once};
use crate::screening::journal;
use crate::screening::rescreen::{Outcome, rescreen};
use crate::screening::store::ScreeningStore;
use crate::screening::store::people::Rescreened;
use crate::screening::store::setup::{KeptWaiver, ScreenedForm};
use crate::screening::store::views::{Chosen, JobView, RunStory, RunView, StageTimes};
use crate::screening::table::State as Stage;
use crate::web::idempotency::{Kept, Once};

/// Runs and jobs of a list where there is no `limit`, and at most.
const LIMIT: (usize, usize) = (100, 200);
/// Time of which the table of stages tells: the document's day.
const DAY: Duration = Duration::from_secs(86_400);

/// Several of something.
#[derive(Debug, Serialize)]
pub(super) struct Items<T> {
    items: Vec<T>,
}

impl ApiState {
    /// The runs, where schema screening is there.
    async fn screening(&self) -> Result<&ScreeningStore, Problem> {
        if self.screening.is_there().await? { Ok(&self.screening) } else { Err(Problem::not_installed()) }
    }
}

/// Lists runs, the latest first.
#[utoipa::path(get, operation_id = "screening_runs", path = "/api/screening", tag = "screening", params(RunParameters),
    responses((status = 200, description = "the runs", body = schema::ScreeningRuns), Reads))]
pub(super) async fn list(
    State(state): State<ApiState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Items<RunView>>, Problem> {
    let (chosen, limit) = chosen(&query.unwrap_or_default())?;
    Ok(Json(Items { items: state.screening().await?.list(&chosen, limit).await? }))
}

/// Tells all that is known of a run, by its id or by that of its submission, of which it is the latest.
#[utoipa::path(get, operation_id = "screening_run", path = "/api/screening/{id}", tag = "screening", params(RunPath),
    responses((status = 200, description = "the run", body = schema::ScreeningStory), Reads))]
pub(super) async fn show(State(state): State<ApiState>, RunId(id): RunId) -> Result<Json<RunStory>, Problem> {
    let store = state.screening().await?;
    let chosen = Chosen { subject: Some(id), ..Chosen::default() };
    let latest = store.list(&chosen, 1).await?.pop().map_or(id, |run| run.id);
    store.story(latest).await?.map(Json).ok_or_else(unknown)
}

/// Lists the forms that are screened.
#[utoipa::path(get, operation_id = "screening_forms", path = "/api/screening/forms", tag = "screening",
    responses((status = 200, description = "the forms", body = schema::ScreenedForms), Reads))]
pub(super) async fn forms(State(state): State<ApiState>) -> Result<Json<Items<ScreenedForm>>, Problem> {
    Ok(Json(Items { items: state.screening().await?.forms().await? }))
}

/// Lists jobs that wait, run or were given up on; the longest due first.
#[utoipa::path(get, operation_id = "screening_jobs", path = "/api/screening/jobs", tag = "screening",
    responses((status = 200, description = "the jobs", body = schema::ScreeningJobs), Reads))]
pub(super) async fn jobs(State(state): State<ApiState>) -> Result<Json<Items<JobView>>, Problem> {
    Ok(Json(Items { items: state.screening().await?.jobs(None, false, LIMIT.1).await? }))
}

/// Lists the waivers that stand.
#[utoipa::path(get, operation_id = "screening_waivers", path = "/api/screening/waivers", tag = "screening",
    responses((status = 200, description = "the waivers", body = schema::ScreeningWaivers), Reads))]
pub(super) async fn waivers(State(state): State<ApiState>) -> Result<Json<Items<KeptWaiver>>, Problem> {
    Ok(Json(Items { items: state.screening().await?.waivers(None).await? }))
}

/// Tells how long each stage took within the last day, in seconds.
#[utoipa::path(get, operation_id = "screening_sla", path = "/api/screening/sla", tag = "screening",
    responses((status = 200, description = "the stages", body = schema::ScreeningTimes), Reads))]
pub(super) async fn sla(State(state): State<ApiState>) -> Result<Json<Items<StageTimes>>, Problem> {
    Ok(Json(Items { items: state.screening().await?.sla(DAY).await? }))
}

/// Why another run is wanted.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Again {
    /// Why; recorded.
    #[schema(required = true, value_type = String, schema_with = schema::reason)]
    reason: Option<String>,
}

/// Has a submission screened again, and opens it where screening had failed it. The run before it stays. For whoever may decide.
#[utoipa::path(post, operation_id = "screening_again", path = "/api/screening/{id}/rescreen", tag = "screening", params(RunPath, BulkHeaders), request_body = Again,
    responses((status = 200, description = "the run that was opened", body = schema::Rescreened), Rescreens))]
pub(super) async fn again(
    State(state): State<ApiState>,
    visitor: Visitor,
    Decider(person): Decider,
    RunId(id): RunId,
    content: Content<Again>,
) -> Result<Response, Problem> {
    visitor.must(Role::Reviewer)?;
    let Content { body, named } = content;
    let reason = body.reason.filter(|reason| !reason.trim().is_empty());
    let reason = reason.ok_or_else(|| Problem::guard("reason", "Another run has a reason."))?;
    let store = state.screening().await?;
    let id = store.one(id).await?.map_or(id, |known| known.run.subject);
    let submissions = state.commands.subjects.of("submission").map(Arc::clone).ok_or_else(unknown)?;
    let repeat = named.as_ref().map(Named::repeat);
    let answer = store
        .pool()
        .transaction("desk_decide", async |tx| {
            if let Some(Repeat { key, request }) = repeat {
                match once(&tx, &person.name, key, request).await? {
                    Once::Kept(kept) => return Ok(Answer::Kept(kept)),
                    Once::Mismatch => return Ok(Answer::Mismatch),
                    Once::Fresh => {}
                }
            }
            let by = (person.label.as_str(), reason.as_str());
            match rescreen(&tx, store, &*submissions, id, by).await? {
                Outcome::Done { run, replayed } => {
                    let response = json!({"submission_id": id, "run_id": run, "replayed": replayed});
                    let kept = Kept { status: 200, response };
                    if let Some(Repeat { key, request }) = repeat {
                        keep(&tx, &person.name, key, request, &kept).await?;
                    }
                    Ok(Answer::Done(run, kept))
                }
                refused @ (Outcome::Refused(..) | Outcome::Unroutable(_)) => Ok(Answer::Refused(refused)),
            }
        })
        .await?;
    match answer {
        Answer::Done(run, kept) => {
            journal::rescreened(id, run, &person.label, "by the desk's API");
            Ok(kept.into_response())
        }
        Answer::Kept(kept) => Ok(kept.into_response()),
        Answer::Mismatch => Err(Problem::idempotency_mismatch()),
        Answer::Refused(refused) => Err(problem(&refused)),
    }
}

/// What the transaction came to.
enum Answer {
    Done(Uuid, Kept),
    Kept(Kept),
    Mismatch,
    Refused(Outcome),
}

fn problem(refused: &Outcome) -> Problem {
    match refused {
        Outcome::Refused(Rescreened::Purged, _) => {
            Problem::not_possible("The submission is emptied: nothing is left to be screened.", &[])
        }
        Outcome::Refused(Rescreened::Unscreened, _) => {
            Problem::not_possible("The submission's form is not screened, and it has no run.", &[])
        }
        Outcome::Refused(Rescreened::Open, _) => {
            Problem::not_possible("A run of the submission is open: it is being screened.", &[])
        }
        Outcome::Unroutable(why) => {
            Problem::not_possible(format!("It cannot be routed again, so that nothing was done: {why}"), &[])
        }
        Outcome::Refused(Rescreened::Unknown | Rescreened::Done, _) | Outcome::Done { .. } => unknown(),
    }
}

/// The id in a path. What can be no id is nobody's.
pub(super) struct RunId(Uuid);

impl<S: Send + Sync> axum::extract::FromRequestParts<S> for RunId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut axum::http::request::Parts, state: &S) -> Result<Self, Problem> {
        let text = UrlPath::<String>::from_request_parts(parts, state).await;
        let id = text.ok().and_then(|UrlPath(text)| Uuid::try_parse(&text).ok());
        id.map(Self).ok_or_else(unknown)
    }
}

fn unknown() -> Problem {
    Problem::new(
        Kind::NotFound,
        "There is no such run, and no submission of this id that is screened.",
        "/api/screening lists the runs.",
    )
}

/// Reads the filters of a list of runs.
///
/// # Errors
/// [`Problem`] 400: a parameter is unknown, comes twice, or is not as it must be.
fn chosen(query: &str) -> Result<(Chosen, usize), Problem> {
    let (mut chosen, mut limit) = (Chosen::default(), LIMIT.0);
    let mut given = std::collections::BTreeSet::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if !given.insert(name.clone()) {
            return Err(Problem::bad_request(format!("The parameter {name} is there twice.")));
        }
        let bad = |must: &str| Problem::bad_request(format!("The parameter {name} must be {must}."));
        match &*name {
            "state" => {
                let states: Vec<&str> = Stage::ALL.iter().map(|state| state.label()).collect();
                let state = Stage::parse(&value);
                chosen.state = Some(state.ok_or_else(|| bad(&format!("one of {}", states.join(", "))))?);
            }
            "form" if value.is_empty() || value.contains('\0') || value.chars().count() > 255 => {
                return Err(bad("the name of a form"));
            }
            "form" => chosen.form = Some(value.into_owned()),
            "submission" => {
                chosen.subject = Some(Uuid::try_parse(&value).map_err(|_| bad("the id of a submission"))?);
            }
            "dead" => chosen.dead = value.parse().map_err(|_| bad("true or false"))?,
            "limit" => {
                let number = value.parse().ok().filter(|limit| (1..=LIMIT.1).contains(limit));
                limit = number.ok_or_else(|| bad(&format!("a number from 1 to {}", LIMIT.1)))?;
            }
            _ => {
                return Err(Problem::bad_request(format!(
                    "There is no parameter {name}. Known are: state, form, submission, dead, limit."
                )));
            }
        }
    }
    Ok((chosen, limit))
}
