//! Submissions that match, and how many there are of each kind. Reads only; a damaged ledger is a line like any other.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Reader;
use crate::db::DbError;
use crate::routing::store::view::{Group, GroupBy, Listed, Selection};

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
