//! `provision`: topics, subscriptions, dead-letter and retry policy, created or verified.

use super::{CliError, Context, Exit};

/// Arguments of `provision`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only tell what would be done
    #[arg(long)]
    pub(super) dry_run: bool,
    /// One JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Creates what is missing and verifies what is there.
pub(super) async fn run(_ctx: &Context, _args: Args) -> Result<Exit, CliError> {
    Err(anyhow::anyhow!("not built into this binary yet").into())
}
