//! Line `router_schema`: which parts of the schema exist, and whether the outbox can be relied on.
//!
//! Judged from the catalogs. The line must not fail open: a missing or disabled trigger, or functions that do not see every
//! row, mean that events are never written or written too early.

use futures::FutureExt as _;

use crate::db::DbError;
use crate::db::contract::{Check, ContractOptions, Look, NO_OUTBOX};
use crate::db::migrations::online::INDEXES;
use crate::db::pool::Client;
use crate::db::router;
use crate::ports::CheckLine;

const NAME: &str = "router_schema";
/// The outbox's lines of `check`.
pub const CHECKS: &[Check] = &[Check {
    line: NAME,
    order: 70,
    look: Look::Database(|client, options| schema(client, options).boxed()),
}];
const MIGRATE: &str = "as the owner: maple-router migrate --router";

/// Triggers of 002, and their tables; the last exists only with a finalized column.
const TRIGGERS: [(&str, &str); 6] = [
    ("router_finalized", "submissions"),
    ("router_replayed", "submissions"),
    ("router_scanned", "attachments"),
    ("router_found_infected", "attachments"),
    ("router_removed", "attachments"),
    (LATER, "submissions"),
];
const LATER: &str = "router_finalized_later";

async fn schema(client: &Client, options: &ContractOptions) -> Result<CheckLine, DbError> {
    let there: bool = client.query_one(router::OUTBOX, &[]).await?.try_get("there")?;
    if options.needs_outbox && !there {
        return Ok(CheckLine::fail(NAME, NO_OUTBOX, MIGRATE));
    }
    let sql = "SELECT to_regnamespace('router') IS NOT NULL,
                      COALESCE(has_schema_privilege(to_regnamespace('router'), 'USAGE'), false)";
    let row = client.query_one(sql, &[]).await?;
    let (there, usable): (bool, bool) = (row.get(0), row.get(1));
    if !there {
        return Ok(CheckLine::ok(
            NAME,
            "absent (optional): dead-letter records and pauses live in the state directory and count for this host alone; \
             whoever finalizes or scans has to publish its events, or the sweep finds them",
        ));
    }
    // Tables of a schema without USAGE cannot even be looked up.
    if !usable || !may(client, &RECORDS).await?.is_empty() {
        return Ok(CheckLine::warn(
            NAME,
            "present, but this role may not use it, or its tables are not there",
            MIGRATE,
        ));
    }
    if !client.query_one("SELECT to_regclass('router.outbox') IS NOT NULL", &[]).await?.get::<_, bool>(0) {
        return Ok(CheckLine::warn(
            NAME,
            "present, without the outbox (002): whoever finalizes or scans has to publish its events, or the sweep finds \
             them",
            MIGRATE,
        ));
    }
    outbox(client, options).await
}

const RECORDS: [(&str, &str); 7] = [
    ("router.dead_letters", "SELECT"),
    ("router.dead_letters", "INSERT"),
    ("router.dead_letters", "UPDATE"),
    ("router.pauses", "SELECT"),
    ("router.pauses", "INSERT"),
    ("router.pauses", "UPDATE"),
    ("router.pauses", "DELETE"),
];

const OUTBOX: [(&str, &str); 7] = [
    ("router.outbox", "SELECT"),
    ("router.outbox", "INSERT"),
    ("router.outbox", "UPDATE"),
    ("router.outbox", "DELETE"),
    ("router.transitions", "SELECT"),
    ("router.transitions", "INSERT"),
    ("router.transitions", "DELETE"),
];

const DAEMONS: [(&str, &str); 4] = [
    ("router.daemons", "SELECT"),
    ("router.daemons", "INSERT"),
    ("router.daemons", "UPDATE"),
    ("router.daemons", "DELETE"),
];

/// Returns the privileges that are missing, or whose table is.
async fn may(client: &Client, needed: &[(&str, &str)]) -> Result<Vec<String>, DbError> {
    let sql = "SELECT n.p || ' on ' || n.t FROM unnest($1::text[], $2::text[]) AS n (t, p)
               WHERE NOT COALESCE(has_table_privilege(to_regclass(n.t), n.p), false) ORDER BY 1";
    let (tables, privileges): (Vec<&str>, Vec<&str>) = needed.iter().copied().unzip();
    Ok(client.query(sql, &[&tables, &privileges]).await?.iter().map(|row| row.get(0)).collect())
}

async fn outbox(client: &Client, options: &ContractOptions) -> Result<CheckLine, DbError> {
    let mut faults = triggers(client, options).await?;
    faults.extend(functions(client).await?);
    if let Some(fault) = finalized(client, options).await? {
        faults.push(fault);
    }
    let missing = may(client, &OUTBOX).await?;
    if !missing.is_empty() {
        faults.push(format!("this role has no {}", missing.join(", ")));
    }
    if !faults.is_empty() {
        return Ok(CheckLine::fail(
            NAME,
            format!("present, but events may be missing, or come too early: {}", faults.join("; ")),
            "as the owner: maple-router migrate --router; where that changes nothing, enable the triggers (ALTER TABLE … \
             ENABLE TRIGGER), or take it back and apply it anew (migrate --router --back 002)",
        ));
    }
    let names: Vec<&str> = INDEXES.iter().map(|(name, _)| *name).collect();
    let sql = "SELECT n FROM unnest($1::text[]) AS n LEFT JOIN pg_index i ON i.indexrelid = to_regclass('public.' || n)
               WHERE i.indisvalid IS NOT TRUE ORDER BY 1";
    let slow: Vec<String> = client.query(sql, &[&names]).await?.iter().map(|row| row.get(0)).collect();
    if !slow.is_empty() {
        let detail =
            format!("present, with the outbox, but sweeps are slow without index {}", slow.join(", "));
        return Ok(CheckLine::warn(NAME, detail, MIGRATE));
    }
    if !may(client, &DAEMONS).await?.is_empty() {
        return Ok(CheckLine::warn(
            NAME,
            "present, with the outbox, but without router.daemons (003) or a right to it: a transaction that makes a submission \
             ready cannot be prepared (PREPARE TRANSACTION), and `pause` is confirmed by the daemons of its own host alone",
            MIGRATE,
        ));
    }
    Ok(CheckLine::ok(
        NAME,
        "present, with the outbox: the database writes an event when a submission becomes ready",
    ))
}

async fn triggers(client: &Client, options: &ContractOptions) -> Result<Vec<String>, DbError> {
    let sql = "SELECT t.tgenabled IN ('O', 'A') FROM pg_trigger t
               WHERE t.tgrelid = to_regclass($2) AND t.tgname = $1::text AND NOT t.tgisinternal AND t.tgconstraint <> 0
                 AND t.tgdeferrable AND t.tginitdeferred";
    let mut faults = Vec::new();
    for (name, table) in TRIGGERS {
        if name == LATER && options.finalized_column.is_none() {
            continue;
        }
        match client.query_opt(sql, &[&name, &table]).await?.map(|row| row.get(0)) {
            Some(true) => {}
            Some(false) => faults.push(format!("trigger {name} on {table} is disabled")),
            None => faults.push(format!("trigger {name} on {table} is missing")),
        }
    }
    Ok(faults)
}

/// The functions run as their owner: row-level security must not bind that role.
async fn functions(client: &Client) -> Result<Vec<String>, DbError> {
    let sql = "SELECT p.proname::text, p.prosecdef, r.rolname::text,
                 (SELECT string_agg(c.relname, ', ' ORDER BY c.relname) FROM pg_class c
                   WHERE c.oid IN (to_regclass('submissions'), to_regclass('attachments')) AND c.relrowsecurity
                     AND NOT (r.rolsuper OR r.rolbypassrls)
                     AND (c.relforcerowsecurity OR NOT pg_has_role(p.proowner, c.relowner, 'USAGE')))
               FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner
               WHERE p.pronamespace = to_regnamespace('router')
                 AND p.proname IN ('on_submission', 'on_attachment', 'evaluate_routing_readiness')";
    let mut faults = Vec::new();
    for row in client.query(sql, &[]).await? {
        let (name, definer, owner, bound): (String, bool, String, Option<String>) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        if !definer {
            faults.push(format!("function router.{name} is not SECURITY DEFINER"));
        }
        if let Some(tables) = bound {
            faults.push(format!(
                "row-level security may hide rows of {tables} from {owner}, who owns router.{name}"
            ));
        }
    }
    Ok(faults)
}

async fn finalized(client: &Client, options: &ContractOptions) -> Result<Option<String>, DbError> {
    let sql = "SELECT p.prosrc FROM pg_proc p WHERE p.pronamespace = to_regnamespace('router') AND p.proname = 'is_finalized'";
    let Some(row) = client.query_opt(sql, &[]).await? else {
        return Ok(Some("function router.is_finalized is missing".to_owned()));
    };
    let goes_by: String = row.get(0);
    let expected = match &options.finalized_column {
        None => "SELECT true".to_owned(),
        Some(column) => {
            let sql = "SELECT format('SELECT s.%I IS NOT NULL', $1::text)";
            client.query_one(sql, &[column]).await?.get(0)
        }
    };
    let configured = options.finalized_column.as_deref().unwrap_or("none");
    let differs = || {
        format!(
            "its triggers go by another finalized column than [readiness] finalized_column, which is {configured}"
        )
    };
    Ok((goes_by != expected).then(differs))
}
