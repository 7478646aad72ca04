//! Visitors who see one queue alone. For pages and API in one place: a layer refuses what is not that queue's, and lists are narrowed to it.
//!
//! Fails closed: a route that is not named here is not for such a visitor.

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use uuid::Uuid;

use super::access::Visitor;
use super::problem::{Kind, Problem};
use crate::grey_queue::store::{Filter, GreyQueueStore};

/// Routes that show no entry, or lists, which are narrowed.
const FREE: [&str; 14] = [
    "/",
    "/api",
    "/api/assessments/{submission}",
    "/api/assessments/{submission}/events",
    "/api/assessments/{submission}/review",
    "/api/assessments/{submission}/ticket",
    "/api/grey-queue",
    "/api/grey-queue/summary",
    "/api/openapi.json",
    "/lifecycles",
    "/lifecycles/{name}",
    "/next",
    "/queue",
    "/queue/rows",
];
/// Routes of one entry, by how they begin.
const OF_ENTRY: [&str; 2] = ["/api/grey-queue/{id}", "/entries/{id}"];

/// The routes, of which a visitor who sees one queue alone meets only that queue's.
pub(super) fn confined(routes: Router, store: GreyQueueStore) -> Router {
    routes.layer(from_fn_with_state(store, confine))
}

/// Leaves of what a list chooses what this visitor sees.
pub(super) fn narrow(filter: &mut Filter, visitor: &Visitor) {
    if let Some(queue) = visitor.only_queue() {
        filter.queue = Some(queue.to_owned());
    }
}

async fn confine(
    State(store): State<GreyQueueStore>,
    parameters: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    let only = request.extensions().get::<Visitor>().and_then(Visitor::only_queue);
    let Some(queue) = only else { return next.run(request).await };
    let template = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let template = template.unwrap_or_default();
    if FREE.contains(&template.as_str()) {
        return next.run(request).await;
    }
    let is_below =
        |own: &&str| template.strip_prefix(*own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if !OF_ENTRY.iter().any(is_below) {
        return elsewhere(queue).into_response();
    }
    let id = parameters.ok().and_then(|all| {
        let text = all.iter().find(|(name, _)| *name == "id").map(|(_, text)| text.to_owned());
        Uuid::try_parse(&text?).ok()
    });
    let Some(id) = id else {
        return Problem::not_found("such entry").into_response();
    };
    match store.get(id).await {
        Ok(Some(entry)) if entry.queue == queue => next.run(request).await,
        Ok(_) => Problem::not_found("such entry").into_response(),
        Err(error) => Problem::from(error).into_response(),
    }
}

fn elsewhere(queue: &str) -> Problem {
    Problem::new(
        Kind::Role,
        format!("Your role sees what waits in queue {queue}, and nothing else."),
        "Ask a reviewer, or the administrator of the host ([desk.users] in its configuration).",
    )
}
