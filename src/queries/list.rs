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
use crate::routing::store::view::{Group, GroupBy, Listed, Page, Selection};
use crate::routing::submission::ledger::FailReason;
use crate::routing::table::Status;

/// Submissions of a status that one search of a form or a reason looks at: some 20 ms. Among a hundred thousand that are of
/// other forms it would be 170.
const LOOKED_AT: i64 = 5_000;

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
    const fn of(last: &Listed) -> Self {
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

/// The submissions that were found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Changed last first.
    pub(crate) submissions: Vec<Listed>,
    /// The beginning of the next page; absent where nothing is left.
    pub(crate) next: Option<Behind>,
    /// The time back to which was looked, where that was not to the end and the page is not full.
    pub(crate) looked_back_to: Option<Timestamp>,
}

/// The submissions that were looked for.
pub(crate) async fn search(reader: &Reader, search: &Search) -> Result<Found, DbError> {
    let status = match search.status.as_deref().map(Status::parse) {
        Some(None) => return Ok(Found::default()),
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
    match search.ids {
        Some(ids) => by_id(reader, &selection, ids).await,
        None => page(reader, selection, search.behind).await,
    }
}

async fn page(reader: &Reader, mut selection: Selection, behind: Option<Behind>) -> Result<Found, DbError> {
    let limit = usize::try_from(selection.limit).unwrap_or(usize::MAX);
    // One more, to know whether there are more.
    selection.limit = selection.limit.saturating_add(1);
    let behind = behind.map(|behind| (behind.updated_at, behind.id));
    let Page { mut submissions, horizon } = reader.view().page(&selection, behind, LOOKED_AT).await?;
    if submissions.len() > limit {
        submissions.truncate(limit);
        let next = submissions.last().map(Behind::of);
        return Ok(Found { submissions, next, looked_back_to: None });
    }
    let next = horizon.map(|(updated_at, id)| Behind { updated_at, id });
    Ok(Found { submissions, next, looked_back_to: horizon.map(|(updated_at, _)| updated_at) })
}

/// Those between two ids, as many as fit.
async fn by_id(
    reader: &Reader,
    selection: &Selection,
    (first, last): (Uuid, Uuid),
) -> Result<Found, DbError> {
    let mut found = Found::default();
    for one in reader.view().submissions_between(first, last, i64::from(selection.limit)).await? {
        let one = Selection { id: Some(one.id), limit: 1, ..selection.clone() };
        found.submissions.extend(reader.view().list(&one).await?);
    }
    Ok(found)
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
