//! Answers that are kept for a repeated request. Written in the transaction of what they answer for: either both are there, or
//! neither; whoever sends the same key meanwhile waits for its lock, and then finds the answer.

use serde_json::Value;

use crate::db::{DbError, Pool, Transaction};
use crate::desk::access::credential::KeyedDigest;
use crate::web::idempotency::{Kept, Key, Once};

/// `$1` user, `$2` key. Locks nothing that is there yet: two first requests must not both be first. User names have no colon.
const LOCK: &str = "-- desk_idempotency_lock
SELECT pg_advisory_xact_lock(hashtextextended($1 || ':' || $2, 7005))";

/// `$1` user, `$2` key.
const READ: &str = "-- desk_idempotency_read
SELECT i.request, i.status, i.response FROM router.desk_idempotency i
WHERE i.user_name = $1 AND i.key = $2 AND i.created_at > now() - interval '24 hours'";

/// `$1` user, `$2` key.
const FORGET: &str = "-- desk_idempotency_forget
DELETE FROM router.desk_idempotency i
WHERE i.user_name = $1 AND i.key = $2 AND i.created_at <= now() - interval '24 hours'";

/// `$1` user, `$2` key, `$3` digest of the request, `$4` status, `$5` answer.
const KEEP: &str = "-- desk_idempotency_keep
INSERT INTO router.desk_idempotency (user_name, key, request, status, response, created_at)
VALUES ($1, $2, $3, $4, $5, now())";

/// `$1` user, `$2` key.
const DROP: &str = "-- desk_idempotency_drop
DELETE FROM router.desk_idempotency i WHERE i.user_name = $1 AND i.key = $2";

/// `$1` at most.
const PRUNE: &str = "-- desk_idempotency_prune
DELETE FROM router.desk_idempotency i WHERE (i.user_name, i.key) IN (
  SELECT x.user_name, x.key FROM router.desk_idempotency x WHERE x.created_at <= now() - interval '24 hours'
  ORDER BY x.created_at LIMIT $1)";

/// Asks whether this request was answered before. Called first in the command's own transaction; a second request with the same
/// key waits here until the first has committed.
///
/// # Errors
/// [`DbError`].
pub async fn once(tx: &Transaction, user: &str, key: &Key, request: &KeyedDigest) -> Result<Once, DbError> {
    let key = key.as_str();
    tx.query_one(&tx.prepare_cached(LOCK).await?, &[&user, &key]).await?;
    let Some(row) = tx.query_opt(&tx.prepare_cached(READ).await?, &[&user, &key]).await? else {
        tx.execute(&tx.prepare_cached(FORGET).await?, &[&user, &key]).await?;
        return Ok(Once::Fresh);
    };
    let same: &[u8] = row.try_get("request")?;
    if same != request.bytes() {
        return Ok(Once::Mismatch);
    }
    let status: i32 = row.try_get("status")?;
    let status = u16::try_from(status).map_err(|_| DbError::Shape(format!("a kept status of {status}")))?;
    Ok(Once::Kept(Kept { status, response: row.try_get("response")? }))
}

/// Keeps the answer of a request that [`once`] called fresh, in the same transaction.
///
/// # Errors
/// [`DbError`].
pub async fn keep(
    tx: &Transaction,
    user: &str,
    key: &Key,
    request: &KeyedDigest,
    kept: &Kept,
) -> Result<(), DbError> {
    let Kept { status, response } = kept;
    let response: &Value = response;
    let parameters: [&dyn crate::db::Parameter; 5] =
        [&user, &key.as_str(), &request.bytes(), &i32::from(*status), &response];
    tx.execute(&tx.prepare_cached(KEEP).await?, &parameters).await?;
    Ok(())
}

/// Keeps an answer in the place of what was kept under the key before, in the transaction of [`once`].
///
/// # Errors
/// [`DbError`].
pub async fn keep_instead(
    tx: &Transaction,
    user: &str,
    key: &Key,
    request: &KeyedDigest,
    kept: &Kept,
) -> Result<(), DbError> {
    tx.execute(&tx.prepare_cached(DROP).await?, &[&user, &key.as_str()]).await?;
    keep(tx, user, key, request, kept).await
}

/// Deletes at most so many answers that are kept no longer, and returns how many.
///
/// # Errors
/// [`DbError`].
pub async fn prune(pool: &Pool, most: i64) -> Result<u64, DbError> {
    pool.transaction("desk_prune", async |tx| tx.execute(&tx.prepare_cached(PRUNE).await?, &[&most]).await)
        .await
}
