//! Pauses in the database, where schema `router` is there. Nothing here touches a submission.
//!
//! Each statement stands for itself: if we die between two, the list is as one of them left it.

use jiff::Timestamp;
use tokio_postgres::Row;

use crate::db::DbError;
use crate::db::pool::Pool;
use crate::routing::pause::{Pause, Scope};

const NOW: &str = "-- pauses_now
SELECT clock_timestamp() AS now, to_regclass('router.pauses') IS NOT NULL AS kept";

const LIST: &str = "-- pauses_list
SELECT p.scope, p.value, p.created_at, p.until, p.reason, p.actor FROM router.pauses p
WHERE p.until IS NULL OR p.until > now() ORDER BY p.id";

/// `$1` scope, `$2` value, `$3` until, `$4` reason, `$5` actor. A new pause of the same takes the place of the old one.
const PUT: &str = "-- pauses_put
INSERT INTO router.pauses (scope, value, until, reason, actor, created_at)
VALUES ($1, $2, $3, $4, $5, clock_timestamp())
ON CONFLICT (scope, value) DO UPDATE SET until = EXCLUDED.until, reason = EXCLUDED.reason, actor = EXCLUDED.actor,
  created_at = EXCLUDED.created_at
RETURNING scope, value, created_at, until, reason, actor";

const REMOVE: &str = "-- pauses_remove
DELETE FROM router.pauses p WHERE ($1::text IS NULL OR (p.scope = $1 AND p.value = $2))
RETURNING p.scope, p.value, p.created_at, p.until, p.reason, p.actor";

/// The database's side of the pauses.
#[derive(Debug, Clone)]
pub struct PauseTable {
    pool: Pool,
}

impl PauseTable {
    /// Over `pool`.
    #[must_use]
    pub fn new(pool: Pool) -> Self {
        Self { pool }
    }

    /// Database time, and whether pauses are kept in this database.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn now(&self) -> Result<(Timestamp, bool), DbError> {
        let client = self.pool.get().await?;
        let row = client.query_one(&client.prepare_cached(NOW).await?, &[]).await?;
        Ok((row.try_get("now")?, row.try_get("kept")?))
    }

    /// Those in force.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn list(&self) -> Result<Vec<Pause>, DbError> {
        let client = self.pool.get().await?;
        let rows = client.query(&client.prepare_cached(LIST).await?, &[]).await?;
        rows.iter().map(pause).collect()
    }

    /// Adds one, in the place of an older one of the same scope.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn put(&self, new: &Pause) -> Result<Pause, DbError> {
        let client = self.pool.get().await?;
        let statement = client.prepare_cached(PUT).await?;
        let (scope, value) = (new.scope.label(), new.scope.value());
        let row =
            client.query_one(&statement, &[&scope, &value, &new.until, &new.reason, &new.actor]).await?;
        pause(&row)
    }

    /// Removes the one of this scope, or all of them; answers what was removed.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn remove(&self, scope: Option<&Scope>) -> Result<Vec<Pause>, DbError> {
        let client = self.pool.get().await?;
        let statement = client.prepare_cached(REMOVE).await?;
        let (label, value) = (scope.map(Scope::label), scope.map(Scope::value));
        let rows = client.query(&statement, &[&label, &value]).await?;
        rows.iter().map(pause).collect()
    }
}

fn pause(row: &Row) -> Result<Pause, DbError> {
    let (label, value): (String, String) = (row.try_get("scope")?, row.try_get("value")?);
    let scope = Scope::of(&label, &value)
        .ok_or_else(|| DbError::Shape("router.pauses: a scope of a newer version".to_owned()))?;
    Ok(Pause {
        scope,
        since: row.try_get("created_at")?,
        until: row.try_get("until")?,
        reason: row.try_get("reason")?,
        actor: row.try_get("actor")?,
    })
}
