//! `migrate`: migrations, as the owner role. Released files are never changed, so that it may be repeated.

use super::{CliError, Context, Exit};

/// Arguments of `migrate`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Connection string of the owner role [default: the one of [database]]
    #[arg(long, value_name = "URL", env = "MAPLE_ROUTER_OWNER_URL", hide_env_values = true)]
    pub(super) owner_url: Option<String>,
    /// Apply this migration of the forms schema only, e.g. 011: for a production database, which has the others
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["router", "audit_readable"])]
    pub(super) only: Option<String>,
    /// Apply the migrations of the optional schema router
    #[arg(long)]
    pub(super) router: bool,
    /// Stand-in schema only: let forms_app read the audit log
    #[arg(long)]
    pub(super) audit_readable: bool,
    /// Only tell what would be applied
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// Applies what is missing.
pub(super) async fn run(_ctx: &Context, _args: Args) -> Result<Exit, CliError> {
    Err(anyhow::anyhow!("not built into this binary yet").into())
}
