//! Pauses in the database, and the daemons that go by them, where schema `router` exists. Nothing here touches a submission.
//!
//! Each statement stands for itself: if we die between two, the list is as one of them left it.

use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::db::DbError;
use crate::db::pool::Pool;
use crate::routing::pause::presence::{FORGOTTEN, Identity, Presence};
use crate::routing::pause::{Pause, Scope};

const NOW: &str = "-- pauses_now
SELECT clock_timestamp() AS now, to_regclass('router.pauses') IS NOT NULL AS kept,
  COALESCE(has_table_privilege(to_regclass('router.daemons'), 'SELECT, INSERT'), false) AS daemons";

const LIST: &str = "-- pauses_list
SELECT p.scope, p.value, p.created_at, p.until, p.reason, p.actor FROM router.pauses p
WHERE p.until IS NULL OR p.until > now() ORDER BY p.id";

/// `$1` scope, `$2` value. Two operators at once: the second sees what the first has made.
const REPLACED: &str = "-- pauses_replaced
SELECT p.scope, p.value, p.created_at, p.until, p.reason, p.actor FROM router.pauses p
WHERE p.scope = $1 AND p.value = $2 FOR UPDATE";

/// `$1` scope, `$2` value, `$3` until, `$4` reason, `$5` actor. A new pause replaces the old one of the same scope.
const PUT: &str = "-- pauses_put
INSERT INTO router.pauses (scope, value, until, reason, actor, created_at)
VALUES ($1, $2, $3, $4, $5, clock_timestamp())
ON CONFLICT (scope, value) DO UPDATE SET until = EXCLUDED.until, reason = EXCLUDED.reason, actor = EXCLUDED.actor,
  created_at = EXCLUDED.created_at
RETURNING scope, value, created_at, until, reason, actor";

const REMOVE: &str = "-- pauses_remove
DELETE FROM router.pauses p WHERE ($1::text IS NULL OR (p.scope = $1 AND p.value = $2))
RETURNING p.scope, p.value, p.created_at, p.until, p.reason, p.actor";

/// `$1` id, `$2` worker, `$3` host, `$4` when the daemon read the pauses, `$5` seconds after which a daemon is forgotten.
const BEAT: &str = "-- daemons_beat
WITH gone AS (
  DELETE FROM router.daemons d WHERE d.seen_at < now() - make_interval(secs => $5) AND d.id <> $1
)
INSERT INTO router.daemons (id, worker, host, seen_at, pauses_at) VALUES ($1, $2, $3, clock_timestamp(), $4)
ON CONFLICT (id) DO UPDATE SET seen_at = EXCLUDED.seen_at, pauses_at = EXCLUDED.pauses_at";

const DAEMONS: &str = "-- daemons_list
SELECT d.id, d.worker, d.host, d.seen_at, d.pauses_at FROM router.daemons d ORDER BY d.worker, d.id";

/// `$1` id.
const LEAVE: &str = "-- daemons_leave
DELETE FROM router.daemons d WHERE d.id = $1";

/// The pause store's first answer: its time, and which tables this database has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shelf {
    /// Database time.
    pub now: Timestamp,
    /// Whether pauses are kept in this database.
    pub pauses: bool,
    /// Whether the daemons' signs of life are kept in this database.
    pub daemons: bool,
}

/// The pause store in the database.
#[derive(Debug, Clone)]
pub struct PauseTable {
    pool: Pool,
}

impl PauseTable {
    /// A store over `pool`.
    #[must_use]
    pub fn new(pool: Pool) -> Self {
        Self { pool }
    }

    /// Database time, and what is kept in this database.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn now(&self) -> Result<Shelf, DbError> {
        let client = self.pool.get().await?;
        let row = client.query_one(&client.prepare_cached(NOW).await?, &[]).await?;
        Ok(Shelf { now: row.try_get("now")?, pauses: row.try_get("kept")?, daemons: row.try_get("daemons")? })
    }

    /// Pauses in force.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn list(&self) -> Result<Vec<Pause>, DbError> {
        let client = self.pool.get().await?;
        let rows = client.query(&client.prepare_cached(LIST).await?, &[]).await?;
        rows.iter().map(pause).collect()
    }

    /// Adds a pause; answers it, and the older one of the same scope that it replaces.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn put(&self, new: &Pause) -> Result<(Pause, Option<Pause>), DbError> {
        let (scope, value) = (new.scope.label(), new.scope.value());
        self.pool
            .transaction("pauses_put", async |tx| {
                let replaced = tx.prepare_cached(REPLACED).await?;
                let put = tx.prepare_cached(PUT).await?;
                let replaced = tx.query_opt(&replaced, &[&scope, &value]).await?;
                let row = tx.query_one(&put, &[&scope, &value, &new.until, &new.reason, &new.actor]).await?;
                Ok((pause(&row)?, replaced.as_ref().map(pause).transpose()?))
            })
            .await
    }

    /// Removes the pause of this scope, or all of them; answers what was removed.
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

    /// Writes a daemon's sign of life: it goes by the pauses as they were at `pauses_at`. Forgets long-gone daemons.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn beat(&self, of: &Identity, pauses_at: Option<Timestamp>) -> Result<(), DbError> {
        let client = self.pool.get().await?;
        let forgotten = FORGOTTEN.as_secs_f64();
        let statement = client.prepare_cached(BEAT).await?;
        client.query(&statement, &[&of.id, &of.worker, &of.host, &pauses_at, &forgotten]).await?;
        Ok(())
    }

    /// Removes a daemon that stops.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn leave(&self, id: Uuid) -> Result<(), DbError> {
        let client = self.pool.get().await?;
        client.query(&client.prepare_cached(LEAVE).await?, &[&id]).await?;
        Ok(())
    }

    /// The daemons' signs of life.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn daemons(&self) -> Result<Vec<Presence>, DbError> {
        let client = self.pool.get().await?;
        let rows = client.query(&client.prepare_cached(DAEMONS).await?, &[]).await?;
        let presence = |row: &Row| {
            Ok(Presence {
                of: Identity {
                    id: row.try_get("id")?,
                    worker: row.try_get("worker")?,
                    host: row.try_get("host")?,
                },
                seen_at: row.try_get("seen_at")?,
                pauses_at: row.try_get("pauses_at")?,
            })
        };
        rows.iter().map(presence).collect()
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
