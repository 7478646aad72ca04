//! `forms tombstone`, `forms discard`, `forms restore`.

use std::time::Duration;

use super::{Office, refused, told};
use crate::cli::{CliError, Exit};
use crate::forms::commands::Judged;
use crate::forms::table::Command;

/// Arguments of `forms tombstone`.
#[derive(Debug, clap::Args)]
pub(super) struct Tombstone {
    /// FORM@NUMBER
    #[arg(value_name = "VERSION")]
    version: String,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Time for which it can be restored [default: forms.keep]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    keep: Option<Duration>,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Arguments of `forms discard`.
#[derive(Debug, clap::Args)]
pub(super) struct Discard {
    /// FORM@NUMBER
    #[arg(value_name = "VERSION")]
    version: String,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Arguments of `forms restore`.
#[derive(Debug, clap::Args)]
pub(super) struct Restore {
    /// FORM@NUMBER
    #[arg(value_name = "VERSION")]
    version: String,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Takes a published version out of use.
pub(super) async fn tombstone(office: &Office, args: &Tombstone) -> Result<Exit, CliError> {
    let keep = args.keep.unwrap_or(office.config.forms.keep);
    let name = bury(office, &args.version, Command::Tombstone, &args.reason, keep).await?;
    let done = format!("out of use; for {} it can be restored", humantime::format_duration(keep));
    told(args.json, &Judged::Done, &name, &done)
}

/// Gives a draft up.
pub(super) async fn discard(office: &Office, args: &Discard) -> Result<Exit, CliError> {
    let name = bury(office, &args.version, Command::Discard, &args.reason, office.config.forms.keep).await?;
    told(args.json, &Judged::Done, &name, "given up")
}

async fn bury(
    office: &Office,
    named: &str,
    command: Command,
    reason: &str,
    keep: Duration,
) -> Result<String, CliError> {
    let row = office.version(named).await?;
    let name = Office::name(&row);
    let done = office.versions.bury(row.id, command, reason, keep, &office.by).await;
    done.map_err(|error| refused(error, &name))?;
    Ok(name)
}

/// Takes a tombstoned version back.
pub(super) async fn restore(office: &Office, args: &Restore) -> Result<Exit, CliError> {
    let row = office.version(&args.version).await?;
    let name = Office::name(&row);
    let judged = office.versions.restore(row.id, &office.by).await;
    let judged = judged.map_err(|error| refused(error, &name))?;
    told(args.json, &judged, &name, "published again; promoting it is another step")
}
