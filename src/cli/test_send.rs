//! `test-send`: one mail through the real path.

use super::{CliError, Context, Exit};

/// Arguments of `test-send`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where to
    #[arg(value_name = "ADDRESS")]
    pub(super) address: String,
}

/// Sends the mail.
pub(super) async fn run(_ctx: &Context, _args: Args) -> Result<Exit, CliError> {
    Err(anyhow::anyhow!("not built into this binary yet").into())
}
