//! `list`: submissions that match, oldest change first.

use super::{CliError, Context, Exit, Filters};

/// Arguments of `list`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) filters: Filters,
    /// A JSON array
    #[arg(long)]
    pub(super) json: bool,
}

/// Prints the list.
pub(super) async fn run(_ctx: &Context, _args: Args) -> Result<Exit, CliError> {
    Err(anyhow::anyhow!("not built into this binary yet").into())
}
