//! `finalize`: the first readiness override, for tests and repair.
//!
//! Sets the configured column, where there is one, and announces the submission once it is ready. If we die in between,
//! `maple-router publish ID` does so.

use uuid::Uuid;

use super::id::{self, IdArg};
use super::setup::{self, Setup};
use super::{CliError, Context, Exit, announce, operator, output};
use crate::journal;
use crate::ops::telemetry::EventName;
use crate::routing::event::Reason;
use crate::routing::store::overrides::{Override, Standing, Touched};
use crate::routing::table::Status;

/// Arguments of `finalize`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Submission id, or its beginning
    #[arg(value_name = "ID", value_parser = id::parse)]
    pub(super) id: IdArg,
    /// Why; recorded
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,
}

/// Marks the submission as finalized.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let setup = Setup::open(ctx)?;
    let id = setup.submission(&args.id).await?;
    let actor = operator::actor(&ctx.env);
    let more = serde_json::json!({});
    let note = Override { actor: &actor, verb: "finalize", reason: args.reason.as_deref(), more: &more };
    let standing = match setup.overrides().finalize(id, note).await.map_err(setup::database)? {
        Touched::Done(standing) => standing,
        Touched::Unknown | Touched::NeedsReason => return Err(setup::unknown("submission", id)),
        Touched::Purged => return Err(purged(id)),
    };
    let did = match (&setup.config.readiness.finalized_column, standing.changed) {
        (Some(column), true) => format!("{column} is set"),
        (Some(column), false) => format!("{column} was set already"),
        (None, _) => {
            "no finalized_column is configured: a row counts as finalized once it is there".to_owned()
        }
    };
    if standing.changed {
        recorded(&standing, &actor, note);
    }
    follow(&setup, &standing, &did, Reason::Finalized).await
}

/// Announces an override's write, where that changes anything, and says what follows.
pub(super) async fn follow(
    setup: &Setup,
    standing: &Standing,
    did: &str,
    reason: Reason,
) -> Result<Exit, CliError> {
    let id = standing.id;
    let announce = |reason| announce::or_end(&setup.config, id, &standing.form_id, reason);
    let follows = match standing.status {
        Status::Received if standing.infected => {
            let announced = announce(Reason::Operator).await?.sentence();
            format!("an attachment is infected: {announced}, and the worker fails it (rb-008)")
        }
        Status::Received if standing.is_ready() => {
            let announced = announce(reason).await?.sentence();
            format!("it is ready: {announced}, and a worker claims it")
        }
        Status::Received if !standing.finalized => {
            "not finalized yet: nothing is published; `maple-router finalize` does both".to_owned()
        }
        Status::Received => format!(
            "{} of its attachments still to be scanned: nothing is published until all are clean",
            standing.pending
        ),
        Status::Processing if standing.infected => {
            "a worker has it: no further mail is begun, and it fails (rb-008)".to_owned()
        }
        Status::Processing => "a worker has it: nothing is published".to_owned(),
        Status::Routed | Status::Failed | Status::Purged => {
            format!("it is {} already: nothing is published, and nothing is sent by this", standing.status)
        }
    };
    output::text(&format!("{id}: {did}; {follows}"))?;
    Ok(Exit::Done)
}

/// The journal's line of a readiness override.
pub(super) fn recorded(standing: &Standing, actor: &str, note: Override<'_>) {
    journal!(
        warn,
        EventName::Override,
        submission_id = %standing.id,
        form_id = standing.form_id,
        actor = actor,
        verb = note.verb,
        reason = note.reason,
        "an operator changed the readiness of a submission"
    );
}

/// The error for a submission that retention has emptied.
pub(super) fn purged(id: Uuid) -> CliError {
    CliError::new(Exit::FoundWanting, anyhow::anyhow!("{id} is purged: nothing is written to it any more"))
}
