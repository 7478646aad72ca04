//! `grading regrade SUBMISSION`: another attempt where the last one failed. What was paid for and is still kept is not paid for again.

use clap::builder::NonEmptyStringValueParser;
use serde_json::json;

use super::Room;
use crate::cli::id::{self, IdArg};
use crate::cli::{CliError, Context, Exit, output, setup};
use crate::grading::journal;
use crate::grading::store::people::Regraded;
use crate::routing::submission::text::one_line;

/// Arguments of `grading regrade`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A submission or one of its attempts, or the beginning of the submission's id
    #[arg(value_name = "ID", value_parser = id::parse)]
    id: IdArg,
    /// Why; recorded
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    reason: String,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Opens another attempt.
pub(super) async fn run(ctx: &Context, args: &Args) -> Result<Exit, CliError> {
    let room = Room::open(ctx).await?;
    let submission = room.submission(&args.id).await?;
    let by = (room.actor.as_str(), args.reason.as_str());
    let (answer, request) = room
        .setup
        .pool
        .transaction("grading_set", async |tx| room.store.regrade(&tx, submission, by).await)
        .await
        .map_err(setup::database)?;
    let wanting = |what: String| CliError::new(Exit::FoundWanting, anyhow::anyhow!(what));
    let show = format!("maple-router grading show {submission}");
    match (answer, request) {
        (Regraded::Done, Some(request)) => {
            journal::regraded(submission, request, &room.actor, &one_line(&args.reason));
            output::either(args.json, &json!({"submission_id": submission, "request_id": request}), || {
                format!("submission {submission} is graded again, by attempt {request}\n{show}\n")
            })?;
            Ok(Exit::Done)
        }
        (Regraded::Done | Regraded::Unknown, _) => Err(setup::unknown("submission", submission)),
        (Regraded::Purged, _) => {
            Err(wanting(format!("submission {submission} is emptied: nothing is left to be graded"))
                .remedy(format!("maple-router receipts show {submission}")))
        }
        (Regraded::Ungraded, _) => Err(wanting(format!(
            "submission {submission} was never graded, or its form is not graded any more"
        ))
        .remedy("maple-router grading forms")),
        (Regraded::Open, _) => {
            Err(wanting(format!("submission {submission} is being graded: its attempt has not ended"))
                .remedy(show))
        }
        (Regraded::Graded, _) => {
            Err(wanting(format!("submission {submission} is graded: no grade is owed")).remedy(show))
        }
    }
}
