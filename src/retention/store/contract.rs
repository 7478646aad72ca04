//! Line `retention`: whether nothing is removed that should not be, and what is removed leaves its receipt.
//!
//! Judged from the catalogs. The line must not fail open: without a trigger an object could go while something refers to it, and a
//! daemon that may empty rows is no longer the one that cannot.

use futures::FutureExt as _;

use super::sql::{STANDING, THERE};
use crate::db::DbError;
use crate::db::contract::guards::{right_faults, trigger_faults};
use crate::db::contract::{Check, ContractOptions, Look};
use crate::db::pool::Client;
use crate::ports::CheckLine;

const NAME: &str = "retention";
/// The line of `check` that the database answers.
pub const CHECK: Check =
    Check { line: NAME, order: 79, look: Look::Database(|client, options| content(client, options).boxed()) };

/// Triggers that keep what is referred to, and their tables.
const TRIGGERS: [(&str, &str); 6] = [
    ("guard", "content.blobs"),
    ("guard", "content.blob_refs"),
    ("unref", "content.blob_refs"),
    ("content_refs", "public.attachments"),
    ("guard", "content.receipts"),
    ("guard_whole", "content.receipts"),
];

/// What the daemon needs, and what it must not have: it looks, and places holds by the function alone.
const RIGHTS: [(&str, &str, bool); 14] = [
    ("content.gc_runs", "SELECT", true),
    ("content.gc_runs", "INSERT", false),
    ("content.gc_runs", "UPDATE", false),
    ("content.retention", "SELECT", true),
    ("content.retention", "INSERT", false),
    ("content.retention", "UPDATE", false),
    ("content.holds", "SELECT", true),
    ("content.holds", "UPDATE", false),
    ("content.holds", "DELETE", false),
    ("content.receipts", "SELECT", true),
    ("content.receipts", "INSERT", false),
    ("content.receipts", "UPDATE", false),
    ("content.receipts", "DELETE", false),
    ("content.blobs", "DELETE", false),
];

/// Whether this role may call a function, and whether it should.
const CALLS: [(&str, bool); 5] = [
    ("content.purge(uuid[],text,text,bigint)", false),
    ("content.move_recalled(uuid,bigint)", false),
    ("content.write_receipts(text,text[],text,bigint,jsonb[])", false),
    ("content.place_hold(text,text,text,text)", true),
    ("content.kept(uuid)", true),
];

/// Whether the planner has what finds due submissions.
const INDEXES: &str =
    "SELECT n FROM unnest($1::text[]) AS n LEFT JOIN pg_index i ON i.indexrelid = to_regclass('public.' || n)
WHERE i.indisvalid IS NOT TRUE ORDER BY 1";

/// Functions that run as their owner, where row-level security binds that role.
const FUNCTIONS: &str = "SELECT p.proname::text, r.rolname::text, string_agg(c.relname, ', ' ORDER BY c.relname)
FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner
JOIN pg_class c ON c.oid IN (to_regclass('submissions'), to_regclass('submission_fields'), to_regclass('attachments')) AND c.relrowsecurity
  AND NOT (r.rolsuper OR r.rolbypassrls) AND (c.relforcerowsecurity OR NOT pg_has_role(p.proowner, c.relowner, 'USAGE'))
WHERE p.pronamespace = to_regnamespace('content') AND p.proname IN ('purge', 'judged', 'refer', 'due_submissions', 'submissions_with')
GROUP BY 1, 2 ORDER BY 1";

async fn content(client: &Client, _: &ContractOptions) -> Result<CheckLine, DbError> {
    if !client.query_one(THERE, &[]).await?.try_get::<_, bool>("there")? {
        return Ok(CheckLine::ok(
            NAME,
            "absent (optional): nothing is ever removed; 003 of schema content brings it",
        ));
    }
    let mut faults = trigger_faults(client, &TRIGGERS).await?;
    faults.extend(right_faults(client, &RIGHTS).await?);
    for (function, wanted) in CALLS {
        let sql =
            "SELECT COALESCE(has_function_privilege(to_regprocedure($1::text), 'EXECUTE'), false) AS may";
        let may: bool = client.query_one(sql, &[&function]).await?.try_get("may")?;
        match (may, wanted) {
            (true, false) => faults.push(format!("this role may call {function}, and should not")),
            (false, true) => faults.push(format!("this role may not call {function}")),
            (true, true) | (false, false) => {}
        }
    }
    for row in client.query(FUNCTIONS, &[]).await? {
        let (name, owner, bound): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        faults.push(format!(
            "row-level security may hide rows of {bound} from {owner}, who owns content.{name}"
        ));
    }
    if !faults.is_empty() {
        let remedy = "as the owner: maple-router migrate --content; where that changes nothing, enable the triggers (ALTER TABLE … \
                      ENABLE TRIGGER), grant or revoke what is named (rb-013)";
        return Ok(CheckLine::fail(
            NAME,
            format!("present, but not as it should be: {}", faults.join("; ")),
            remedy,
        ));
    }
    let names: Vec<&str> =
        crate::db::migrations::online::CONTENT_INDEXES.iter().map(|(name, _)| *name).collect();
    let slow: Vec<String> = client.query(INDEXES, &[&names]).await?.iter().map(|row| row.get(0)).collect();
    if !slow.is_empty() {
        let detail = format!("present, but a run is slow without index {}", slow.join(", "));
        return Ok(CheckLine::warn(NAME, detail, "as the owner: maple-router migrate --content"));
    }
    let row = client.query_one(STANDING, &[]).await?;
    let (holds, rules): (i64, i64) = (row.try_get("holds")?, row.try_get("rules")?);
    let since: Option<f64> = row.try_get("since_done")?;
    let ran = match since {
        None => "no run has come to its end yet".to_owned(),
        Some(since) => {
            let since = std::time::Duration::try_from_secs_f64(since.max(0.0)).unwrap_or_default();
            format!("the last run ended {} ago", crate::ops::alerting::message::span(since))
        }
    };
    let kept = if rules == 0 {
        "no form says how long it keeps (retention set)".to_owned()
    } else {
        format!("{rules} rules")
    };
    Ok(CheckLine::ok(NAME, format!("present: {kept}, {holds} holds, {ran}")))
}
