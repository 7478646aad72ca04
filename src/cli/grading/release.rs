//! `grading release SUBMISSION`: the mail goes without its grade.

use clap::builder::NonEmptyStringValueParser;
use serde_json::json;

use super::Room;
use crate::cli::id::{self, IdArg};
use crate::cli::{CliError, Context, Exit, output, setup};
use crate::grading::journal;
use crate::grading::store::people::Released;
use crate::routing::submission::text::one_line;

/// Arguments of `grading release`.
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

/// Lets the mail go.
pub(super) async fn run(ctx: &Context, args: &Args) -> Result<Exit, CliError> {
    let room = Room::open(ctx).await?;
    let submission = room.submission(&args.id).await?;
    let by = (room.actor.as_str(), args.reason.as_str());
    let answer = room
        .setup
        .pool
        .transaction("grading_set", async |tx| room.store.release(&tx, submission, by).await)
        .await
        .map_err(setup::database)?;
    let wanting = |what: String| {
        CliError::new(Exit::FoundWanting, anyhow::anyhow!(what))
            .remedy(format!("maple-router grading show {submission}"))
    };
    match answer {
        Released::Done => {
            journal::released(submission, &room.actor, &one_line(&args.reason));
            output::either(args.json, &json!({"submission_id": submission, "released": true}), || {
                format!(
                    "the mail of submission {submission} goes without a grade\nmaple-router explain {submission}\n"
                )
            })?;
            Ok(Exit::Done)
        }
        Released::Unknown => Err(wanting(format!("no attempt at submission {submission} waits"))),
        Released::Ungated => {
            Err(wanting(format!("the mail of submission {submission} never waited for a grade")))
        }
        Released::Graded => {
            Err(wanting(format!("submission {submission} is graded: its mail goes with the grade")))
        }
        Released::Released => Err(wanting(format!("the mail of submission {submission} was let go before"))),
    }
}
