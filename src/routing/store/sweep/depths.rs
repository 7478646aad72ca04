//! Numbers and ages for the sweep's gauges, alerts and dry run. Reads only.

use std::time::Duration;

use tokio_postgres::Row;
use uuid::Uuid;

use super::{SweepBounds, sql};
use crate::db::DbError;
use crate::routing::store::{Store, seen};
use crate::routing::table::Status;

/// Submissions that do not become ready.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unready {
    /// Number of these submissions.
    pub count: u64,
    /// Age of the oldest.
    pub oldest: Duration,
    /// Id of the oldest.
    pub sample: Option<Uuid>,
}

/// Number and age of the submissions in a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Depth {
    /// `submissions.status`.
    pub status: Status,
    /// Rows in it.
    pub count: u64,
    /// Age of the oldest: since its creation while the status is open, since its last change once it is an end.
    pub oldest: Duration,
}

/// Number of rows a pass would find, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SweepCount {
    /// Claims that no worker ends.
    pub stuck: u64,
    /// Ready submissions that no event has brought back.
    pub orphans: u64,
    /// Submissions waiting with an infected attachment.
    pub infected: u64,
}

impl Store {
    /// Submissions that are not ready although they should long be. Reads only.
    ///
    /// # Errors
    /// [`DbError`]; [`DbError::Hidden`] where nobody can tell who is ready.
    pub async fn unready(&self, bounds: &SweepBounds) -> Result<Unready, DbError> {
        let age = bounds.unready_alert_after.as_secs_f64();
        let row = self
            .pool
            .seeking_transaction("sweep_unready", async |tx| {
                let statement = tx.prepare_cached(&self.statements.sweep.unready).await?;
                tx.query_one(&statement, &[&age, &bounds.not_before]).await
            })
            .await?;
        seen([&row])?;
        Ok(Unready {
            count: count(&row, "n")?,
            oldest: age_of(row.try_get("oldest")?),
            sample: row.try_get("sample")?,
        })
    }

    /// The depths of the open statuses, for the gauges. Submissions open since before `not_before` are left alone: counted,
    /// and without an age. Reads only what is open.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn open_depths(&self, bounds: &SweepBounds) -> Result<Vec<Depth>, DbError> {
        let rows = self
            .pool
            .seeking_transaction("sweep_open", async |tx| {
                let statement = tx.prepare_cached(sql::OPEN).await?;
                tx.query(&statement, &[&bounds.not_before]).await
            })
            .await?;
        rows.iter().filter_map(depth).collect()
    }

    /// The depths of the ends, for the gauges. Reads only, but every row that has ended: not for every pass.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn ended_depths(&self) -> Result<Vec<Depth>, DbError> {
        let rows = self
            .pool
            .transaction("sweep_ended", async |tx| {
                let statement = tx.prepare_cached(sql::ENDED).await?;
                tx.query(&statement, &[]).await
            })
            .await?;
        let found = rows.iter().filter_map(depth).collect::<Result<Vec<_>, DbError>>()?;
        let of = |status| {
            let found = found.iter().find(|depth| depth.status == status);
            found.cloned().unwrap_or(Depth { status, count: 0, oldest: Duration::ZERO })
        };
        Ok([Status::Routed, Status::Failed, Status::Purged].map(of).into())
    }

    /// Counts the rows a pass would find now. Reads only.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn sweep_count(&self, bounds: &SweepBounds) -> Result<SweepCount, DbError> {
        let (grace, orphan) = (bounds.due_grace.as_secs_f64(), bounds.orphan_after.as_secs_f64());
        let (stuck, longest) = (bounds.stuck_after.as_secs_f64(), self.settings.longest_pause.as_secs_f64());
        let row = self
            .pool
            .seeking_transaction("sweep_count", async |tx| {
                let statement = tx.prepare_cached(&self.statements.sweep.count).await?;
                tx.query_one(&statement, &[&grace, &orphan, &bounds.not_before, &stuck, &longest]).await
            })
            .await?;
        seen([&row])?;
        Ok(SweepCount {
            stuck: count(&row, "stuck")?,
            orphans: count(&row, "orphans")?,
            infected: count(&row, "infected")?,
        })
    }
}

/// The depth of a status; one that is not known here is left out.
fn depth(row: &Row) -> Option<Result<Depth, DbError>> {
    let read = || {
        let Some(status) = Status::parse(row.try_get("status")?) else { return Ok(None) };
        Ok(Some(Depth { status, count: count(row, "n")?, oldest: age_of(row.try_get("oldest")?) }))
    };
    read().transpose()
}

fn count(row: &Row, column: &str) -> Result<u64, DbError> {
    Ok(u64::try_from(row.try_get::<_, i64>(column)?).unwrap_or_default())
}

/// An age in seconds; one that lies in the future, or none, is zero.
fn age_of(seconds: Option<f64>) -> Duration {
    Duration::try_from_secs_f64(seconds.unwrap_or_default().max(0.0)).unwrap_or_default()
}
