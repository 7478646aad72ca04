//! The runs of the collector: one at a time, under a lease.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row as PgRow;
use uuid::Uuid;

use super::{RetentionStore, limit, sql};
use crate::db::{DbError, Parameter};
use crate::words;

words! {
    /// `content.gc_runs.state`.
    RunState {
        /// Looking for what nothing refers to.
        Marking = "marking",
        /// The mark is complete: deleting what this run marked.
        Sweeping = "sweeping",
        /// It came to its end.
        Done = "done",
        /// Somebody asked it to stop.
        Stopped = "stopped",
        /// It ended otherwise.
        Failed = "failed",
    }
}

/// A run as people see it.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Run {
    /// Its number.
    pub id: i64,
    /// Its state.
    pub state: String,
    /// Whoever runs it.
    pub actor: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Until when nobody else takes its place.
    pub leased_until: Timestamp,
    /// What it did.
    pub counts: Value,
    /// Why it failed.
    pub trouble: Option<String>,
}

/// The fence of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ours {
    /// Its number.
    pub id: i64,
    /// The token of its lease.
    pub token: Uuid,
}

/// How a run began.
#[derive(Debug, Clone, PartialEq)]
pub enum Begun {
    /// It is ours; the run whose place it takes, where that was left open.
    Ours(Ours, Option<i64>),
    /// Another is at work.
    Busy(Box<Run>),
}

impl RetentionStore {
    /// Begins a run, and writes down what `grace` is from now on.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn begin(
        &self,
        actor: &str,
        token: Uuid,
        lease: Duration,
        grace: Duration,
    ) -> Result<Begun, DbError> {
        let (grace, lease) = (grace.as_secs_f64(), lease.as_secs_f64());
        self.pool()
            .transaction("gc_begin", async |tx| {
                let over = tx
                    .query_opt(&tx.prepare_cached(sql::RUN_OVER).await?, &[&RunState::Failed.label()])
                    .await?;
                let over = over.map(|row| row.try_get("id")).transpose()?;
                let begin = tx.prepare_cached(sql::RUN_BEGIN).await?;
                match tx.query_opt(&begin, &[&actor, &token, &lease]).await? {
                    Some(row) => {
                        tx.query_opt(&tx.prepare_cached(sql::GRACE).await?, &[&grace]).await?;
                        Ok(Begun::Ours(Ours { id: row.try_get("id")?, token }, over))
                    }
                    None => {
                        let open = tx.query_one(&tx.prepare_cached(sql::RUNS).await?, &[&1_i64]).await?;
                        Ok(Begun::Busy(Box::new(run(&open)?)))
                    }
                }
            })
            .await
    }

    /// Extends the lease of a run, and says where it is. `false`: another has taken its place.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn extend_run(
        &self,
        ours: Ours,
        lease: Duration,
        state: RunState,
        counts: &Value,
    ) -> Result<bool, DbError> {
        let (lease, state) = (lease.as_secs_f64(), state.label());
        let parameters: [&dyn Parameter; 5] = [&ours.id, &ours.token, &lease, &state, counts];
        self.pool()
            .transaction("gc_extend", async |tx| {
                Ok(tx.query_opt(&tx.prepare_cached(sql::RUN_EXTEND).await?, &parameters).await?.is_some())
            })
            .await
    }

    /// Ends a run. `false`: another has taken its place.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn end_run(
        &self,
        ours: Ours,
        state: RunState,
        counts: &Value,
        trouble: Option<&str>,
    ) -> Result<bool, DbError> {
        let state = state.label();
        let parameters: [&dyn Parameter; 5] = [&ours.id, &ours.token, &state, counts, &trouble];
        self.pool()
            .transaction("gc_end", async |tx| {
                Ok(tx.query_opt(&tx.prepare_cached(sql::RUN_END).await?, &parameters).await?.is_some())
            })
            .await
    }

    /// The latest runs.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn runs(&self, most: usize) -> Result<Vec<Run>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(sql::RUNS).await?, &[&limit(most)]).await?;
        rows.iter().map(run).collect()
    }
}

fn run(row: &PgRow) -> Result<Run, DbError> {
    Ok(Run {
        id: row.try_get("id")?,
        state: row.try_get("state")?,
        actor: row.try_get("actor")?,
        started_at: row.try_get("started_at")?,
        ended_at: row.try_get("ended_at")?,
        leased_until: row.try_get("leased_until")?,
        counts: row.try_get("counts")?,
        trouble: row.try_get("trouble")?,
    })
}
