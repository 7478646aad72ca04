//! Faults of what guards a room's tables: triggers that are missing or disabled, and rights that the role lacks or should not have.

use crate::db::error::DbError;
use crate::db::pool::Client;

/// Faults of triggers, given by name and table.
///
/// # Errors
/// [`DbError`]: the lines before must be mended first.
pub async fn trigger_faults(client: &Client, triggers: &[(&str, &str)]) -> Result<Vec<String>, DbError> {
    let sql = "SELECT t.tgenabled IN ('O', 'A') AS enabled FROM pg_trigger t
               WHERE t.tgrelid = to_regclass($2) AND t.tgname = $1::text AND NOT t.tgisinternal";
    let mut faults = Vec::new();
    for (trigger, table) in triggers {
        match client.query_opt(sql, &[trigger, table]).await?.map(|row| row.get::<_, bool>("enabled")) {
            Some(true) => {}
            Some(false) => faults.push(format!("trigger {trigger} on {table} is disabled")),
            None => faults.push(format!("trigger {trigger} on {table} is missing")),
        }
    }
    Ok(faults)
}

/// Faults of rights on tables, given by table, privilege, and whether the role needs it or must not have it.
///
/// # Errors
/// [`DbError`]: the lines before must be mended first.
pub async fn right_faults(client: &Client, rights: &[(&str, &str, bool)]) -> Result<Vec<String>, DbError> {
    let sql = "SELECT n.p || ' on ' || n.t AS which, n.wanted
               FROM unnest($1::text[], $2::text[], $3::boolean[]) AS n (t, p, wanted)
               WHERE COALESCE(has_table_privilege(to_regclass(n.t), n.p), false) <> n.wanted ORDER BY 1";
    let tables: Vec<&str> = rights.iter().map(|(table, ..)| *table).collect();
    let privileges: Vec<&str> = rights.iter().map(|(_, privilege, _)| *privilege).collect();
    let wanted: Vec<bool> = rights.iter().map(|(.., wanted)| *wanted).collect();
    let rows = client.query(sql, &[&tables, &privileges, &wanted]).await?;
    let fault = |row: &tokio_postgres::Row| {
        let (which, wanted): (String, bool) = (row.get("which"), row.get("wanted"));
        if wanted {
            format!("this role has no {which}")
        } else {
            format!("this role has {which}, and should not")
        }
    };
    Ok(rows.iter().map(fault).collect())
}
