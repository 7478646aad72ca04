//! `explain`: everything about one submission on one screen, and what happens next.

use super::{CliError, Context, Exit};

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Submission id
    #[arg(value_name = "ID")]
    pub(super) id: uuid::Uuid,
    /// One JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Prints the explanation.
pub(super) async fn run(_ctx: &Context, _args: Args) -> Result<Exit, CliError> {
    Err(anyhow::anyhow!("not built into this binary yet").into())
}
