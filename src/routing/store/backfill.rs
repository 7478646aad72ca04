//! Back-fill (help-desk contract, "State"): tickets deferred while there was no help desk are opened, because a person says so.
//!
//! If we die before the commit nothing happened; after it the row is `received`, and the sweep finds it even when no event
//! follows. A row that somebody has locked is left, never waited for: whoever has it may be making what we would ask for.

use std::collections::BTreeSet;

use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::overrides::Override;
use super::replay::Reopened;
use super::stored::Stored;
use super::{MISSING, Store, sql};
use crate::db::DbError;
use crate::db::pool::Transaction;
use crate::kernel::rows::word_in;
use crate::routing::decide::backfill::{Backfill, BackfillRefusal, BackfillView, backfill};
use crate::routing::submission::ledger::Ledger;

/// A page of submissions in the order of their ids, of which most are nothing to a back-fill. Walked by the primary key alone,
/// because no other index is promised; what is not wanted is told apart around that walk. Damaged documents are no match, and
/// abort nothing. `$1` id before the page, `$2` most rows of it, `$3` form (null: any), `$4` earliest creation (null: any).
const BACKFILL_PAGE: &str = "-- backfill_page
WITH p AS MATERIALIZED (
  SELECT s.id, s.form_id, s.status, s.created_at, s.routing_result FROM submissions s WHERE s.id > $1 ORDER BY s.id LIMIT $2
)
SELECT p.id, p.created_at, COALESCE(p.status <> 'purged' AND ($3::text IS NULL OR p.form_id = $3)
  AND ($4::timestamptz IS NULL OR p.created_at >= $4)
  AND jsonb_path_exists(p.routing_result, '$.deliveries.*.state ? (@ == \"not_implemented\")'), false) AS wanted
FROM p ORDER BY p.id";

/// A submission with a deferred ticket, as a page showed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deferred {
    /// The submission.
    pub id: Uuid,
    /// Time of submission.
    pub created_at: Timestamp,
}

/// One page of the walk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeferredPage {
    /// Those with a deferred ticket.
    pub found: Vec<Deferred>,
    /// Rows that were looked at.
    pub looked: usize,
    /// Id after which the next page begins; absent where this was the last.
    pub next: Option<Uuid>,
}

/// Submissions that a back-fill is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BackfillScope<'a> {
    /// This form alone.
    pub form: Option<&'a str>,
    /// Created at this instant or later.
    pub since: Option<Timestamp>,
}

/// A submission whose deferred tickets are open.
#[derive(Debug, Clone, PartialEq)]
pub struct Opened {
    /// The submission's form.
    pub form_id: String,
    /// The ledger as it was.
    pub ledger: Ledger,
    /// The decision.
    pub backfill: Backfill,
}

/// The outcome for one submission.
#[derive(Debug, Clone, PartialEq)]
pub enum Backfilled {
    /// The submission is `received` again; in a dry run, it would be.
    Done(Box<Opened>),
    /// The submission stays as it is.
    Refused(BackfillRefusal),
    /// Somebody has the row locked.
    Busy,
    /// No row has this id.
    Unknown,
}

impl Backfilled {
    /// Why the submission stays as it is, in words for people.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        match self {
            Self::Done(_) => None,
            Self::Refused(refusal) => Some(refusal.to_string()),
            Self::Busy => Some("somebody has its row locked at this moment: do this again".to_owned()),
            Self::Unknown => Some(MISSING.to_owned()),
        }
    }
}

impl Store {
    /// The page after `after` of at most `most` submissions, whether wanted or not.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn backfill_page(
        &self,
        after: Option<Uuid>,
        most: usize,
        scope: BackfillScope<'_>,
    ) -> Result<DeferredPage, DbError> {
        let (after, limit) = (after.unwrap_or_default(), i64::try_from(most).unwrap_or(i64::MAX));
        let rows = self
            .pool
            .transaction("backfill_page", async |tx| {
                let page = tx.prepare_cached(BACKFILL_PAGE).await?;
                tx.query(&page, &[&after, &limit, &scope.form, &scope.since]).await
            })
            .await?;
        let last = rows.last().filter(|_| rows.len() == most).map(|row| row.try_get("id")).transpose()?;
        Ok(DeferredPage { found: deferred(&rows)?, looked: rows.len(), next: last })
    }

    /// Opens the deferred tickets of a routed submission, but for the actions of `left`; with `dry_run` only decides whether it
    /// would. `note.more` is extended by the decision's facts.
    ///
    /// # Errors
    /// [`DbError`]: where the commit's answer was lost, the row shows it: an opened row is routed no more, or has its ticket.
    pub async fn backfill(
        &self,
        id: Uuid,
        left: &BTreeSet<i32>,
        note: Override<'_>,
        dry_run: bool,
    ) -> Result<Backfilled, DbError> {
        self.pool
            .transaction("backfill", async |tx| self.backfill_in(&tx, id, left, note, dry_run).await)
            .await
    }

    async fn backfill_in(
        &self,
        tx: &Transaction,
        id: Uuid,
        left: &BTreeSet<i32>,
        note: Override<'_>,
        dry_run: bool,
    ) -> Result<Backfilled, DbError> {
        let lock = tx.prepare_cached(sql::LOCK_MANY).await?;
        let read = tx.prepare_cached(&self.statements.backfill_read).await?;
        let ids = [id];
        let ids = ids.as_slice();
        let (locked, row) =
            futures::future::try_join(tx.query(&lock, &[&ids]), tx.query_opt(&read, &[&id])).await?;
        let Some(row) = row else { return Ok(Backfilled::Unknown) };
        if locked.is_empty() {
            return Ok(Backfilled::Busy);
        }
        let stored: Stored = row.try_get("routing_result")?;
        let (ledger, stored) = (stored.ledger(), stored.original());
        let view = BackfillView {
            status: word_in(&row, "submissions", "status")?,
            stored: &stored,
            ledger: ledger.as_ref(),
            infected: row.try_get("infected")?,
        };
        let backfill = match backfill(&view, left, row.try_get("now")?) {
            Ok(backfill) => backfill,
            Err(refusal) => return Ok(Backfilled::Refused(refusal)),
        };
        let form_id = row.try_get::<_, Option<String>>("form_id")?.unwrap_or_default();
        if !dry_run {
            let reopened =
                Reopened { keys: &backfill.keys, note: &backfill.note, transition: backfill.transition };
            Self::reopen(tx, id, reopened, note).await?;
        }
        Ok(Backfilled::Done(Box::new(Opened { form_id, ledger: ledger.unwrap_or_default(), backfill })))
    }
}

fn deferred(rows: &[Row]) -> Result<Vec<Deferred>, DbError> {
    let mut found = Vec::new();
    for row in rows {
        if row.try_get("wanted")? {
            found.push(Deferred { id: row.try_get("id")?, created_at: row.try_get("created_at")? });
        }
    }
    Ok(found)
}
