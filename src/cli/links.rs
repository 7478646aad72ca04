//! `links`: fresh signed URLs for the attachments of a submission. Recorded, since a URL gives access.

use super::{CliError, Context, Exit};

/// Arguments of `links`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Submission id
    #[arg(value_name = "ID")]
    pub(super) id: uuid::Uuid,
    /// A JSON array
    #[arg(long)]
    pub(super) json: bool,
}

/// Prints the URLs.
pub(super) async fn run(_ctx: &Context, _args: Args) -> Result<Exit, CliError> {
    Err(anyhow::anyhow!("not built into this binary yet").into())
}
