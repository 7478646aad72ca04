//! Submissions that match, and how many there are of each kind. Reads only; a damaged ledger is a line like any other.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
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
    /// The last one of the page before.
    pub(crate) behind: Option<Behind>,
    /// At most.
    pub(crate) limit: u32,
}

/// The end of a page, and so the beginning of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Behind {
    updated_at: Timestamp,
    id: Uuid,
}

impl Behind {
    pub(crate) const fn of(last: &Listed) -> Self {
        Self { updated_at: last.updated_at, id: last.id }
    }
}

impl fmt::Display for Behind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.updated_at.as_microsecond(), self.id.simple())
    }
}

/// Not an end that a page gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not the end of a page of this list; leave it out to begin at the first page")]
pub(crate) struct NoPage;

impl FromStr for Behind {
    type Err = NoPage;

    fn from_str(text: &str) -> Result<Self, NoPage> {
        let (at, id) = text.split_once('.').ok_or(NoPage)?;
        let at = at.parse().ok().and_then(|at| Timestamp::from_microsecond(at).ok());
        Ok(Self { updated_at: at.ok_or(NoPage)?, id: Uuid::try_parse(id).map_err(|_| NoPage)? })
    }
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
        // A reason is a failure's.
        None if search.reason.is_some() => vec![Status::Failed],
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
    let Some((first, last)) = search.ids else {
        let behind = search.behind.map(|behind| (behind.updated_at, behind.id));
        return cut(selection, async |selection| reader.view().page(&selection, behind).await).await;
    };
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
pub(crate) async fn lines(reader: &Reader, selection: Selection) -> Result<(Vec<Listed>, bool), DbError> {
    cut(selection, async |selection| reader.view().list(&selection).await).await
}

async fn cut(
    mut selection: Selection,
    ask: impl AsyncFnOnce(Selection) -> Result<Vec<Listed>, DbError>,
) -> Result<(Vec<Listed>, bool), DbError> {
    let limit = usize::try_from(selection.limit).unwrap_or(usize::MAX);
    // One more, to know whether there are more.
    selection.limit = selection.limit.saturating_add(1);
    let mut listed = ask(selection).await?;
    let more = listed.len() > limit;
    listed.truncate(limit);
    Ok((listed, more))
}

/// A group under the label it is counted by.
pub(crate) fn counted(group: &Group, by: GroupBy) -> BTreeMap<&'static str, Value> {
    BTreeMap::from([(by.label(), json!(group.key)), ("count", json!(group.count))])
}
