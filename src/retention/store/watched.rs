//! What the daemon's look reads: how collection stands, and runs that ended since the last look.

use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use super::{RetentionStore, sql};
use crate::db::DbError;

/// How collection stands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Standing {
    /// Blobs without a reference.
    pub tombstoned: u64,
    /// Blobs that a run has marked.
    pub eligible: u64,
    /// Deleted blobs whose object is not gone yet.
    pub owed: u64,
    /// Time since the earliest deadline of a tombstoned blob; zero: it has not passed.
    pub overdue: Duration,
    /// Holds.
    pub holds: u64,
    /// Recalls that are not done.
    pub recalls: u64,
    /// Objects that a run found missing or replaced in the last day.
    pub lost: u64,
    /// The blob of the latest of them.
    pub lost_sample: Option<Uuid>,
    /// Time since a run came to its end; absent: none has.
    pub since_done: Option<Duration>,
    /// Time since the first run began; absent: there was none.
    pub since_first: Option<Duration>,
    /// The run that ended last.
    pub ended: Option<i64>,
    /// Why that one failed.
    pub trouble: Option<String>,
    /// Rules about how long submissions are kept.
    pub rules: u64,
}

/// A run that ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// Its number.
    pub id: i64,
    /// What it did.
    pub counts: Value,
    /// Why it failed.
    pub trouble: Option<String>,
}

impl RetentionStore {
    /// How collection stands.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn standing(&self) -> Result<Standing, DbError> {
        self.pool()
            .seeking_transaction("gc_look", async |tx| {
                let row = tx.query_one(&tx.prepare_cached(sql::STANDING).await?, &[]).await?;
                let count = |column| -> Result<u64, DbError> {
                    Ok(u64::try_from(row.try_get::<_, i64>(column)?).unwrap_or_default())
                };
                let span = |column| -> Result<Option<Duration>, DbError> {
                    let seconds: Option<f64> = row.try_get(column)?;
                    Ok(seconds
                        .map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or_default()))
                };
                Ok(Standing {
                    tombstoned: count("tombstoned")?,
                    eligible: count("eligible")?,
                    owed: count("owed")?,
                    overdue: span("overdue")?.unwrap_or_default(),
                    holds: count("holds")?,
                    recalls: count("recalls")?,
                    lost: count("lost")?,
                    lost_sample: row.try_get("lost_sample")?,
                    since_done: span("since_done")?,
                    since_first: span("since_first")?,
                    ended: row.try_get("ended")?,
                    trouble: row.try_get("trouble")?,
                    rules: count("rules")?,
                })
            })
            .await
    }

    /// Runs behind `seen` that ended, in their order.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn ended_runs(&self, seen: i64) -> Result<Vec<Ended>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(sql::ENDED).await?, &[&seen]).await?;
        rows.iter()
            .map(|row| {
                Ok(Ended {
                    id: row.try_get("id")?,
                    counts: row.try_get("counts")?,
                    trouble: row.try_get("trouble")?,
                })
            })
            .collect()
    }
}
