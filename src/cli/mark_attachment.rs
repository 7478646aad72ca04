//! `mark-attachment`: the second readiness seam, for tests and repair.

use super::{CliError, Context, Exit};

/// Arguments of `mark-attachment`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Attachment id
    #[arg(value_name = "ATTACHMENT_ID")]
    pub(super) id: uuid::Uuid,
    #[command(flatten)]
    pub(super) verdict: Verdict,
    /// Why; recorded
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,
}

/// Records the scan result.
pub(super) async fn run(_ctx: &Context, _args: Args) -> Result<Exit, CliError> {
    Err(anyhow::anyhow!("not built into this binary yet").into())
}

/// Exactly one of the two.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct Verdict {
    /// The scan found nothing
    #[arg(long)]
    pub(super) clean: bool,
    /// The scan found malware
    #[arg(long)]
    pub(super) infected: bool,
}
