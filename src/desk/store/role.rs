//! The desk's role: whether it may decide about screening, as line `desk` of `check` asks.

use crate::db::{DbError, Pool};

const MAY_DECIDE: &str = "SELECT has_function_privilege(
  to_regprocedure('screening.decide(uuid, bigint, text, text, text)')::oid, 'EXECUTE') AS may_decide";

/// Whether the role behind `pool` may decide about runs of screening; `None` where no schema screening is.
///
/// # Errors
/// [`DbError`].
pub async fn may_decide(pool: &Pool) -> Result<Option<bool>, DbError> {
    Ok(pool.get().await?.query_one(MAY_DECIDE, &[]).await?.try_get("may_decide")?)
}
