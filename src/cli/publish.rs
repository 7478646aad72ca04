//! `publish`: a routing event for each submission named.

use super::{CliError, Context, Exit};

/// Arguments of `publish`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Submission ids
    #[arg(required = true, value_name = "ID")]
    pub(super) ids: Vec<uuid::Uuid>,
    /// Only tell what would be published
    #[arg(long)]
    pub(super) dry_run: bool,
    /// One JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Publishes the events.
pub(super) async fn run(_ctx: &Context, _args: Args) -> Result<Exit, CliError> {
    Err(anyhow::anyhow!("not built into this binary yet").into())
}
