//! What the optional schema `router` offers here, to this role. Reads only.

use super::error::DbError;
use super::pool::Pool;

/// To name a table of a schema that may not be used is an error, so the schema is asked first.
pub(super) const OUTBOX: &str = "-- router_outbox
SELECT CASE WHEN COALESCE(has_schema_privilege(to_regnamespace('router'), 'USAGE'), false)
  THEN COALESCE(has_table_privilege(to_regclass('router.outbox'), 'SELECT'), false)
    AND has_table_privilege(to_regclass('router.outbox'), 'UPDATE') ELSE false END AS there";

/// Whether there is an outbox that this role may use: the database announces by itself what is to be routed.
///
/// # Errors
/// [`DbError`] of a database that does not say.
pub async fn outbox_is_there(pool: &Pool) -> Result<bool, DbError> {
    pool.transaction("router_outbox", async |tx| {
        let statement = tx.prepare_cached(OUTBOX).await?;
        Ok(tx.query_one(&statement, &[]).await?.try_get("there")?)
    })
    .await
}
