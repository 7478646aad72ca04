//! The list of entries, and how many there are.

use axum::Json;
use axum::extract::{RawQuery, State};
use jiff::Timestamp;
use serde::Serialize;

use super::document::{ListParameters, Reads};
use super::{ApiState, schema};
use crate::desk::access::Visitor;
use crate::desk::confined::narrow;
use crate::desk::filters::Listed;
use crate::desk::problem::Problem;
use crate::grey_queue::store::Depth;
use crate::queries::review::EntryItem;

/// A page of the list.
#[derive(Debug, Serialize)]
pub(super) struct Page {
    items: Vec<EntryItem>,
    next_cursor: Option<String>,
    as_of: Timestamp,
}

/// Lists entries; without a state those that are open, the oldest first; those of queue `grading` by priority, then age.
///
/// Closed ones, where nothing else is wanted, are listed by when they were closed, the newest first. Pages begin behind the last entry
/// of the page before: each entry comes once, whatever opens or closes meanwhile. An unknown parameter is refused.
#[utoipa::path(get, path = "/api/grey-queue", tag = "entries", params(ListParameters),
    responses((status = 200, description = "a page of entries", body = schema::Page), Reads))]
pub(super) async fn list(
    State(state): State<ApiState>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Json<Page>, Problem> {
    let Listed { mut filter, limit, after } = Listed::of_query(&query.unwrap_or_default(), &visitor.user)?;
    narrow(&mut filter, &visitor);
    let page = state.commands.store.list(&filter, limit, after.as_ref()).await?;
    let items = page.items.into_iter().map(EntryItem::of).collect();
    Ok(Json(Page { items, next_cursor: page.next_cursor, as_of: page.as_of }))
}

/// How many entries are open.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    open: i64,
    items: Vec<Depth>,
}

/// Counts the open entries by state, queue and cause.
#[utoipa::path(get, path = "/api/grey-queue/summary", tag = "entries",
    responses((status = 200, description = "the counts", body = schema::Summary), Reads))]
pub(super) async fn summary(
    State(state): State<ApiState>,
    visitor: Visitor,
) -> Result<Json<Summary>, Problem> {
    let mut items = state.commands.store.summary().await?;
    items.retain(|depth| visitor.only_queue().is_none_or(|queue| depth.queue == queue));
    Ok(Json(Summary { open: items.iter().map(|depth| depth.count).sum(), items }))
}
