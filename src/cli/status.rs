//! `status`: how many submissions are where, and what is wrong.

use super::{CliError, Context, Exit};

/// Arguments of `status`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// One JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Prints the counts.
pub(super) async fn run(_ctx: &Context, _args: Args) -> Result<Exit, CliError> {
    Err(anyhow::anyhow!("not built into this binary yet").into())
}
