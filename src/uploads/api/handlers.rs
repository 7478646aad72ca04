//! The handlers: a request is read, a command given, its answer written.

use std::time::Duration;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::content::{Document, key, no_query};
use super::document::{Changes, Reads, UploadId};
use super::proof::{Backend, Session};
use super::{ApiState, LONGEST_WAIT};
use crate::uploads::commands::{Asked, Created, PartLink, Shown};
use crate::uploads::decide::Wanted;
use crate::uploads::problem::Problem;
use crate::uploads::table::State as UploadState;

/// Makes a session for a file. The backend alone.
#[utoipa::path(post, path = "/v1/uploads", tag = "uploads", request_body = Wanted, security(("key" = [])),
    params(("Idempotency-Key" = String, Header, min_length = 1, max_length = 128, pattern = "^[!-~]+$",
        description = "the backend's name for this file; the same request is answered the same")),
    responses((status = 201, description = "the session, and its token", body = Created), Changes))]
pub(super) async fn create(
    State(state): State<ApiState>,
    _: Backend,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    Document(wanted): Document<Wanted>,
) -> Result<Response, Problem> {
    no_query(query.as_deref())?;
    let made = state.commands.create(key(&headers)?.as_str(), wanted).await?;
    let location = [(header::LOCATION, format!("/v1/uploads/{}", made.id))];
    Ok((StatusCode::CREATED, location, Json(made)).into_response())
}

/// Parts whose links are wanted.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WantedParts {
    /// Their numbers, from 1; 100 at most.
    #[schema(min_items = 1, max_items = 100)]
    numbers: Vec<u32>,
    /// BASE64 of the MD5 of each, in the same order: the store refuses a part whose bytes are others. The client sends it as
    /// `Content-MD5`.
    #[serde(default)]
    md5: Option<Vec<String>>,
}

/// Links of parts.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Links {
    parts: Vec<PartLink>,
}

/// Gives links by which parts are sent with PUT; fresh ones for the asking.
#[utoipa::path(post, path = "/v1/uploads/{id}/parts", tag = "uploads", request_body = WantedParts, params(UploadId),
    responses((status = 200, description = "a link for each", body = Links), Changes))]
pub(super) async fn parts(
    State(state): State<ApiState>,
    session: Session,
    RawQuery(query): RawQuery,
    Document(wanted): Document<WantedParts>,
) -> Result<Json<Links>, Problem> {
    no_query(query.as_deref())?;
    let digests: Vec<Option<[u8; 16]>> = match &wanted.md5 {
        None => vec![None; wanted.numbers.len()],
        Some(texts) => texts.iter().map(|text| BASE64.decode(text).ok()?.try_into().ok()).collect(),
    };
    if wanted.md5.is_some() && (digests.len() != wanted.numbers.len() || digests.iter().any(Option::is_none))
    {
        return Err(Problem::guard("md5", "There is one MD5 for each number, 16 bytes in BASE64."));
    }
    let asked: Vec<Asked> =
        wanted.numbers.into_iter().zip(digests).map(|(number, md5)| Asked { number, md5 }).collect();
    Ok(Json(Links { parts: state.commands.parts(session.seen, &asked).await? }))
}

/// What is said with the last part.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Complete {
    /// SHA-256 of the whole file in hexadecimal digits, where it was not declared before.
    #[serde(default)]
    #[schema(pattern = "^[0-9A-Fa-f]{64}$")]
    sha256: Option<String>,
}

/// Says that every part is there. The commit follows by itself.
#[utoipa::path(post, path = "/v1/uploads/{id}/complete", tag = "uploads", request_body = Complete, params(UploadId),
    responses((status = 202, description = "it is being proven", body = Shown),
              (status = 200, description = "it is committed already", body = Shown), Changes))]
pub(super) async fn complete(
    State(state): State<ApiState>,
    session: Session,
    RawQuery(query): RawQuery,
    Document(said): Document<Complete>,
) -> Result<Response, Problem> {
    no_query(query.as_deref())?;
    Ok(standing(state.commands.complete(session.seen, said.sha256.as_deref()).await?))
}

/// No content.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// Asks how the commit stands, as `complete` answers.
#[utoipa::path(post, path = "/v1/uploads/{id}/commit", tag = "uploads", request_body = Nothing, params(UploadId),
    responses((status = 202, description = "it is being proven", body = Shown),
              (status = 200, description = "it is committed", body = Shown), Changes))]
pub(super) async fn commit(
    State(state): State<ApiState>,
    session: Session,
    RawQuery(query): RawQuery,
    Document(_): Document<Nothing>,
) -> Result<Response, Problem> {
    no_query(query.as_deref())?;
    Ok(standing(state.commands.committing(session.seen).await?))
}

/// 202 while the bytes are proven, else 200.
fn standing(shown: Shown) -> Response {
    let status =
        if shown.state == UploadState::PendingCommit { StatusCode::ACCEPTED } else { StatusCode::OK };
    (status, Json(shown)).into_response()
}

/// Parameters of `show`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Waiting {
    #[serde(default)]
    wait: u64,
}

/// Shows a session: its state, the parts that the store has, the verdict.
#[utoipa::path(get, path = "/v1/uploads/{id}", tag = "uploads", params(UploadId,
    ("wait" = Option<u64>, Query, description = "seconds to wait for another state, 20 at most", minimum = 0, maximum = 20)),
    responses((status = 200, description = "the session", body = Shown), Reads))]
pub(super) async fn show(
    State(state): State<ApiState>,
    session: Session,
    query: Result<Query<Waiting>, QueryRejection>,
) -> Result<Json<Shown>, Problem> {
    let Query(waiting) = query.map_err(|refused| Problem::bad_request(refused.body_text()))?;
    let wait = Duration::from_secs(waiting.wait);
    if wait > LONGEST_WAIT {
        return Err(Problem::guard("wait", "A request waits for 20 seconds at most."));
    }
    // Whoever finds no room is answered at once, and asks again.
    let room = state.waiters.try_acquire();
    let wait = if room.is_ok() { wait } else { Duration::ZERO };
    Ok(Json(state.commands.show(session.seen, wait).await?))
}

/// Ends a session; what was brought is removed. A committed upload stays.
#[utoipa::path(delete, path = "/v1/uploads/{id}", tag = "uploads", params(UploadId),
    responses((status = 204, description = "it has ended"), Changes))]
pub(super) async fn abort(
    State(state): State<ApiState>,
    session: Session,
    RawQuery(query): RawQuery,
) -> Result<StatusCode, Problem> {
    no_query(query.as_deref())?;
    state.commands.abort(&session.seen, session.by, None).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The submission that a file belongs to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Attach {
    submission_id: Uuid,
}

/// An attachment.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Attached {
    attachment_id: Uuid,
}

/// Makes a committed upload an attachment of a submission that was not routed yet. The backend alone; who finalizes in a transaction
/// of their own calls `content.attach` there.
#[utoipa::path(post, path = "/v1/uploads/{id}/attach", tag = "uploads", request_body = Attach, params(UploadId), security(("key" = [])),
    responses((status = 200, description = "the attachment; the same one however often it is asked for", body = Attached), Changes))]
pub(super) async fn attach(
    State(state): State<ApiState>,
    _: Backend,
    session: Session,
    RawQuery(query): RawQuery,
    Document(to): Document<Attach>,
) -> Result<Json<Attached>, Problem> {
    no_query(query.as_deref())?;
    let attachment_id = state.commands.attach(session.seen.row.id, to.submission_id).await?;
    Ok(Json(Attached { attachment_id }))
}
