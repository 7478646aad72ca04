//! Grading under `/api/assessments`: what a person who grades is shown, the grade, and what learners follow.
//!
//! A learner is no user of the desk: the backend, which is one, gets a ticket for a submission, and hands it on. What learners are told is
//! `grading::learner`'s.

use std::convert::Infallible;
use std::time::Duration;

use axum::Extension;
use axum::Json;
use axum::extract::{FromRequestParts, Path as UrlPath, RawQuery, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::{StreamExt as _, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use url::form_urlencoded;
use utoipa::ToSchema;
use uuid::Uuid;

use super::content::{Content, Named};
use super::document::{Assesses, AssessmentPath, DecisionHeaders, Learns, TicketParameter};
use super::precondition::{etag, seen};
use super::{ApiState, schema};
use crate::desk::access::credential::DeskKey;
use crate::desk::access::learner::{self, Proof};
use crate::desk::access::visitor::By;
use crate::desk::access::{Role, Visitor};
use crate::desk::follow::News;
use crate::desk::grades::{Grading, Outcome, grader};
use crate::desk::problem::{Kind, Problem};
use crate::desk::stream::FollowersPermit;
use crate::grading::core::result::Feedback;
use crate::grading::review::{PersonsReview, PersonsScore};
use crate::web::idempotency::Kept;
use crate::web::input::Object;

/// Time after which a browser comes again to a stream that has ended.
const RETRY: Duration = Duration::from_secs(5);
/// Interval of a stream's signs of life.
const PING: Duration = Duration::from_secs(30);
/// Life of a ticket, in seconds.
const TICKET_LIFE: u64 = 60;

/// Shows an attempt at grading a submission: by the submission's id the latest.
///
/// To a person of role `instructor`, or `reviewer` and above, question, work and results; that is recorded. The ETag is the attempt's version.
/// With a learner's cookie what the learner is told: how it stands, and the grade once it is final.
#[utoipa::path(get, operation_id = "assessment", path = "/api/assessments/{submission}", tag = "assessments", params(AssessmentPath),
    responses((status = 200, description = "the attempt", body = schema::AssessmentOrTold,
        headers(("ETag" = String, description = "its version, in quotes; for people"))), Learns))]
pub(super) async fn show(
    State(state): State<ApiState>,
    Extension(key): Extension<DeskKey>,
    SubmissionId(id): SubmissionId,
    who: Who,
) -> Result<Response, Problem> {
    match who {
        Who::Person(visitor) => {
            let shown = state.grades.shown(&visitor, id).await?.ok_or_else(unknown)?;
            Ok(([(header::ETAG, etag(shown.version))], Json(shown)).into_response())
        }
        Who::Learner(proof) => {
            admitted(&state, &key, id, &proof).await?;
            Ok(Json(state.grades.store.told(id).await?.ok_or_else(unknown)?).into_response())
        }
    }
}

/// A person's grade.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Review {
    /// Every criterion of the skill once.
    #[schema(required = true, value_type = Vec<schema::CriterionGiven>, max_items = 8)]
    criteria_scores: Option<Vec<Object<PersonsScore>>>,
    /// What to say of the whole.
    #[schema(value_type = Option<schema::FeedbackGiven>)]
    feedback: Option<Object<Feedback>>,
    /// Why; recorded with the entry, and not shown to the learner.
    #[schema(required = true, value_type = String, schema_with = schema::reason)]
    reason: Option<String>,
    /// The attempt's version that was seen, unless If-Match says it.
    #[schema(schema_with = schema::version_or_none)]
    version: Option<i64>,
}

/// Grades a work that waits for a person, and resolves its entry: both, or neither.
///
/// The final grade follows from this one and the grader's. Whoever comes second is told who was first.
#[utoipa::path(post, operation_id = "assessment_review", path = "/api/assessments/{submission}/review", tag = "assessments",
    params(AssessmentPath, DecisionHeaders), request_body = Review,
    responses((status = 200, description = "the final grade, in numbers", body = schema::Graded,
        headers(("ETag" = String, description = "the attempt's version after it"))), Assesses))]
pub(super) async fn review(
    State(state): State<ApiState>,
    visitor: Visitor,
    SubmissionId(id): SubmissionId,
    headers: HeaderMap,
    content: Content<Review>,
) -> Result<Response, Problem> {
    let by = grader(&visitor)?;
    available(&state).await?;
    let Content { body, named } = content;
    let seen = seen(&headers, body.version)?;
    let scores = body
        .criteria_scores
        .ok_or_else(|| Problem::guard("criteriaScores", "Give a score by each criterion."))?;
    let said = PersonsReview {
        criteria_scores: scores.into_iter().map(|given| given.0).collect(),
        feedback: body.feedback.map(|given| given.0).unwrap_or_default(),
    };
    let reason = body.reason.unwrap_or_default();
    let repeat = named.as_ref().map(Named::repeat);
    let grading = Grading { id, version: seen.version, said: &said, reason: &reason, by: &by, repeat };
    match state.grades.grade(&grading).await? {
        Outcome::Done(kept) | Outcome::Repeated(kept) => Ok(answered(kept)),
        Outcome::First(first) => Err(first.problem(seen.by_header)),
        other @ (Outcome::KeyMismatch
        | Outcome::NotNow(_)
        | Outcome::Broken(_)
        | Outcome::Refused(_)
        | Outcome::Unknown) => Err(refused(&other)),
    }
}

/// Why a grade was not recorded.
pub(in crate::desk) fn refused(outcome: &Outcome) -> Problem {
    match outcome {
        Outcome::KeyMismatch => Problem::idempotency_mismatch(),
        Outcome::First(first) => first.problem(false),
        Outcome::NotNow(why) => Problem::not_possible(why.clone(), &[]),
        Outcome::Broken(broken) => {
            Problem::guard("criteriaScores", format!("The grade breaks a rule: {broken}."))
                .with("rule", broken.to_string())
        }
        Outcome::Refused(refusal) => Problem::from(refusal),
        Outcome::Unknown | Outcome::Done(_) | Outcome::Repeated(_) => unknown(),
    }
}

/// The answer, with the attempt's tag.
fn answered(kept: Kept) -> Response {
    let version = kept.response.get("version").and_then(Value::as_i64);
    let mut response = kept.into_response();
    if let Some(version) = version {
        response.headers_mut().insert(header::ETAG, etag(version));
    }
    response
}

/// Makes a ticket, with which the learner of a submission follows it. For the backend: by a bearer token of a user who may see what is graded.
///
/// It opens the stream of this submission once, within a minute: `GET url` sets a cookie and leads on. It is kept as a digest.
#[utoipa::path(post, operation_id = "assessment_ticket", path = "/api/assessments/{submission}/ticket", tag = "assessments",
    params(AssessmentPath),
    responses((status = 200, description = "the ticket", body = schema::Ticket), Assesses))]
pub(super) async fn ticket(
    State(state): State<ApiState>,
    visitor: Visitor,
    SubmissionId(id): SubmissionId,
) -> Result<Response, Problem> {
    visitor.must(Role::Instructor)?;
    if visitor.by != By::Token {
        return Err(Problem::new(
            Kind::Role,
            "A ticket is made for a program, which proves itself by a token.",
            "On the desk's host: sudo maple-router desk token NAME makes one.",
        ));
    }
    let store = available(&state).await?;
    let ticket = learner::ticket(&state.rng);
    let digest = learner::digest(&ticket);
    let expires = store
        .pool()
        .transaction("desk_ticket", async |tx| store.make_ticket(&tx, &digest, id).await)
        .await?
        .ok_or_else(unknown)?;
    let url = format!("{}/events?{}={ticket}", learner::path(id), learner::TICKET);
    let answer = json!({"ticket": ticket, "url": url, "expires_at": expires, "expires_in": TICKET_LIFE});
    Ok(Json(answer).into_response())
}

/// Streams what happens to a learner's submission as server-sent events.
///
/// `grading.progress`, `grading.review_pending`, `grading.completed` and `grading.failed`, each with what the learner is told; behind
/// `Last-Event-ID`, or from the beginning. A ticket sets the cookie and leads here without it (303). The stream ends after 30 minutes.
#[utoipa::path(get, operation_id = "assessment_events", path = "/api/assessments/{submission}/events", tag = "assessments",
    params(AssessmentPath, TicketParameter,
        ("Last-Event-ID" = Option<String>, Header, description = "the event that was seen last")),
    responses((status = 200, description = "the events", content_type = "text/event-stream", body = String),
        (status = 303, description = "the ticket was spent: the same without it"), Learns))]
pub(super) async fn events(
    State(state): State<ApiState>,
    Extension(key): Extension<DeskKey>,
    SubmissionId(id): SubmissionId,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    FollowersPermit(permit): FollowersPermit,
    who: Who,
) -> Result<Response, Problem> {
    for (name, _) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        if name != learner::TICKET {
            return Err(Problem::bad_request(format!("There is no parameter {name} here.")));
        }
    }
    // People look at the attempt itself; a stream is its learner's.
    let Who::Learner(proof) = who else { return Err(Problem::ticket()) };
    if let Proof::Ticket(ticket) = &proof {
        return spent(&state, &key, id, ticket).await;
    }
    admitted(&state, &key, id, &proof).await?;
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let last = last.and_then(|text| Uuid::try_parse(text).ok());
    let begin = stream::once(async { Event::default().retry(RETRY) });
    let events = begin.chain(state.follow.of(id, last).map(|news| told(&news)));
    let pings = permit.ticks(PING).map(|()| Event::default().comment("ping"));
    let all = stream::select(events, pings).map(Ok::<_, Infallible>);
    Ok(Sse::new(permit.over(all)).into_response())
}

fn told(news: &News) -> Event {
    let data = json!(news.told).to_string();
    Event::default().id(news.id.to_string()).event(news.told.state.event().label()).data(data)
}

/// Spends a ticket: a cookie for this submission alone, and the way to the stream.
async fn spent(state: &ApiState, key: &DeskKey, id: Uuid, ticket: &str) -> Result<Response, Problem> {
    let store = available(state).await?;
    let digest = learner::digest(ticket);
    let now = store
        .pool()
        .transaction("desk_ticket", async |tx| store.spend_ticket(&tx, &digest, id).await)
        .await?
        .ok_or_else(Problem::ticket)?;
    let value = |text: &str| HeaderValue::from_str(text).map_err(|_| Problem::internal());
    let cookie = value(&learner::set_cookie(key, id, now))?;
    let to = value(&format!("{}/events", learner::path(id)))?;
    Ok((StatusCode::SEE_OTHER, [(header::LOCATION, to), (header::SET_COOKIE, cookie)]).into_response())
}

/// Whether the learner's cookie is this submission's.
async fn admitted(state: &ApiState, key: &DeskKey, id: Uuid, proof: &Proof) -> Result<(), Problem> {
    let Proof::Cookies(cookies) = proof else { return Err(Problem::ticket()) };
    let now = available(state).await?.time().await?;
    if learner::is_learner(key, id, now, cookies) { Ok(()) } else { Err(Problem::ticket()) }
}

/// The attempts, where schema assessment is there.
async fn available(state: &ApiState) -> Result<&crate::grading::store::GradingStore, Problem> {
    let store = &state.grades.store;
    if store.is_there().await? { Ok(store) } else { Err(Problem::not_installed()) }
}

/// Whoever asks: a person, or a learner whose proof is still to be judged.
pub(super) enum Who {
    Person(Visitor),
    Learner(Proof),
}

impl<S: Send + Sync> FromRequestParts<S> for Who {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match parts.extensions.get::<Proof>().cloned() {
            Some(proof) => Ok(Self::Learner(proof)),
            None => Visitor::from_request_parts(parts, state).await.map(Self::Person),
        }
    }
}

/// The id in a path. What can be no id is nobody's.
pub(super) struct SubmissionId(Uuid);

impl<S: Send + Sync> FromRequestParts<S> for SubmissionId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let text = UrlPath::<String>::from_request_parts(parts, state).await;
        let id = text.ok().and_then(|UrlPath(text)| Uuid::try_parse(&text).ok());
        id.map(Self).ok_or_else(unknown)
    }
}

fn unknown() -> Problem {
    Problem::new(
        Kind::NotFound,
        "There is no submission of this id that is graded.",
        "Compare the id; grading list on the host has the attempts.",
    )
}
