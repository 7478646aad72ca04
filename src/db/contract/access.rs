//! Lines `grants` and `rls_attachments`: may this role do what the daemon does, and does it see every row?
//!
//! Row-level security is judged from the catalogs: an empty answer proves nothing. Only a policy whose condition is
//! literally `true` counts as showing everything; a condition that has to be evaluated might hide a row tomorrow.

use super::ContractOptions;
use super::rows::{FoundSchema, TABLES};
use crate::db::error::DbError;
use crate::db::pool::Client;
use crate::ports::CheckLine;

/// One privilege on a table, and the columns on which it may be granted instead; none: every column of the contract.
struct Need {
    table: &'static str,
    privilege: &'static str,
    columns: &'static [&'static str],
    /// The only command that needs it; absent: the daemon does.
    only_for: Option<&'static str>,
}

const fn need(table: &'static str, privilege: &'static str) -> Need {
    Need { table, privilege, columns: &[], only_for: None }
}

const NEEDS: &[Need] = &[
    need("forms", "SELECT"),
    need("templates", "SELECT"),
    need("actions", "SELECT"),
    need("submissions", "SELECT"),
    Need {
        columns: &["status", "routing_result", "happyfox_status", "updated_at"],
        ..need("submissions", "UPDATE")
    },
    need("submission_fields", "SELECT"),
    need("attachments", "SELECT"),
    Need {
        columns: &["clamav_status"],
        only_for: Some("maple-router mark-attachment"),
        ..need("attachments", "UPDATE")
    },
    Need {
        columns: &["actor", "action", "submission_id", "form_id", "detail"],
        ..need("audit_log", "INSERT")
    },
];

/// What a help desk needs besides: the row says which ticket it became.
const FOR_TICKETS: Need = Need { columns: &["happyfox_ticket_id"], ..need("submissions", "UPDATE") };

/// Privileges that an append-only trail must not grant, not even to us.
const TOO_MUCH: [(&str, &str); 3] =
    [("audit_log", "UPDATE"), ("audit_log", "DELETE"), ("audit_log", "TRUNCATE")];

/// The rows that row-level security lets this role see or write.
enum Rows {
    All,
    /// No row; the reason in words.
    None(String),
    /// Rows that meet a condition, quoted.
    Some(String),
}

pub(super) async fn grants(
    client: &Client,
    found: &FoundSchema,
    options: &ContractOptions,
) -> Result<CheckLine, DbError> {
    let role: String = client.query_one("SELECT quote_ident(current_user)", &[]).await?.get(0);
    let mut missing = Vec::new();
    let mut remedies = Vec::new();
    let mut worth_knowing = Vec::new();
    let needs = NEEDS.iter().chain(options.tickets.then_some(&FOR_TICKETS));
    for need in needs.filter(|need| found.has_table(need.table)) {
        if granted(client, found, need).await? {
            continue;
        }
        remedies.push(format!("GRANT {} ON {} TO {role}", need.privilege, need.table));
        match need.only_for {
            None => missing.push(format!("{} on {}", need.privilege, need.table)),
            Some(what) => {
                worth_knowing.push(format!("no {} on {}: {what} will not work", need.privilege, need.table));
            }
        }
    }
    if let Some(column) = &options.finalized_column
        && found.tables.get("submissions").is_some_and(|columns| columns.contains_key(column))
        && !has_column_privilege(client, "submissions", column, "SELECT").await?
    {
        missing.push(format!("SELECT on submissions.{column}"));
        remedies.push(format!("GRANT SELECT ON submissions TO {role}"));
    }
    for (what, grant) in missing_on_objects(client).await? {
        missing.push(what);
        remedies.push(format!("{grant} TO {role}"));
    }
    for (table, command) in [
        ("submissions", Command::Read),
        ("submissions", Command::Update),
        ("actions", Command::Read),
        ("templates", Command::Read),
        ("forms", Command::Read),
        ("submission_fields", Command::Read),
        ("audit_log", Command::Insert),
    ] {
        if !found.has_table(table) {
            continue;
        }
        match rows(client, table, command).await? {
            Rows::All => {}
            Rows::None(why) => {
                missing.push(format!("{} rows of {table}: {why}", command.verb()));
                remedies.push(command.policy(table, &role));
            }
            Rows::Some(condition) => {
                worth_knowing.push(format!("{} rows of {table} only where {condition}", command.verb()));
            }
        }
    }
    for (table, privilege) in TOO_MUCH.into_iter().filter(|(table, _)| found.has_table(table)) {
        let sql = "SELECT has_table_privilege(to_regclass($1), $2)";
        if client.query_one(sql, &[&table, &privilege]).await?.get(0) {
            worth_knowing
                .push(format!("{privilege} on {table} is more than needed: the trail is append-only"));
            remedies.push(format!("REVOKE {privilege} ON {table} FROM {role}"));
        }
    }
    let remedy = remedies.join("; ");
    if !missing.is_empty() {
        missing.extend(worth_knowing);
        return Ok(CheckLine::fail("grants", format!("{role} lacks {}", missing.join("; ")), remedy));
    }
    if !worth_knowing.is_empty() {
        let remedy = if remedy.is_empty() {
            "see that no open submission can be among the hidden".to_owned()
        } else {
            remedy
        };
        return Ok(CheckLine::warn("grants", worth_knowing.join("; "), remedy));
    }
    Ok(CheckLine::ok("grants", format!("{role} has what the daemon needs and no more")))
}

/// Returns whether the privilege is on the table, or on each of the columns that matter.
async fn granted(client: &Client, found: &FoundSchema, need: &Need) -> Result<bool, DbError> {
    let sql = "SELECT has_table_privilege(to_regclass($1), $2)";
    if client.query_one(sql, &[&need.table, &need.privilege]).await?.get(0) {
        return Ok(true);
    }
    let contract =
        TABLES.iter().find(|(table, _)| *table == need.table).map_or(&[][..], |(_, columns)| *columns);
    let all: Vec<&str> = contract.iter().map(|(column, _)| *column).collect();
    let columns = if need.columns.is_empty() { &all[..] } else { need.columns };
    let existing = columns.iter().filter(|column| found.tables[need.table].contains_key(**column));
    for column in existing {
        if !has_column_privilege(client, need.table, column, need.privilege).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn has_column_privilege(
    client: &Client,
    table: &str,
    column: &str,
    privilege: &str,
) -> Result<bool, DbError> {
    let sql = "SELECT has_column_privilege(to_regclass($1), $2, $3)";
    Ok(client.query_one(sql, &[&table, &column, &privilege]).await?.get(0))
}

/// Schema, types and the sequence of `audit_log.id`: the missing privilege, and its GRANT without the TO.
async fn missing_on_objects(client: &Client) -> Result<Vec<(String, String)>, DbError> {
    let sql = "
        WITH sequence AS (SELECT pg_get_serial_sequence(to_regclass('audit_log')::text, 'id') AS name
                          WHERE EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('audit_log')
                                        AND attname = 'id' AND NOT attisdropped AND attidentity = ''))
        SELECT 'USAGE on sequence ' || name, 'GRANT USAGE ON SEQUENCE ' || name FROM sequence
         WHERE name IS NOT NULL AND NOT has_sequence_privilege(name, 'USAGE, UPDATE')
        UNION ALL
        SELECT 'USAGE on type ' || t, 'GRANT USAGE ON TYPE ' || t
          FROM unnest(ARRAY['submission_status', 'action_type', 'clamav_status', 'audit_action']) AS t
         WHERE to_regtype(t) IS NOT NULL AND NOT has_type_privilege(to_regtype(t), 'USAGE')
        UNION ALL
        SELECT DISTINCT 'USAGE on schema ' || n.nspname, 'GRANT USAGE ON SCHEMA ' || quote_ident(n.nspname)
          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE c.oid = to_regclass('submissions') AND NOT has_schema_privilege(n.oid, 'USAGE')";
    let rows = client.query(sql, &[]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// The uses of rows that policies distinguish.
#[derive(Clone, Copy)]
enum Command {
    Read,
    Insert,
    Update,
}

impl Command {
    /// `pg_policy.polcmd`.
    fn letter(self) -> &'static str {
        match self {
            Self::Read => "r",
            Self::Insert => "a",
            Self::Update => "w",
        }
    }

    fn verb(self) -> &'static str {
        match self {
            Self::Read => "sees",
            Self::Insert => "may add",
            Self::Update => "may change",
        }
    }

    fn policy(self, table: &str, role: &str) -> String {
        let (name, what) = match self {
            Self::Read => ("read", "SELECT TO {} USING (true)"),
            Self::Insert => ("insert", "INSERT TO {} WITH CHECK (true)"),
            Self::Update => ("update", "UPDATE TO {} USING (true) WITH CHECK (true)"),
        };
        format!("CREATE POLICY {table}_router_{name} ON {table} FOR {}", what.replace("{}", role))
    }
}

/// Returns the rows of a table that this role may read or write, from the catalogs alone.
async fn rows(client: &Client, table: &str, command: Command) -> Result<Rows, DbError> {
    let sql = "SELECT c.relkind::text, c.relkind IN ('r', 'p') AND row_security_active(c.oid)
               FROM pg_class c WHERE c.oid = to_regclass($1)";
    let row = client.query_one(sql, &[&table]).await?;
    let kind: String = row.get(0);
    if kind != "r" && kind != "p" {
        return Ok(Rows::Some(format!("its definition lets them through ({table} is no plain table)")));
    }
    if !row.get::<_, bool>(1) {
        return Ok(Rows::All);
    }
    // A policy binds PUBLIC (0) or roles whose privileges we have. USING concerns existing rows, WITH CHECK written ones; a
    // missing WITH CHECK means USING.
    let sql = "
        SELECT p.polname::text, p.polpermissive, p.polcmd::text,
               pg_get_expr(p.polqual, p.polrelid), pg_get_expr(COALESCE(p.polwithcheck, p.polqual), p.polrelid)
        FROM pg_policy p
        WHERE p.polrelid = to_regclass($1) AND p.polcmd IN ('*', $2::text::\"char\")
          AND EXISTS (SELECT FROM unnest(p.polroles) AS r (oid) WHERE r.oid = 0 OR pg_has_role(r.oid, 'USAGE'))
        ORDER BY p.polname";
    let policies = client.query(sql, &[&table, &command.letter()]).await?;
    let mut shows_all = false;
    let mut conditions = Vec::new();
    for policy in &policies {
        let (name, permissive): (String, bool) = (policy.get(0), policy.get(1));
        let (using, check): (Option<String>, Option<String>) = (policy.get(3), policy.get(4));
        let conditions_of_it = match command {
            Command::Read => vec![using],
            Command::Insert => vec![check],
            Command::Update => vec![using, check],
        };
        let unconditional = conditions_of_it.iter().all(|condition| condition.as_deref() == Some("true"));
        match (permissive, unconditional) {
            (true, true) => shows_all = true,
            (false, true) => {}
            (true, false) => conditions.push(format!("policy {name} lets it")),
            (false, false) => return Ok(Rows::Some(format!("restrictive policy {name} lets it"))),
        }
    }
    if shows_all {
        return Ok(Rows::All);
    }
    if conditions.is_empty() {
        let why = "row-level security is on and no policy lets this role through";
        return Ok(Rows::None(why.to_owned()));
    }
    Ok(Rows::Some(conditions.join(" or ")))
}

pub(super) async fn attachments(client: &Client, found: &FoundSchema) -> Result<CheckLine, DbError> {
    if !found.has_table("attachments") {
        return Ok(CheckLine::warn(
            "rls_attachments",
            "not tried: table attachments is missing",
            "see line schema",
        ));
    }
    let role: String = client.query_one("SELECT quote_ident(current_user)", &[]).await?.get(0);
    let hidden = match rows(client, "attachments", Command::Read).await? {
        Rows::All => return Ok(CheckLine::ok("rls_attachments", format!("{role} sees every attachment"))),
        Rows::None(why) => format!("{role} sees no attachment at all: {why}"),
        Rows::Some(condition) => format!("{role} sees attachments only where {condition}"),
    };
    Ok(CheckLine::fail(
        "rls_attachments",
        format!("{hidden}; a submission with a hidden, infected attachment would look ready"),
        format!("{}; and no restrictive policy for that role", Command::Read.policy("attachments", &role)),
    ))
}
