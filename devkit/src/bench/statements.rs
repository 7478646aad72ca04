//! Where PostgreSQL spends its time, by statement: `pg_stat_statements`, which costs some.

use anyhow::Result;
use tokio_postgres::Client;

/// What a cluster needs for it, beside [`super::server_settings`].
pub(crate) fn settings() -> impl Iterator<Item = (String, String)> {
    [("shared_preload_libraries", "pg_stat_statements"), ("pg_stat_statements.track_planning", "on")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into_iter()
}

/// Begins to count in this database.
///
/// # Errors
/// PostgreSQL does not have the extension.
pub(crate) async fn counted(superuser: &Client) -> Result<()> {
    let sql = "CREATE EXTENSION IF NOT EXISTS pg_stat_statements; SELECT pg_stat_statements_reset()";
    Ok(superuser.batch_execute(sql).await?)
}

/// The dearest statements of this database, a line each.
///
/// # Errors
/// [`counted`] was not called.
pub(crate) async fn dearest(superuser: &Client) -> Result<Vec<String>> {
    // The first line is the statement's name, where it has one.
    let sql = "SELECT format('%s calls, %s ms each (%s ms planning), %s ms in all: %s', calls,
          round((total_exec_time / calls)::numeric, 4), round((total_plan_time / calls)::numeric, 4),
          round((total_exec_time + total_plan_time)::numeric), left(split_part(query, E'\\n', 1), 60))
        FROM pg_stat_statements WHERE calls > 0 AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
        ORDER BY total_exec_time + total_plan_time DESC LIMIT 14";
    Ok(superuser.query(sql, &[]).await?.iter().map(|row| row.get(0)).collect())
}
