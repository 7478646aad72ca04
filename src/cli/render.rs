//! `render`: the exact mails a submission would cause. Sends nothing.

use super::{CliError, Context, Exit};

/// Arguments of `render`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Submission id
    #[arg(value_name = "ID")]
    pub(super) id: uuid::Uuid,
    /// Only the action with this action_order
    #[arg(long, value_name = "N")]
    pub(super) action: Option<i32>,
    /// A JSON array
    #[arg(long)]
    pub(super) json: bool,
}

/// Prints the mails.
pub(super) async fn run(_ctx: &Context, _args: Args) -> Result<Exit, CliError> {
    Err(anyhow::anyhow!("not built into this binary yet").into())
}
