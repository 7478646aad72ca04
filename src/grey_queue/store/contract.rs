//! Line `grey_queue`: whether what waits for a person gets an entry.
//!
//! Judged from the catalogs. The line must not fail open: a trigger that is missing or disabled, or a function that does not
//! see every row, means that failures have no entry until the daemon's reconciliation finds them, or never.

use futures::FutureExt as _;

use super::sql::THERE;
use crate::db::DbError;
use crate::db::contract::guards::{right_faults, trigger_faults};
use crate::db::contract::{Check, ContractOptions, Look};
use crate::db::migrations::online::REVIEW_INDEXES;
use crate::db::pool::Client;
use crate::ports::CheckLine;

const NAME: &str = "grey_queue";
/// The grey queue's lines of `check`.
pub const CHECKS: &[Check] = &[Check {
    line: NAME,
    order: 75,
    look: Look::Database(|client, options| queue(client, options).boxed()),
}];
const MIGRATE: &str = "as the owner: maple-router migrate --router";

/// Triggers of 004, and their tables.
const TRIGGERS: [(&str, &str); 5] = [
    ("router_failed", "submissions"),
    ("router_born_failed", "submissions"),
    ("router_lost_mail", "audit_log"),
    ("grey_queue_dead_letter", "router.dead_letters"),
    ("grey_queue_moved", "router.grey_queue"),
];

/// What the role needs, and what it must not have: history and access log are only appended to, entries are never removed.
const RIGHTS: [(&str, &str, bool); 14] = [
    ("router.grey_queue", "SELECT", true),
    ("router.grey_queue", "UPDATE", true),
    ("router.grey_queue", "INSERT", false),
    ("router.grey_queue", "DELETE", false),
    ("router.grey_queue_state_transitions", "SELECT", true),
    ("router.grey_queue_state_transitions", "INSERT", true),
    ("router.grey_queue_state_transitions", "UPDATE", false),
    ("router.grey_queue_state_transitions", "DELETE", false),
    ("router.grey_queue_occurrences", "SELECT", true),
    ("router.desk_access_log", "INSERT", true),
    ("router.desk_access_log", "UPDATE", false),
    ("router.desk_access_log", "DELETE", false),
    ("router.desk_credentials", "DELETE", true),
    ("router.desk_idempotency", "INSERT", true),
];

async fn queue(client: &Client, _: &ContractOptions) -> Result<CheckLine, DbError> {
    if !client.query_one(THERE, &[]).await?.try_get::<_, bool>("there")? {
        return Ok(CheckLine::ok(
            NAME,
            "absent (optional): what failed waits in its row, and nobody sees who takes care of it; 004 of schema router brings it",
        ));
    }
    let mut faults = trigger_faults(client, &TRIGGERS).await?;
    for row in client.query(FUNCTIONS, &[]).await? {
        let (name, owner, bound): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        faults.push(format!(
            "row-level security may hide rows of {bound} from {owner}, who owns router.{name}"
        ));
    }
    faults.extend(right_faults(client, &RIGHTS).await?);
    if !faults.is_empty() {
        let remedy = "as the owner: maple-router migrate --router; where that changes nothing, enable the triggers (ALTER TABLE … \
                      ENABLE TRIGGER), grant what is missing, or take it back and apply it anew (migrate --router --back 004)";
        return Ok(CheckLine::fail(
            NAME,
            format!("present, but entries may be missing: {}", faults.join("; ")),
            remedy,
        ));
    }
    let names: Vec<&str> = REVIEW_INDEXES.iter().map(|(name, _)| *name).collect();
    let sql = "SELECT n FROM unnest($1::text[]) AS n LEFT JOIN pg_index i ON i.indexrelid = to_regclass('public.' || n)
               WHERE i.indisvalid IS NOT TRUE ORDER BY 1";
    let slow: Vec<String> = client.query(sql, &[&names]).await?.iter().map(|row| row.get(0)).collect();
    if !slow.is_empty() {
        let detail = format!("present, but its reconciliation is slow without index {}", slow.join(", "));
        return Ok(CheckLine::warn(NAME, detail, MIGRATE));
    }
    Ok(CheckLine::ok(NAME, "present: what fails, bounces or becomes a dead letter opens an entry"))
}

/// Functions that run as their owner, where row-level security binds that role.
const FUNCTIONS: &str = "SELECT p.proname::text, r.rolname::text, string_agg(c.relname, ', ' ORDER BY c.relname)
FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner
JOIN pg_class c ON c.oid IN (to_regclass('submissions'), to_regclass('attachments')) AND c.relrowsecurity
  AND NOT (r.rolsuper OR r.rolbypassrls) AND (c.relforcerowsecurity OR NOT pg_has_role(p.proowner, c.relowner, 'USAGE'))
WHERE p.pronamespace = to_regnamespace('router') AND p.proname IN ('failure_of', 'reconcile_grey_queue', 'prune_grey_queue', 'is_under_review')
GROUP BY 1, 2";
