//! Compares the actual database with the data contract: the lines that `check` prints and `run` insists on.
//!
//! Reads catalogs and counts; never writes. The inspection must not fail open: an object that could not be examined is never
//! reported as well, and an `attachments` table of which it is not certain that every row is visible is a failure.

mod access;
pub mod guards;
mod rows;
mod schema;

use futures::future::BoxFuture;
use jiff::Timestamp;

use super::error::{DbError, DbErrorKind, READ_ONLY};
use super::pool::{Client, Pool};
use super::pooling::PoolingCheck;
use crate::config::Config;
use crate::ports::{CheckLevel, CheckLine};

/// Oldest server major version the statements are written for.
const OLDEST_SERVER: i32 = 13;

/// Lines that must not fail if the daemon is to start.
const ESSENTIAL: [&str; 4] = ["schema", "audit_values", "grants", "rls_attachments"];

/// Why a database does not meet the contract, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The objects and their faults, as the failing lines name them.
    pub what: String,
    /// The statements, or the actions, that mend it; may be empty.
    pub remedy: String,
}

/// A line of `check`, as a card brings it. Its result never prevents a start.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// The line's name.
    pub line: &'static str,
    /// The line's position among the others (interfaces page).
    pub order: u8,
    /// The check's implementation.
    pub look: Look,
}

/// The implementation of a check.
#[derive(Debug, Clone, Copy)]
pub enum Look {
    /// The contract itself: what all rooms need of the database.
    Contract,
    /// A room's query of the database.
    Database(LookInDatabase),
    /// A room's look outside the database.
    Outside(LookOutside),
    /// The command line, which prints several lines for one subject, or sends something.
    CommandLine,
}

/// The function of [`Look::Database`]; an error says that the lines before it must be mended first.
pub type LookInDatabase =
    for<'a> fn(&'a Client, &'a ContractOptions) -> BoxFuture<'a, Result<CheckLine, DbError>>;

/// The function of [`Look::Outside`].
pub type LookOutside = fn(&Config) -> BoxFuture<'_, CheckLine>;

/// The parts of the contract that configuration and cards add.
#[derive(Debug, Clone, Default)]
pub struct ContractOptions {
    /// The rooms' checks, in the order of their positions.
    pub checks: Vec<&'static Check>,
    /// `[readiness] finalized_column`
    pub finalized_column: Option<String>,
    /// `[routing] not_before`
    pub not_before: Option<Timestamp>,
    /// Whether events come from the outbox and from nowhere else (`[source] kind = "postgres"`).
    pub needs_outbox: bool,
    /// Whether there is a help desk (`[happyfox]`).
    pub tickets: bool,
    /// Whether uploads are taken (`[uploads] listen`).
    pub uploads: bool,
    /// Whether the routing asks what screening says (`[screening] mode`).
    pub screening: bool,
    /// Whether the routing asks what grading says (`[grading] mode`).
    pub grading: bool,
    /// Sections of the configuration that are a form's: the table that they stand in, and the form's id.
    pub form_sections: Vec<(&'static str, String)>,
}

/// The line for a database that lacks the outbox its events are to come from, with its remedy.
pub const NO_OUTBOX: &str = "source.kind = \"postgres\" takes events from the outbox of schema router, and there is none that this \
     role may use: apply it as the owner (maple-router migrate --router), or take events from Pub/Sub (source.kind = \"pubsub\")";

/// The daemon's decision after an inspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartDecision {
    /// The database meets the contract.
    Start,
    /// The database could not be inspected: unknown, not refuted. Nothing may be claimed; inspect again.
    LookAgain,
    /// The database does not meet the contract: exit 78.
    Refuse,
}

/// Returns all lines of the database's part of `check`, in the order of the interfaces page.
pub async fn inspect(pool: &Pool, options: &ContractOptions) -> Vec<CheckLine> {
    looked_at(pool, options, true).await
}

/// Returns only the lines that decide whether the daemon may work: catalogs alone, cheap enough to be asked all day.
pub async fn inspect_essentials(pool: &Pool, options: &ContractOptions) -> Vec<CheckLine> {
    looked_at(pool, options, false).await
}

async fn looked_at(pool: &Pool, options: &ContractOptions, all: bool) -> Vec<CheckLine> {
    let tried = async {
        // Before any statement is prepared.
        let found = pool.find_out().await?;
        pool.ask().await?;
        let client = pool.get().await?;
        let mut lines = lines(&client, options, all).await?;
        lines
            .iter_mut()
            .filter(|line| line.name == "database")
            .for_each(|line| pooling_notified(line, found));
        Ok::<_, DbError>(lines)
    };
    match tried.await {
        Ok(lines) => lines,
        Err(error) if error.sqlstate() == Some(READ_ONLY) => not_tried(
            CheckLine::fail(
                "database",
                // Not refuted: after a failover the address may lead to a standby for a while.
                error.to_string(),
                "connect to the primary server, or ask who made it read-only",
            ),
            &options.checks,
        ),
        Err(error) => {
            let remedy = match error.kind() {
                DbErrorKind::Contract => "correct [database] in the configuration",
                DbErrorKind::Unreachable | DbErrorKind::Busy | DbErrorKind::Bug => {
                    "see that the server runs, is reachable from here, and accepts this login ([database], DATABASE_URL)"
                }
            };
            not_tried(CheckLine::fail("database", error.to_string(), remedy), &options.checks)
        }
    }
}

/// The daemon uses the pooling it detects; the configuration should say the same, and nothing else.
fn pooling_notified(line: &mut CheckLine, found: PoolingCheck) {
    let (level, what) = match found {
        PoolingCheck::AsSaid => return,
        PoolingCheck::Unsaid => (CheckLevel::Warn, "nothing in [database] says so"),
        PoolingCheck::Contradicted => (CheckLevel::Fail, "[database] says pooling = \"session\""),
    };
    line.detail.push_str(&format!("; behind a proxy that pools transactions, and {what}"));
    if line.level == CheckLevel::Ok || level == CheckLevel::Fail {
        line.level = level;
        line.remedy =
            Some("say pooling = \"transaction\" in [database], or connect to the server itself".to_owned());
    }
}

/// The line `database` as given, and the rest as not tried.
fn not_tried(database: CheckLine, checks: &[&Check]) -> Vec<CheckLine> {
    let brought =
        checks.iter().filter(|check| matches!(check.look, Look::Database(_))).map(|check| check.line);
    let rest = ESSENTIAL.into_iter().chain(brought);
    let unnotified =
        |name| CheckLine::warn(name, "not tried: the database could not be asked", "see line database");
    std::iter::once(database).chain(rest.map(unnotified)).collect()
}

/// Returns the decision that the lines imply.
#[must_use]
pub fn verdict(lines: &[CheckLine]) -> StartDecision {
    let level = |name: &str| lines.iter().find(|line| line.name == name).map(|line| line.level);
    if ESSENTIAL.into_iter().any(|name| level(name) == Some(CheckLevel::Fail)) {
        return StartDecision::Refuse;
    }
    // `schema` and `rls_attachments` are well or have failed; a warning there means that they were not tried.
    let untried = |name: &&str| level(name) != Some(CheckLevel::Ok);
    if ["schema", "rls_attachments"].iter().any(untried)
        || ESSENTIAL.into_iter().any(|name| level(name).is_none())
    {
        return StartDecision::LookAgain;
    }
    match level("database") {
        Some(CheckLevel::Ok | CheckLevel::Warn) => StartDecision::Start,
        Some(CheckLevel::Fail) => StartDecision::Refuse, // the server answered, and is too old
        None => StartDecision::LookAgain,
    }
}

/// Returns why the database does not meet the contract; absent where it does, or could not be inspected.
#[must_use]
pub fn broken(lines: &[CheckLine]) -> Option<Broken> {
    if verdict(lines) != StartDecision::Refuse {
        return None;
    }
    let failed = || lines.iter().filter(|line| line.level == CheckLevel::Fail);
    let joined = |parts: Vec<&str>| parts.join("; ");
    Some(Broken {
        what: joined(failed().map(|line| line.detail.as_str()).collect()),
        remedy: joined(failed().filter_map(|line| line.remedy.as_deref()).collect()),
    })
}

/// Returns whether `run` must not start with this database (exit 78). An unreachable one is [`StartDecision::LookAgain`].
#[must_use]
pub fn refuses_start(lines: &[CheckLine]) -> bool {
    verdict(lines) == StartDecision::Refuse
}

/// # Errors
/// Only errors that make the whole inspection worthless: the server went away or is busy.
async fn lines(client: &Client, options: &ContractOptions, all: bool) -> Result<Vec<CheckLine>, DbError> {
    let (database, usable) = database(client).await?;
    if !usable {
        return Ok(not_tried(database, &options.checks));
    }
    let found = rows::FoundSchema::read(client).await?;
    let mut lines = vec![
        database,
        schema::schema(&found, options),
        schema::audit_values(&found),
        essential("grants", access::grants(client, &found, options).await)?,
        essential("rls_attachments", access::attachments(client, &found).await)?,
    ];
    for check in options.checks.iter().filter(|_| all) {
        if let Look::Database(look) = check.look {
            lines.push(optional(check.line, look(client, options).await)?);
        }
    }
    Ok(lines)
}

/// An essential check that fails for a reason of its own is a failure: nothing may pass unseen.
fn essential(name: &'static str, answer: Result<CheckLine, DbError>) -> Result<CheckLine, DbError> {
    match answer {
        Err(error) if matches!(error.kind(), DbErrorKind::Contract | DbErrorKind::Bug) => {
            Ok(CheckLine::fail(
                name,
                format!("cannot be looked at: {error}"),
                "let this role read the system catalogs",
            ))
        }
        other => other,
    }
}

/// A check that depends on the essential lines: the failure is theirs.
fn optional(name: &'static str, answer: Result<CheckLine, DbError>) -> Result<CheckLine, DbError> {
    match answer {
        Err(error) if matches!(error.kind(), DbErrorKind::Contract | DbErrorKind::Bug) => {
            Ok(CheckLine::warn(name, format!("not tried: {error}"), "mend what the lines above name first"))
        }
        other => other,
    }
}

/// The line, and whether the other checks make sense.
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
    let further =
        [(superuser, "is a superuser"), (bypasses, "bypasses row-level security"), (owns, "owns the tables")];
    if let Some((_, why)) = further.iter().find(|(is, _)| *is) {
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
        assert_eq!(verdict(&all(CheckLevel::Ok)), StartDecision::Start);
        assert_eq!(verdict(&[]), StartDecision::LookAgain);
        assert_eq!(
            verdict(&not_tried(CheckLine::fail("database", "gone", "wait"), &[])),
            StartDecision::LookAgain
        );
        for name in ESSENTIAL {
            let mut lines = all(CheckLevel::Ok);
            lines.iter_mut().filter(|line| line.name == name).for_each(|line| line.level = CheckLevel::Fail);
            assert!(refuses_start(&lines), "{name}");
            lines.retain(|line| line.name != name);
            assert_eq!(verdict(&lines), StartDecision::LookAgain, "{name}");
        }
        let mut old = all(CheckLevel::Ok);
        old[0].level = CheckLevel::Fail;
        assert!(refuses_start(&old));
        old[0].level = CheckLevel::Warn;
        assert_eq!(verdict(&old), StartDecision::Start);
    }
}
