//! The stream of changes.

use std::convert::Infallible;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, StreamExt as _, stream};
use serde_json::json;

use super::ApiState;
use super::document::Reads;
use crate::desk::live;
use crate::desk::problem::Problem;
use crate::desk::stream::Permit;

/// Streams the changes of entries as server-sent events.
///
/// `ready` comes first: whoever loads the list after it misses nothing. `change` has `{id, version, state, assignee}`, once for each
/// version, and perhaps for changes of the seconds before. `reload`: too much has changed to be told, load the list anew. The
/// stream ends after ten minutes; connect again.
#[utoipa::path(get, path = "/api/grey-queue/changes", tag = "entries",
    responses((status = 200, description = "the events", content_type = "text/event-stream", body = String), Reads))]
pub(super) async fn changes(
    State(state): State<ApiState>,
    permit: Permit,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    // Where there is no queue there is nothing to wait for.
    if !state.commands.store.is_there().await? {
        return Err(Problem::not_installed());
    }
    let ready = stream::once(async { Event::default().event("ready").data("{}") });
    let events = ready.chain(state.live.watch().map(|event| told(&event))).map(Ok);
    Ok(Sse::new(permit.over(events)).keep_alive(KeepAlive::default()))
}

fn told(event: &live::Event) -> Event {
    match event {
        live::Event::Change(change) => Event::default().event("change").data(json!(change).to_string()),
        live::Event::Reload => Event::default().event("reload").data("{}"),
    }
}
