//! `run`: the daemon, until it is told to stop.

use super::{CliError, Context, Exit};

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

/// Runs the daemon.
pub(super) async fn run(_ctx: &Context, _args: Args) -> Result<Exit, CliError> {
    Err(anyhow::anyhow!("not built into this binary yet").into())
}
