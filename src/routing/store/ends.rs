//! Ends as they happen, for `tail`: submissions routed or failed since a cursor, a page at a time.
//!
//! Two ways, each by an index: rows by (status, `updated_at`), which shows every end, also failures by the scan worker; or
//! the audit log by its key, where that may be read. A transaction that commits late has an earlier time, and an earlier
//! key, than one that committed before it: the caller looks a little back each time. Reads only, locks nothing.

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::Row;
use uuid::Uuid;

use super::view::AUDIT_READABLE;
use crate::db::DbError;
use crate::db::pool::Pool;

/// The store of ends. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Ends {
    pool: Pool,
}

/// A submission that has ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct End {
    /// When the submission ended; database time.
    pub at: Timestamp,
    /// The submission.
    pub id: Uuid,
    /// The submission's form; absent where the row is gone.
    pub form_id: Option<String>,
    /// `routed` or `failed`.
    pub status: String,
    /// Attempts the submission has cost, where its ledger says so.
    pub attempts: Option<String>,
    /// Why the submission failed.
    pub reason: Option<String>,
}

/// The ways to find ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ways {
    /// Whether there is an index on (status, `updated_at`).
    pub indexed: bool,
    /// Whether the audit log may be read.
    pub audited: bool,
}

/// The position from which ends are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The database's time.
    pub at: Timestamp,
    /// Key of the youngest audit row seen.
    pub audit: i64,
}

/// A row of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// The row's key in the log.
    pub cursor: i64,
    /// When the row was written.
    pub at: Timestamp,
    /// The end that the row records; absent where it records something else.
    pub end: Option<End>,
}

const INDEXED: &str = "-- ends_indexed
SELECT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = to_regclass('submissions') AND i.indisvalid AND i.indpred IS NULL
  AND (SELECT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = i.indexrelid
    AND a.attnum <= 2) = ARRAY['status', 'updated_at']) AS indexed";

const BEGIN: &str = "-- ends_begin
SELECT clock_timestamp() AS at";

const LAST: &str = "-- ends_last
SELECT a.id FROM audit_log a ORDER BY a.id DESC LIMIT 1";

/// Rows that ended at or after `$1`, `$2` of each status at most.
const ROWS: &str = "-- ends_rows
SELECT e.id, e.form_id, e.status, e.updated_at AS at, e.attempts, e.reason
FROM unnest('{routed,failed}'::submission_status[]) AS t(status) CROSS JOIN LATERAL (
  SELECT s.id, s.form_id, s.status::text AS status, s.updated_at, s.routing_result->>'attempts' AS attempts,
    s.routing_result#>>'{finished,reason}' AS reason
  FROM submissions s WHERE s.status = t.status AND s.updated_at >= $1 AND isfinite(s.updated_at)
  ORDER BY s.updated_at LIMIT $2
) e ORDER BY e.updated_at, e.id";

/// Rows of the log after `$1`, `$2` at most.
const TRAIL: &str = "-- ends_trail
SELECT a.id AS place, a.status, a.submission_id AS id, a.occurred_at AS at, s.form_id, a.attempts, a.reason
FROM (
  SELECT a.id, a.submission_id, a.occurred_at, a.detail->>'attempt' AS attempts, a.detail->>'reason' AS reason,
    CASE a.action::text WHEN 'submission_routed' THEN 'routed' WHEN 'submission_route_failed' THEN 'failed' END AS status
  FROM audit_log a WHERE a.id > $1 ORDER BY a.id LIMIT $2
) a LEFT JOIN submissions s ON a.status IS NOT NULL AND s.id = a.submission_id
ORDER BY a.id";

impl Ends {
    /// A store over `pool`.
    #[must_use]
    pub fn new(pool: Pool) -> Self {
        Self { pool }
    }

    /// The ways this database offers.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn ways(&self) -> Result<Ways, DbError> {
        let client = self.pool.get().await?;
        let indexed = client.query_one(INDEXED, &[]).await?.try_get("indexed")?;
        let readable = client.query_opt(AUDIT_READABLE, &[]).await?;
        Ok(Ways { indexed, audited: readable.is_some_and(|row| row.get("readable")) })
    }

    /// The cursor of this moment; its audit key only where the log may be read.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn begin(&self, ways: Ways) -> Result<Cursor, DbError> {
        let client = self.pool.get().await?;
        let at = client.query_one(BEGIN, &[]).await?.try_get("at")?;
        let last = if ways.audited { client.query_opt(LAST, &[]).await? } else { None };
        Ok(Cursor { at, audit: last.map(|row| row.try_get("id")).transpose()?.unwrap_or(0) })
    }

    /// Ends at or after `since`, oldest first; at most `most` of each status, and up to the time that is known of both.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn rows(&self, since: Timestamp, most: i64) -> Result<Vec<End>, DbError> {
        self.pool
            .seeking_transaction("ends", async |tx| {
                let statement = tx.prepare_cached(ROWS).await?;
                let page = tx
                    .query(&statement, &[&since, &most])
                    .await?
                    .iter()
                    .map(end)
                    .collect::<Result<_, _>>()?;
                Ok(whole(page, most))
            })
            .await
    }

    /// The audit rows after the key `after`, in their order.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn trail(&self, after: i64, most: i64) -> Result<Vec<AuditRow>, DbError> {
        self.pool
            .seeking_transaction("ends", async |tx| {
                let statement = tx.prepare_cached(TRAIL).await?;
                tx.query(&statement, &[&after, &most]).await?.iter().map(row).collect()
            })
            .await
    }
}

/// Drops the ends later than the last one of a status that may have more.
fn whole(mut page: Vec<End>, most: i64) -> Vec<End> {
    for status in ["routed", "failed"] {
        let (count, last) = {
            let of: Vec<&End> = page.iter().filter(|end| end.status == status).collect();
            (of.len(), of.last().map(|end| end.at))
        };
        if let Some(last) = last.filter(|_| i64::try_from(count).is_ok_and(|count| count >= most)) {
            page.retain(|end| end.at <= last);
        }
    }
    page
}

fn row(row: &Row) -> Result<AuditRow, DbError> {
    let (ended, about): (Option<&str>, Option<Uuid>) = (row.try_get("status")?, row.try_get("id")?);
    let end = if ended.is_some() && about.is_some() { Some(end(row)?) } else { None };
    Ok(AuditRow { cursor: row.try_get("place")?, at: row.try_get("at")?, end })
}

fn end(row: &Row) -> Result<End, DbError> {
    Ok(End {
        at: row.try_get("at")?,
        id: row.try_get("id")?,
        form_id: row.try_get("form_id")?,
        status: row.try_get("status")?,
        attempts: row.try_get("attempts")?,
        reason: row.try_get("reason")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_where_a_status_may_go_on() {
        let end = |second, status: &str| End {
            at: Timestamp::from_second(second).expect("a time"),
            id: Uuid::nil(),
            form_id: None,
            status: status.to_owned(),
            attempts: None,
            reason: None,
        };
        let page = vec![end(1, "routed"), end(2, "routed"), end(3, "failed")];
        assert_eq!(whole(page.clone(), 3), page, "all of both");
        assert_eq!(whole(page.clone(), 2), page[..2], "more may have been routed before the third");
    }
}
