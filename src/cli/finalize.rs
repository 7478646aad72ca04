//! `finalize`: the first readiness seam, for tests and repair.

use super::{CliError, Context, Exit};

/// Arguments of `finalize`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Submission id
    #[arg(value_name = "ID")]
    pub(super) id: uuid::Uuid,
    /// Why; recorded
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,
}

/// Marks the submission as finalized.
pub(super) async fn run(_ctx: &Context, _args: Args) -> Result<Exit, CliError> {
    Err(anyhow::anyhow!("not built into this binary yet").into())
}
