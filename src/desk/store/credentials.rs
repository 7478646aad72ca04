//! Links, sessions and tokens, each by its keyed digest. Times are the database's.
//!
//! Each call is one transaction. If we die before its commit nothing happened: a link is not spent, nobody is logged out.

use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::Row;

use crate::db::{DbError, Pool, Transaction};
use crate::desk::access::Role;
use crate::desk::access::credential::{KeyedDigest, Kind};
use crate::desk::access::life::Times;

/// `$1` digest, `$2` kind, `$3` user, `$4` role cap, `$5` label, `$6` life in seconds.
const MAKE: &str = "-- desk_credential_make
INSERT INTO router.desk_credentials (digest, kind, user_name, role_cap, label, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5, now(), now() + make_interval(secs => $6))
RETURNING expires_at";

/// `$1` digest. Of two at once the second waits for the first's lock, and then finds it ended.
const SPEND: &str = "-- desk_credential_spend
UPDATE router.desk_credentials c SET ended_at = now(), last_used_at = now()
WHERE c.digest = $1 AND c.kind = 'link' AND c.ended_at IS NULL AND c.expires_at > now()
RETURNING c.user_name";

/// `$1` digest, `$2` kind.
const FIND: &str = "-- desk_credential_find
SELECT c.user_name, c.role_cap, c.created_at, c.expires_at, c.last_used_at, c.ended_at, now() AS now
FROM router.desk_credentials c WHERE c.digest = $1 AND c.kind = $2";

/// `$1` digest.
const TOUCH: &str = "-- desk_credential_touch
UPDATE router.desk_credentials c SET last_used_at = now() WHERE c.digest = $1 AND c.ended_at IS NULL";

/// `$1` digest.
const END: &str = "-- desk_credential_end
UPDATE router.desk_credentials c SET ended_at = now()
WHERE c.digest = $1 AND c.ended_at IS NULL AND c.expires_at > now()";

/// `$1` at most.
const LIST: &str = "-- desk_credential_list
SELECT c.digest, c.kind, c.user_name, c.role_cap, c.label, c.created_at, c.expires_at, c.last_used_at, c.ended_at, now() AS now
FROM router.desk_credentials c WHERE c.ended_at IS NULL AND c.expires_at > now()
ORDER BY c.user_name, c.created_at, c.digest LIMIT $1";

/// `$1` at most.
const PRUNE: &str = "-- desk_credential_prune
DELETE FROM router.desk_credentials c WHERE c.digest IN (
  SELECT x.digest FROM router.desk_credentials x WHERE x.expires_at < now()
  ORDER BY x.expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)";

/// Most credentials that a list shows.
const MOST: i64 = 10_000;

/// The credentials of one database. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Credentials {
    pool: Pool,
}

/// A credential to be kept.
#[derive(Debug, Clone, Copy)]
pub struct NewCredential<'a> {
    /// Its digest.
    pub digest: &'a KeyedDigest,
    /// Its kind.
    pub kind: Kind,
    /// Whom it stands for.
    pub user: &'a str,
    /// The highest role it gives; absent: the user's.
    pub role_cap: Option<Role>,
    /// What an operator calls it.
    pub label: &'a str,
    /// How long it counts.
    pub life: Duration,
}

/// A credential as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Whom it stands for.
    pub user: String,
    /// The highest role it gives.
    pub role_cap: Option<Role>,
    /// Its times.
    pub times: Times,
    /// Database time of the look.
    pub now: Timestamp,
}

/// A credential as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its digest, which names it.
    pub digest: KeyedDigest,
    /// Its kind.
    pub kind: Kind,
    /// What an operator calls it.
    pub label: String,
    /// The rest.
    pub found: Found,
}

impl Credentials {
    /// The credentials behind `pool`.
    #[must_use]
    pub fn new(pool: Pool) -> Self {
        Self { pool }
    }

    /// Keeps a credential, and returns when it expires.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn make(&self, new: NewCredential<'_>) -> Result<Timestamp, DbError> {
        self.pool.keyed_transaction("desk_credential", async |tx| make(&tx, &new).await).await
    }

    /// Spends a link and makes the session of its user, unless `session` answers none. `old` is the session that the browser
    /// had, which ends. Returns the link's user, where the link counted.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn log_in(
        &self,
        link: &KeyedDigest,
        old: Option<&KeyedDigest>,
        session: impl Fn(&str) -> Option<(KeyedDigest, Duration)> + Sync,
    ) -> Result<Option<String>, DbError> {
        self.pool
            .keyed_transaction("desk_login", async |tx| {
                let spend = tx.prepare_cached(SPEND).await?;
                let Some(row) = tx.query_opt(&spend, &[&link.bytes()]).await? else { return Ok(None) };
                let user: String = row.try_get("user_name")?;
                if let Some((digest, life)) = session(&user) {
                    if let Some(old) = old {
                        tx.execute(&tx.prepare_cached(END).await?, &[&old.bytes()]).await?;
                    }
                    let kind = Kind::Session;
                    let new =
                        NewCredential { digest: &digest, kind, user: &user, role_cap: None, label: "", life };
                    make(&tx, &new).await?;
                }
                Ok(Some(user))
            })
            .await
    }

    /// Returns a credential, alive or not; `is_used` decides whether its use is written down.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn find(
        &self,
        kind: Kind,
        digest: &KeyedDigest,
        is_used: impl Fn(&Found) -> bool + Sync,
    ) -> Result<Option<Found>, DbError> {
        self.pool
            .keyed_transaction("desk_visitor", async |tx| {
                let find = tx.prepare_cached(FIND).await?;
                let row = tx.query_opt(&find, &[&digest.bytes(), &kind.label()]).await?;
                let Some(found) = row.as_ref().map(found).transpose()? else { return Ok(None) };
                if is_used(&found) {
                    tx.execute(&tx.prepare_cached(TOUCH).await?, &[&digest.bytes()]).await?;
                }
                Ok(Some(found))
            })
            .await
    }

    /// Ends a credential. Returns whether it counted until now.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn end(&self, digest: &KeyedDigest) -> Result<bool, DbError> {
        self.pool
            .keyed_transaction("desk_credential", async |tx| {
                Ok(tx.execute(&tx.prepare_cached(END).await?, &[&digest.bytes()]).await? == 1)
            })
            .await
    }

    /// Returns what has neither ended nor expired, by user and age. Sessions that rested too long are among them.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn list(&self) -> Result<Vec<Listed>, DbError> {
        self.pool
            .transaction("desk_credential", async |tx| {
                let rows = tx.query(&tx.prepare_cached(LIST).await?, &[&MOST]).await?;
                rows.iter().map(listed).collect()
            })
            .await
    }

    /// Deletes at most so many that have expired, and returns how many.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn prune(&self, most: i64) -> Result<u64, DbError> {
        self.pool
            .transaction("desk_prune", async |tx| {
                tx.execute(&tx.prepare_cached(PRUNE).await?, &[&most]).await
            })
            .await
    }
}

async fn make(tx: &Transaction, new: &NewCredential<'_>) -> Result<Timestamp, DbError> {
    let NewCredential { digest, kind, user, role_cap, label, life } = *new;
    let statement = tx.prepare_cached(MAKE).await?;
    let cap = role_cap.map(Role::label);
    let row = tx
        .query_one(&statement, &[&digest.bytes(), &kind.label(), &user, &cap, &label, &life.as_secs_f64()])
        .await?;
    Ok(row.try_get("expires_at")?)
}

fn found(row: &Row) -> Result<Found, DbError> {
    let cap: Option<&str> = row.try_get("role_cap")?;
    let cap =
        cap.map(|cap| Role::parse(cap).ok_or_else(|| DbError::Shape(format!("an unknown role, {cap:?}"))));
    Ok(Found {
        user: row.try_get("user_name")?,
        role_cap: cap.transpose()?,
        times: Times {
            created_at: row.try_get("created_at")?,
            expires_at: row.try_get("expires_at")?,
            last_used_at: row.try_get("last_used_at")?,
            ended_at: row.try_get("ended_at")?,
        },
        now: row.try_get("now")?,
    })
}

fn listed(row: &Row) -> Result<Listed, DbError> {
    let (digest, kind): (&[u8], &str) = (row.try_get("digest")?, row.try_get("kind")?);
    let shape = |what: &str| DbError::Shape(format!("a credential of an unknown {what}"));
    Ok(Listed {
        digest: KeyedDigest::try_from(digest).map_err(|_| shape("digest"))?,
        kind: Kind::parse(kind).ok_or_else(|| shape("kind"))?,
        label: row.try_get("label")?,
        found: found(row)?,
    })
}
