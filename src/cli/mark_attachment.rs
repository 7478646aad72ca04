//! `mark-attachment`: the second readiness override, for tests and repair.
//!
//! If we die between the scan result and its announcement, `maple-router publish ID` announces it. Taking back an
//! infected result needs a reason, which is recorded.

use serde_json::json;

use super::id::{self, IdArg};
use super::setup::{self, Setup};
use super::{CliError, Context, Exit, finalize, operator};
use crate::routing::event::Reason;
use crate::routing::store::overrides::{Override, ScanResult, Touched};

/// Arguments of `set_scan_status-attachment`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Attachment id, or its beginning
    #[arg(value_name = "ATTACHMENT_ID", value_parser = id::parse)]
    pub(super) id: IdArg,
    #[command(flatten)]
    pub(super) verdict: ScanFlags,
    /// Why; recorded
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,
}

/// Records the scan result.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let setup = Setup::open(ctx)?;
    let id = setup.attachment(&args.id).await?;
    let verdict = if args.verdict.clean { ScanResult::Clean } else { ScanResult::Infected };
    let actor = operator::actor(&ctx.env);
    let more = json!({"attachment_id": id, "clamav_status": verdict.label()});
    let note =
        Override { actor: &actor, verb: "mark-attachment", reason: args.reason.as_deref(), more: &more };
    let standing =
        match setup.overrides().set_scan_status(id, verdict, note).await.map_err(setup::database)? {
            Touched::Done(standing) => standing,
            Touched::Unknown => return Err(setup::unknown("attachment", id)),
            Touched::Purged => return Err(finalize::purged(id)),
            Touched::NeedsReason => {
                let infected =
                    anyhow::anyhow!("attachment {id} is marked infected: say why it is clean after all");
                return Err(CliError::new(Exit::Usage, infected)
                    .remedy(format!("maple-router mark-attachment {id} --clean --reason TEXT")));
            }
        };
    let did = if standing.changed {
        finalize::recorded(&standing, &actor, note);
        format!("attachment {} is marked {}", id, verdict.label())
    } else {
        format!("attachment {} was marked {} already", id, verdict.label())
    };
    finalize::follow(&setup, &standing, &did, Reason::ScanClean).await
}

/// Exactly one of the two.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct ScanFlags {
    /// The scan found nothing
    #[arg(long)]
    pub(super) clean: bool,
    /// The scan found malware
    #[arg(long)]
    pub(super) infected: bool,
}
