//! One entry: itself, its history, and what may be done with it.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;

use super::document::{Path, Reads};
use super::precondition::{etag, is_known};
use super::{ApiState, EntryId, schema};
use crate::desk::access::Visitor;
use crate::desk::decide::person;
use crate::desk::problem::Problem;
use crate::grey_queue::decide::Possible;
use crate::grey_queue::entry::Moved;
use crate::grey_queue::table::State as Stage;
use crate::queries::review;

/// Shows an entry, with the evidence about its subject.
///
/// Its ETag is its version. Evidence is looked up now, and changes without it.
#[utoipa::path(get, path = "/api/grey-queue/{id}", tag = "entries",
    params(Path, ("If-None-Match" = Option<String>, Header, description = "the ETag that is known already")),
    responses(
        (status = 200, description = "the entry", body = schema::EntryView,
            headers(("ETag" = String, description = "its version, in quotes"))),
        (status = 304, description = "it is known already: the entry has this version still"),
        Reads))]
pub(super) async fn entry(
    State(state): State<ApiState>,
    EntryId(id): EntryId,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (view, _) = review::view(&state.commands, id).await?.ok_or_else(unknown)?;
    let tag = [(header::ETAG, etag(view.entry.version))];
    if is_known(&headers, view.entry.version)? {
        return Ok((StatusCode::NOT_MODIFIED, tag).into_response());
    }
    Ok((tag, Json(view)).into_response())
}

/// What happened to an entry.
#[derive(Debug, Serialize)]
pub(super) struct History {
    items: Vec<Moved>,
}

/// Tells what happened to an entry, oldest first.
#[utoipa::path(get, path = "/api/grey-queue/{id}/history", tag = "entries", params(Path),
    responses((status = 200, description = "its transitions", body = schema::History), Reads))]
pub(super) async fn history(
    State(state): State<ApiState>,
    EntryId(id): EntryId,
) -> Result<Json<History>, Problem> {
    let items = state.commands.store.history(id).await?;
    if items.is_empty() {
        return Err(unknown());
    }
    Ok(Json(History { items }))
}

/// What may be done with an entry.
#[derive(Debug, Serialize)]
pub(super) struct Transitions {
    version: i64,
    state: Stage,
    items: Vec<Possible>,
}

/// Tells which commands the entry's state has, and which of them you may give.
#[utoipa::path(get, path = "/api/grey-queue/{id}/transitions", tag = "entries", params(Path),
    responses((status = 200, description = "the commands of its state", body = schema::Transitions), Reads))]
pub(super) async fn transitions(
    State(state): State<ApiState>,
    visitor: Visitor,
    EntryId(id): EntryId,
) -> Result<Json<Transitions>, Problem> {
    let (view, looked) = review::view(&state.commands, id).await?.ok_or_else(unknown)?;
    let items = state.commands.possible(&view.entry, &person(&visitor), looked.as_ref()).await?;
    Ok(Json(Transitions { version: view.entry.version, state: view.entry.state, items }))
}

pub(super) fn unknown() -> Problem {
    Problem::not_found("such entry")
}
