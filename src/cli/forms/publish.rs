//! `forms publish VERSION --expect DIGEST`.

use super::{Office, refused, told};
use crate::cli::{CliError, Exit};

/// Arguments of `forms publish`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// FORM for its newest version, or FORM@NUMBER
    #[arg(value_name = "VERSION")]
    version: String,
    /// The digest that was reviewed, or its first 12 digits
    #[arg(long, value_name = "DIGEST")]
    expect: String,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Publishes a draft.
pub(super) async fn run(office: &Office, args: &Args) -> Result<Exit, CliError> {
    let row = office.version(&args.version).await?;
    let name = Office::name(&row);
    let judged = office.versions.publish(row.id, &args.expect, &office.by).await;
    let judged = judged.map_err(|error| refused(error, &name))?;
    told(
        args.json,
        &judged,
        &name,
        &format!("published; maple-router forms promote {name} makes the form follow it"),
    )
}
