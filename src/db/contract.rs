//! Compares the database we meet with the data contract: what `check` prints and what `run` insists on.
//!
//! Reads catalogs and counts; never writes. It must not fail open: what could not be looked at is never reported as
//! well, and an `attachments` table of which it is not certain that every row is visible is a failure.

mod access;
mod content;
mod router;
mod rows;
mod schema;

use jiff::Timestamp;

use super::error::{DbError, DbErrorKind, READ_ONLY};
use super::pool::{Client, Pool};
use super::pooling::Found;
use crate::ports::{CheckLevel, CheckLine};

/// Oldest server major version the statements are written for.
const OLDEST_SERVER: i32 = 13;

/// Lines that must not fail for the daemon to start.
const ESSENTIAL: [&str; 4] = ["schema", "audit_values", "grants", "rls_attachments"];

/// Why a database does not meet the contract, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The objects and what is missing, as the failing lines say.
    pub what: String,
    /// The statements, or the deeds, that mend it; may be empty.
    pub remedy: String,
}

/// What the configuration adds to the contract.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContractOptions {
    /// `[readiness] finalized_column`
    pub finalized_column: Option<String>,
    /// `[routing] not_before`
    pub not_before: Option<Timestamp>,
    /// Events come from the outbox and from nowhere else (`[source] kind = "postgres"`).
    pub needs_outbox: bool,
}

/// What a database lacks from whose outbox events are to come, and what mends it.
pub const NO_OUTBOX: &str = "source.kind = \"postgres\" takes events from the outbox of schema router, and there is none that this \
     role may use: apply it as the owner (maple-router migrate --router), or take events from Pub/Sub (source.kind = \"pubsub\")";

/// What the daemon does after an inspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The database meets the contract.
    Start,
    /// It could not be looked at: unknown, not refuted. Nothing may be claimed; look again.
    LookAgain,
    /// It does not meet the contract: exit 78.
    Refuse,
}

/// All lines of the database's part of `check`, in the order of the interfaces page.
pub async fn inspect(pool: &Pool, options: &ContractOptions) -> Vec<CheckLine> {
    looked_at(pool, options, true).await
}

/// Only the lines that decide whether the daemon may work: catalogs alone, cheap enough to be asked all day.
pub async fn inspect_essentials(pool: &Pool, options: &ContractOptions) -> Vec<CheckLine> {
    looked_at(pool, options, false).await
}

async fn looked_at(pool: &Pool, options: &ContractOptions, all: bool) -> Vec<CheckLine> {
    let tried = async {
        // Before anything is prepared.
        let found = pool.find_out().await?;
        pool.ask().await?;
        let client = pool.get().await?;
        let mut lines = lines(&client, options, all).await?;
        lines.iter_mut().filter(|line| line.name == "database").for_each(|line| told_of_pooling(line, found));
        Ok::<_, DbError>(lines)
    };
    match tried.await {
        Ok(lines) => lines,
        Err(error) if error.sqlstate() == Some(READ_ONLY) => not_tried(CheckLine::fail(
            "database",
            // Not refuted: after a failover the address may lead to a standby for a while.
            error.to_string(),
            "connect to the primary server, or ask who made it read-only",
        )),
        Err(error) => {
            let remedy = match error.kind() {
                DbErrorKind::Contract => "correct [database] in the configuration",
                DbErrorKind::Unreachable | DbErrorKind::Busy | DbErrorKind::Bug => {
                    "see that the server runs, is reachable from here, and accepts this login ([database], DATABASE_URL)"
                }
            };
            not_tried(CheckLine::fail("database", error.to_string(), remedy))
        }
    }
}

/// The router goes by what it finds; whoever reads the configuration should find it there, and nothing else.
fn told_of_pooling(line: &mut CheckLine, found: Found) {
    let (level, what) = match found {
        Found::AsSaid => return,
        Found::Unsaid => (CheckLevel::Warn, "nothing in [database] says so"),
        Found::Contradicted => (CheckLevel::Fail, "[database] says pooling = \"session\""),
    };
    line.detail.push_str(&format!("; behind a proxy that pools transactions, and {what}"));
    if line.level == CheckLevel::Ok || level == CheckLevel::Fail {
        line.level = level;
        line.remedy =
            Some("say pooling = \"transaction\" in [database], or connect to the server itself".to_owned());
    }
}

/// `database` as given, and nothing known of the rest.
fn not_tried(database: CheckLine) -> Vec<CheckLine> {
    let rest = ESSENTIAL.into_iter().chain(["updated_at_trigger", "router_schema", "history", "forms"]);
    let untold =
        |name| CheckLine::warn(name, "not tried: the database could not be asked", "see line database");
    std::iter::once(database).chain(rest.map(untold)).collect()
}

/// What the lines mean for a start.
#[must_use]
pub fn verdict(lines: &[CheckLine]) -> Verdict {
    let level = |name: &str| lines.iter().find(|line| line.name == name).map(|line| line.level);
    if ESSENTIAL.into_iter().any(|name| level(name) == Some(CheckLevel::Fail)) {
        return Verdict::Refuse;
    }
    // `schema` and `rls_attachments` are well or have failed; a warning there says that they were not tried.
    let untried = |name: &&str| level(name) != Some(CheckLevel::Ok);
    if ["schema", "rls_attachments"].iter().any(untried)
        || ESSENTIAL.into_iter().any(|name| level(name).is_none())
    {
        return Verdict::LookAgain;
    }
    match level("database") {
        Some(CheckLevel::Ok | CheckLevel::Warn) => Verdict::Start,
        Some(CheckLevel::Fail) => Verdict::Refuse, // it answered, and is too old
        None => Verdict::LookAgain,
    }
}

/// What keeps the database from meeting the contract; absent where it meets it, or could not be looked at.
#[must_use]
pub fn broken(lines: &[CheckLine]) -> Option<Broken> {
    if verdict(lines) != Verdict::Refuse {
        return None;
    }
    let failed = || lines.iter().filter(|line| line.level == CheckLevel::Fail);
    let joined = |parts: Vec<&str>| parts.join("; ");
    Some(Broken {
        what: joined(failed().map(|line| line.detail.as_str()).collect()),
        remedy: joined(failed().filter_map(|line| line.remedy.as_deref()).collect()),
    })
}

/// Whether `run` must not start with this database (exit 78). Unreachable is not a reason: see [`Verdict::LookAgain`].
#[must_use]
pub fn refuses_start(lines: &[CheckLine]) -> bool {
    verdict(lines) == Verdict::Refuse
}

/// # Errors
/// Only what makes the whole inspection worthless: the server went away or has no time.
async fn lines(client: &Client, options: &ContractOptions, all: bool) -> Result<Vec<CheckLine>, DbError> {
    let (database, usable) = database(client).await?;
    if !usable {
        return Ok(not_tried(database));
    }
    let found = rows::Found::read(client).await?;
    let mut lines = vec![
        database,
        schema::schema(&found, options),
        schema::audit_values(&found),
        essential("grants", access::grants(client, &found, options).await)?,
        essential("rls_attachments", access::attachments(client, &found).await)?,
    ];
    if all {
        lines.extend([
            optional("updated_at_trigger", content::updated_at_trigger(client).await)?,
            optional("router_schema", router::schema(client, options).await)?,
            optional("history", content::history(client, options).await)?,
            optional("forms", content::forms(client).await)?,
        ]);
    }
    Ok(lines)
}

/// A question that could not be answered for a reason of its own is a failure: nothing may pass unseen.
fn essential(name: &'static str, answer: Result<CheckLine, DbError>) -> Result<CheckLine, DbError> {
    match answer {
        Err(error) if matches!(error.kind(), DbErrorKind::Contract | DbErrorKind::Bug) => {
            Ok(CheckLine::fail(
                name,
                format!("cannot be told: {error}"),
                "let this role read the system catalogs",
            ))
        }
        other => other,
    }
}

/// A question that depends on the essential lines: theirs is the failure.
fn optional(name: &'static str, answer: Result<CheckLine, DbError>) -> Result<CheckLine, DbError> {
    match answer {
        Err(error) if matches!(error.kind(), DbErrorKind::Contract | DbErrorKind::Bug) => {
            Ok(CheckLine::warn(name, format!("not tried: {error}"), "mend what the lines above name first"))
        }
        other => other,
    }
}

/// The line, and whether it makes sense to look further.
async fn database(client: &Client) -> Result<(CheckLine, bool), DbError> {
    let sql = "SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_user::text,
                      COALESCE((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false),
                      r.rolsuper, r.rolbypassrls,
                      COALESCE(pg_has_role(c.relowner, 'MEMBER'), false)
               FROM pg_roles r LEFT JOIN pg_class c ON c.oid = to_regclass('submissions')
               WHERE r.rolname = current_user";
    let row = client.query_one(sql, &[]).await?;
    let number: i32 = row.get(0);
    let (version, role): (String, String) = (row.get(1), row.get(2));
    let encrypted = if row.get(3) { "TLS" } else { "no TLS" };
    let detail = format!("PostgreSQL {version}, as {role}, {encrypted}");
    let (superuser, bypasses, owns): (bool, bool, bool) = (row.get(4), row.get(5), row.get(6));
    if number / 10_000 < OLDEST_SERVER {
        return Ok((
            CheckLine::fail("database", format!("{detail}: too old"), "use PostgreSQL 13 or newer"),
            true,
        ));
    }
    let beyond =
        [(superuser, "is a superuser"), (bypasses, "bypasses row-level security"), (owns, "owns the tables")];
    if let Some((_, why)) = beyond.iter().find(|(is, _)| *is) {
        let detail = format!("{detail}; {role} {why}, so grants and policies do not bind the daemon");
        return Ok((CheckLine::warn("database", detail, "connect as forms_app"), true));
    }
    Ok((CheckLine::ok("database", detail), true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(level: CheckLevel) -> Vec<CheckLine> {
        let names = ["database"].into_iter().chain(ESSENTIAL);
        names.map(|name| CheckLine { name, level, detail: String::new(), remedy: None }).collect()
    }

    #[test]
    fn a_start_needs_every_essential_line_and_unreachable_is_no_refusal() {
        assert_eq!(verdict(&all(CheckLevel::Ok)), Verdict::Start);
        assert_eq!(verdict(&[]), Verdict::LookAgain);
        assert_eq!(verdict(&not_tried(CheckLine::fail("database", "gone", "wait"))), Verdict::LookAgain);
        for name in ESSENTIAL {
            let mut lines = all(CheckLevel::Ok);
            lines.iter_mut().filter(|line| line.name == name).for_each(|line| line.level = CheckLevel::Fail);
            assert!(refuses_start(&lines), "{name}");
            lines.retain(|line| line.name != name);
            assert_eq!(verdict(&lines), Verdict::LookAgain, "{name}");
        }
        let mut old = all(CheckLevel::Ok);
        old[0].level = CheckLevel::Fail;
        assert!(refuses_start(&old));
        old[0].level = CheckLevel::Warn;
        assert_eq!(verdict(&old), Verdict::Start);
    }
}
