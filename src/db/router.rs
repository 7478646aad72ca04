//! The parts of the optional schema `router` that exist for this role. Reads only.

use super::error::DbError;
use super::pool::Pool;

/// Naming a table of a schema without USAGE is an error, so the schema is asked first.
pub(crate) const OUTBOX: &str = "-- router_outbox
SELECT CASE WHEN COALESCE(has_schema_privilege(to_regnamespace('router'), 'USAGE'), false)
  THEN COALESCE(has_table_privilege(to_regclass('router.outbox'), 'SELECT'), false)
    AND has_table_privilege(to_regclass('router.outbox'), 'UPDATE') ELSE false END AS there";

/// Returns whether there is an outbox that this role may use: then the database itself announces submissions to be routed.
///
/// # Errors
/// [`DbError`]: the database gave no answer.
pub async fn outbox_is_there(pool: &Pool) -> Result<bool, DbError> {
    pool.transaction("router_outbox", async |tx| {
        let statement = tx.prepare_cached(OUTBOX).await?;
        Ok(tx.query_one(&statement, &[]).await?.try_get("there")?)
    })
    .await
}
