//! `dlq`: dead letters of Pub/Sub and the outbox, and their remedies.
//!
//! Three kinds: messages that nobody can read, events of submissions that are not there (both recorded by the
//! daemon), and submissions that failed because nothing was left to try (their row is the record). [`entry`] shows
//! them, [`close`] closes them.

mod close;
mod entry;

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use entry::Entry;
use uuid::Uuid;

use super::id::{self, IdArg};
use super::setup::{self, Setup};
use super::{CliError, Context, Exit, output};
use crate::db::DbErrorKind;
use crate::routing::dead_letter::{Closing, EXHAUSTED};
use crate::routing::upkeep::dead_letters::{RecordError, Records};

/// Entries shown or closed where there is no `--limit`.
const LIMIT: u32 = 1000;

/// Arguments of `dlq`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the records that are open
    List(List),
    /// Show one record with its payload
    Show(Show),
    /// Deliver payloads again, or replay exhausted submissions
    Redrive(Close),
    /// Close records that are not needed any more
    Discard(Close),
}

#[derive(Debug, clap::Args)]
struct List {
    /// Only of this kind
    #[arg(long, value_name = "KIND", value_parser = KINDS)]
    kind: Option<String>,
    /// Closed ones as well
    #[arg(long)]
    all: bool,
    /// At most this many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// A JSON array
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Show {
    /// Record id, or its beginning
    #[arg(value_name = "ID", value_parser = id::parse)]
    id: IdArg,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Close {
    /// Record ids, or their beginnings; without any, --kind chooses
    #[arg(value_name = "ID", required_unless_present = "kind", conflicts_with = "kind", value_parser = id::parse)]
    ids: Vec<IdArg>,
    /// Every open record of this kind
    #[arg(long, value_name = "KIND", value_parser = KINDS)]
    kind: Option<String>,
    /// At most this many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Why; recorded
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    reason: String,
    /// Only tell what would be done
    #[arg(long)]
    dry_run: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

const KINDS: [&str; 4] = ["unreadable", "unknown_submission", "notification", EXHAUSTED];

/// Runs the verb.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let setup = Setup::open(ctx)?;
    let records = setup.records();
    match args.verb {
        Verb::List(args) => list(&records, &args).await,
        Verb::Show(args) => show(&setup, &records, &args).await,
        Verb::Redrive(args) => close::run(ctx, &setup, &records, &args, Closing::Redriven).await,
        Verb::Discard(args) => close::run(ctx, &setup, &records, &args, Closing::Discarded).await,
    }
}

/// Records of a kind, or of every kind, oldest first.
async fn find(records: &Records, kind: Option<&str>, all: bool, limit: u32) -> Result<Vec<Entry>, CliError> {
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut found = Vec::new();
    if kind != Some(EXHAUSTED) {
        let letters = records.list(all, usize::MAX >> 1).await.map_err(fault)?;
        let wanted = letters.into_iter().filter(|record| kind.is_none_or(|kind| kind == record.kind.label()));
        found.extend(wanted.map(|record| Entry::Letter(Box::new(record))));
    }
    if kind.is_none_or(|kind| kind == EXHAUSTED) {
        let rows = records.store.exhausted(None, all, i64::from(limit)).await.map_err(setup::database)?;
        found.extend(rows.into_iter().map(Entry::Row));
    }
    found.sort_by_key(|entry| (entry.at(), entry.id()));
    found.truncate(most);
    Ok(found)
}

/// One record, open or closed.
async fn one(records: &Records, id: Uuid) -> Result<Option<Entry>, CliError> {
    if let Some(record) = records.get(id).await.map_err(fault)? {
        return Ok(Some(Entry::Letter(Box::new(record))));
    }
    let rows = records.store.exhausted(Some(id), false, 1).await.map_err(setup::database)?;
    Ok(rows.into_iter().next().map(Entry::Row))
}

async fn list(records: &Records, args: &List) -> Result<Exit, CliError> {
    let limit = args.limit.unwrap_or(LIMIT);
    let mut found = find(records, args.kind.as_deref(), args.all, limit.saturating_add(1)).await?;
    let shown = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = found.len() > shown;
    found.truncate(shown);
    if args.json {
        output::json(&found.iter().map(Entry::json).collect::<Vec<_>>())?;
    } else if found.is_empty() {
        output::text("no dead letters")?;
    } else {
        output::text(&entry::table(&found).text(output::columns()))?;
    }
    if more {
        output::note(&format!("only the first {limit} are shown: raise --limit"))?;
    }
    Ok(Exit::Done)
}

/// The id of the dead letter that is meant, open or closed.
async fn meant(setup: &Setup, records: &Records, id: &IdArg) -> Result<Uuid, CliError> {
    let (text, first, last) = match id {
        IdArg::Whole(id) => return Ok(*id),
        IdArg::Beginning { text, first, last } => (text, *first, *last),
    };
    let letters = records.list(true, usize::MAX >> 1).await.map_err(fault)?;
    let within = letters.iter().filter(|record| (first..=last).contains(&record.id));
    let mut found: Vec<(Uuid, String)> =
        within.map(|record| (record.id, record.kind.label().to_owned())).collect();
    let most = i64::try_from(id::MOST).unwrap_or(i64::MAX);
    for row in setup.view().submissions_between(first, last, most + 1).await.map_err(setup::database)? {
        if !records.store.exhausted(Some(row.id), true, 1).await.map_err(setup::database)?.is_empty() {
            found.push((row.id, EXHAUSTED.to_owned()));
        }
    }
    found.sort();
    id::only("dead letter", text, &found)
}

async fn show(setup: &Setup, records: &Records, args: &Show) -> Result<Exit, CliError> {
    let id = meant(setup, records, &args.id).await?;
    let Some(entry) = one(records, id).await? else { return Err(setup::unknown("dead letter", id)) };
    if args.json {
        output::json(&entry.json())?;
        return Ok(Exit::Done);
    }
    output::page(&entry.page())?;
    Ok(Exit::Done)
}

fn fault(error: RecordError) -> CliError {
    match error {
        RecordError::Database(error) => match error.kind() {
            DbErrorKind::Contract => CliError::new(Exit::BadConfig, error)
                .remedy("as the owner: maple-router migrate --router; `maple-router check` tells more"),
            DbErrorKind::Unreachable | DbErrorKind::Busy | DbErrorKind::Bug => setup::database(error),
        },
        error @ RecordError::File { .. } => CliError::new(Exit::FoundWanting, error),
    }
}
