//! `migrate`: migrations, as the owner role. Released files are never changed, so that the verb may be repeated.
//!
//! Each file is applied as a whole or not at all: if we die in the middle, the files before it stand. Schema router comes
//! and goes while everybody writes. Never prints the owner's connection string, never removes an undelivered event unasked.

use std::time::Duration;

use super::{CliError, Context, Exit, output, role};
use crate::config::{Config, ConfigError, Database};
use crate::db::migrations::online::{self, FinalizedColumn, Patience, Remains, Routed};
use crate::db::migrations::{
    Applied, CONTENT, FORMS, GRADER, GRADING, MigrateError, MigrateOptions, MigrationSet, ROUTER, SCREENING,
    migrate,
};
use crate::db::{DbError, Pool};

/// Limit of the wait for locks: another migration, or a backend at work.
const LOCK: Duration = Duration::from_secs(30);
/// Limit of one file.
const FILE: Duration = Duration::from_secs(600);

/// The file that production needs, by number.
const ALONE: &str = "11";

/// Arguments of `migrate`.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("optional").args(["router", "content", "screening", "grading", "grader"])))]
pub(super) struct Args {
    /// Connection string of the owner role [default: the one of [database]]
    #[arg(long, value_name = "URL", env = "MAPLE_ROUTER_OWNER_URL", hide_env_values = true)]
    pub(super) owner_url: Option<String>,
    /// Apply this migration of the forms schema only, e.g. 011: for a production database, which has the others
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["router", "content", "screening", "grading", "grader", "audit_readable"])]
    pub(super) only: Option<String>,
    /// Apply the migrations of the optional schema router, and no others
    #[arg(long, conflicts_with = "audit_readable")]
    pub(super) router: bool,
    /// Apply the migrations of the optional schema content (uploads), and no others; schema router is there before
    #[arg(long, conflicts_with_all = ["router", "audit_readable"])]
    pub(super) content: bool,
    /// Apply the migrations of the optional schema screening, and no others; schema router is there before
    #[arg(long, conflicts_with_all = ["router", "content", "audit_readable"])]
    pub(super) screening: bool,
    /// Apply the migrations of the optional schemas of grading (assessment, mq, grading), and no others; schema router is there before
    #[arg(long, conflicts_with_all = ["router", "content", "screening", "audit_readable"])]
    pub(super) grading: bool,
    /// Apply the migrations of the grader alone (mq, grading), in a database of its own; schema assessment is in another
    #[arg(long, conflicts_with_all = ["router", "content", "screening", "grading", "audit_readable"])]
    pub(super) grader: bool,
    /// Take this file of schema router, content, screening, grading or of the grader back, e.g. 002, with everything that it and later ones made
    #[arg(long, value_name = "NUMBER", requires = "optional")]
    pub(super) back: Option<String>,
    /// With --router --back: also if events were not delivered yet; the sweep finds their submissions
    #[arg(long, requires = "back")]
    pub(super) force: bool,
    /// Stand-in schema only: let forms_app read the audit log
    #[arg(long)]
    pub(super) audit_readable: bool,
    /// Only print the SQL of the migrations meant, and connect to nothing
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// Applies missing migrations, or takes back the one asked for.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    if args.dry_run {
        let text = match &args.back {
            Some(stem) => online::ways_back(args.upper().unwrap_or(&ROUTER), stem)?
                .iter()
                .map(|way| way.sql)
                .collect::<Vec<_>>()
                .join("\n"),
            None if args.router => online::sql(&ROUTER),
            None => match args.upper() {
                Some(set) => set.files.iter().map(|(stem, sql)| file(stem, sql)).collect(),
                None => sql(args.only.as_deref(), args.audit_readable)?,
            },
        };
        output::text(&text)?;
        return Ok(Exit::Done);
    }
    let url = args.owner_url.as_deref().filter(|url| !url.trim().is_empty());
    let (pool, column) = owner(ctx, url)?;
    pool.find_out().await.map_err(unreachable)?;
    let mut connection = pool.get().await.map_err(unreachable)?;
    let client = connection.direct().map_err(unreachable)?;
    let text = if let Some(set) = args.upper() {
        upper(client, set, args.back.as_deref()).await?
    } else if let Some(stem) = &args.back {
        if let Some(remains) = online::remains(client).await? {
            output::note(&holds(&remains))?;
        }
        let left = online::back(client, stem, args.force, Patience::default(), &wait).await?;
        taken_back(left, online::remains(client).await?.is_some())
    } else if args.router {
        router_lines(&online::migrate(client, &column, Patience::default(), &wait).await?, &column)
    } else {
        let options = MigrateOptions { only: args.only, audit_readable: args.audit_readable };
        text_of(&migrate(client, &options).await?)
    };
    output::text(&text)?;
    Ok(Exit::Done)
}

impl Args {
    /// The schema on top of schema router that is meant.
    fn upper(&self) -> Option<&'static MigrationSet> {
        let of = [
            (self.content, &CONTENT),
            (self.screening, &SCREENING),
            (self.grading, &GRADING),
            (self.grader, &GRADER),
        ];
        of.into_iter().find_map(|(is_meant, set)| is_meant.then_some(set))
    }
}

/// Applies a schema on top of schema router, or takes a file of it back.
async fn upper(
    client: &mut tokio_postgres::Client,
    set: &MigrationSet,
    back: Option<&str>,
) -> Result<String, CliError> {
    let Some(stem) = back else {
        return Ok(text_of(&online::migrate_upper(client, set, Patience::default(), &wait).await?));
    };
    online::back_upper(client, set, stem, Patience::default(), &wait).await?;
    let what = if set.name == SCREENING.name {
        "nothing waits for its screening any more; runs, events and verdicts are gone"
    } else if set.name == GRADER.name {
        "the grader's jobs, steps and messages are gone"
    } else if set.name == GRADING.name {
        "what was taken back is gone: the grader's jobs and messages, and with 001 attempts and results; then nothing waits for its grade"
    } else {
        "attachments and their objects stay; upload sessions are gone"
    };
    Ok(format!("taken back: {what}\n"))
}

/// Shows a line to the person who waits at the terminal.
fn wait(line: &str) {
    // Nobody looks: the work goes on.
    drop(output::note(line));
}

/// A pool with the owner's limits, and the configured column of finalized submissions. No configuration is needed where the owner's
/// url is given.
fn owner(ctx: &Context, url: Option<&str>) -> Result<(Pool, FinalizedColumn), CliError> {
    let loaded = Config::load(ctx.config_path.as_deref(), &ctx.env);
    let mut column = FinalizedColumn::AsItIs;
    let config = match (loaded, url) {
        (Ok(loaded), _) => {
            column = FinalizedColumn::Is(loaded.config.readiness.finalized_column.clone());
            loaded.config
        }
        (Err(ConfigError::Missing { .. }), Some(_)) if ctx.config_path.is_none() => Config::default(),
        (Err(error), _) => return Err(error.into()),
    };
    let database = Database { lock_timeout: LOCK, statement_timeout: FILE, ..config.database.clone() };
    Ok((role::pool(ctx, &config, database, url, "maple-router migrate")?, column))
}

/// The owner's remedy for a login that fails.
fn unreachable(error: DbError) -> CliError {
    CliError::from(error)
        .remedy("see that the server runs and accepts this login (--owner-url, MAPLE_ROUTER_OWNER_URL)")
}

/// The files' text, each under its name: those that [`migrate`] applies unless its history has them.
fn sql(only: Option<&str>, audit_readable: bool) -> Result<String, CliError> {
    let mut text = String::new();
    if audit_readable {
        text.push_str("SET maple_router.audit_readable = 'on';\n\n");
    }
    let number = |name: &str| name.split('_').next().unwrap_or_default().trim_start_matches('0').to_owned();
    let meant =
        |stem: &str| only.is_none_or(|only| stem == only || number(stem) == only.trim_start_matches('0'));
    let files: Vec<_> = FORMS.files.iter().filter(|(stem, _)| meant(stem)).collect();
    // As when applying: 011 is the only file that stands by itself.
    if let (Some(only), false) = (only, matches!(files[..], [(stem, _)] if number(stem) == ALONE)) {
        return Err(MigrateError::NotAlone(only.to_owned()).into());
    }
    for (stem, sql) in files {
        text.push_str(&file(stem, sql));
    }
    Ok(text)
}

fn file(stem: &str, sql: &str) -> String {
    format!("-- {stem}\n{}\n\n", sql.trim_end())
}

fn text_of(applied: &[Applied]) -> String {
    let line = |file: &Applied| {
        let what = if file.changed { "applied" } else { "nothing to do, everything in it was there already" };
        format!("{}: {what}\n", file.name)
    };
    if applied.is_empty() {
        return "nothing to do: every migration has been applied before\n".to_owned();
    }
    applied.iter().map(line).collect()
}

/// Result lines about schema router.
fn router_lines(routed: &Routed, column: &FinalizedColumn) -> String {
    let mut text: String = routed.built.iter().map(|name| format!("index {name}: built\n")).collect();
    if !routed.applied.is_empty() || text.is_empty() {
        text.push_str(&text_of(&routed.applied));
    }
    match column {
        FinalizedColumn::Is(Some(name)) if routed.column_changed => {
            text.push_str(&format!("finalized column: from now on {name}\n"));
        }
        FinalizedColumn::Is(None) if routed.column_changed => {
            text.push_str("finalized column: from now on none, a row exists from finalize on\n");
        }
        FinalizedColumn::Is(_) => {}
        FinalizedColumn::AsItIs => {
            text.push_str("finalized column: left as it is, since there is no configuration to go by\n");
        }
    }
    text
}

fn holds(remains: &Remains) -> String {
    let Remains { undelivered, given_up, delivered, transitions } = remains;
    format!(
        "the outbox holds {undelivered} undelivered events, {given_up} given up on (their dead-letter records stay), \
         {delivered} delivered; the transition log has {transitions} lines"
    )
}

fn taken_back(left: i64, outbox_stays: bool) -> String {
    if outbox_stays {
        return "taken back; the outbox and its triggers stay\n".to_owned();
    }
    let went = match left {
        0 => String::new(),
        left => format!(
            "{left} events went with it that were not delivered: the sweep finds their submissions, after \
             routing.orphan_after\n"
        ),
    };
    format!(
        "taken back: from now on whoever finalizes or scans has to publish its events, or the sweep finds them\n{went}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sql_is_that_of_the_files_meant() {
        for only in ["011", "11", "011_routing_audit_actions"] {
            let text = sql(Some(only), false).expect(only);
            assert!(text.starts_with("-- 011_routing_audit_actions\n"), "{text}");
            assert!(text.contains("submission_route_failed") && !text.contains("CREATE TABLE"), "{text}");
        }
        let all = sql(None, true).expect("all");
        assert!(all.starts_with("SET maple_router.audit_readable"), "{all}");
        assert!(all.find("-- 001_init") < all.find("-- 011_"), "{all}");
        for wrong in ["001", "12", "", "011_other"] {
            assert_eq!(sql(Some(wrong), false).expect_err(wrong).exit(), Exit::Usage, "{wrong}");
        }
    }

    #[test]
    fn what_was_applied_is_told_file_by_file() {
        let file = |name: &str, changed| Applied { name: name.to_owned(), changed };
        assert!(text_of(&[]).contains("nothing to do"));
        assert_eq!(
            text_of(&[file("001_init", true), file("011_x", false)]),
            "001_init: applied\n011_x: nothing to do, everything in it was there already\n"
        );
    }
}
