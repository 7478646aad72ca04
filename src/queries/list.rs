//! Submissions that match, and how many there are of each kind. Reads only; a damaged ledger is a line like any other.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::Reader;
use crate::db::DbError;
use crate::routing::store::view::{Group, GroupBy, Listed, Selection};
use crate::routing::submission::ledger::FailReason;
use crate::routing::table::Status;

/// What people look for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Search {
    /// The ids between these two, both included.
    pub(crate) ids: Option<(Uuid, Uuid)>,
    /// Status, by its label; an unknown one finds nothing.
    pub(crate) status: Option<String>,
    pub(crate) form: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) older_than: Option<Duration>,
    /// At most.
    pub(crate) limit: u32,
}

/// The statuses, in the lifecycle's order.
pub(crate) fn statuses() -> Vec<&'static str> {
    Status::ALL.iter().map(|status| status.label()).collect()
}

/// The reasons of failures.
pub(crate) fn reasons() -> Vec<&'static str> {
    FailReason::ALL.iter().map(|reason| reason.label()).collect()
}

/// The submissions that were looked for, changed last first, and whether there are more.
pub(crate) async fn search(reader: &Reader, search: &Search) -> Result<(Vec<Listed>, bool), DbError> {
    let status = match search.status.as_deref().map(Status::parse) {
        Some(None) => return Ok((Vec::new(), false)),
        Some(Some(status)) => vec![status],
        None => Vec::new(),
    };
    let selection = Selection {
        status,
        form: search.form.clone(),
        reason: search.reason.clone(),
        older_than: search.older_than,
        newest: true,
        limit: search.limit,
        ..Selection::default()
    };
    let Some((first, last)) = search.ids else { return lines(reader, selection).await };
    let most = i64::from(search.limit).saturating_add(1);
    let named = reader.view().submissions_between(first, last, most).await?;
    let mut found = Vec::new();
    for one in named.iter().take(usize::try_from(search.limit).unwrap_or(usize::MAX)) {
        found.extend(
            reader.view().list(&Selection { id: Some(one.id), limit: 1, ..selection.clone() }).await?,
        );
    }
    Ok((found, named.len() > usize::try_from(search.limit).unwrap_or(usize::MAX)))
}

/// The submissions of a selection, as many as its limit, and whether there are more.
pub(crate) async fn lines(reader: &Reader, mut selection: Selection) -> Result<(Vec<Listed>, bool), DbError> {
    let limit = usize::try_from(selection.limit).unwrap_or(usize::MAX);
    // One more, to know whether there are more.
    selection.limit = selection.limit.saturating_add(1);
    let mut listed = reader.view().list(&selection).await?;
    let more = listed.len() > limit;
    listed.truncate(limit);
    Ok((listed, more))
}

/// A group under the label it is counted by.
pub(crate) fn counted(group: &Group, by: GroupBy) -> BTreeMap<&'static str, Value> {
    BTreeMap::from([(by.label(), json!(group.key)), ("count", json!(group.count))])
}
