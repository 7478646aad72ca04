//! `screening rescreen`: the only way back for what was kept out by mistake. The old run stays.

use clap::builder::NonEmptyStringValueParser;
use serde_json::json;
use uuid::Uuid;

use super::Room;
use crate::cli::id::{self, IdArg};
use crate::cli::{CliError, Context, Exit, output, setup};
use crate::ops::rng::Rng;
use crate::parts;
use crate::routing::submission::text::one_line;
use crate::screening::journal;
use crate::screening::rescreen::{Outcome, rescreen};
use crate::screening::store::people::Rescreened;

/// Arguments of `screening rescreen`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A submission or one of its runs, or the beginning of its id
    #[arg(value_name = "ID", value_parser = id::parse)]
    id: IdArg,
    /// Why; recorded
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    reason: String,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Opens another run, and the submission where screening had failed it.
pub(super) async fn run(ctx: &Context, args: &Args) -> Result<Exit, CliError> {
    let room = Room::open(ctx).await?;
    let id = room.meant(&args.id).await?;
    let known = room.store.one(id).await.map_err(setup::database)?;
    let submission = known.map_or(id, |known| known.run.subject);
    let (config, pool) = (&room.setup.config, room.setup.pool.clone());
    let (store, rng) = (room.setup.writing_store()?, std::sync::Arc::new(Rng::from_system()));
    let subject = parts::submission_subject(config, store, pool.clone(), rng).map_err(setup::part)?;
    let by = (room.actor.as_str(), args.reason.as_str());
    let outcome = pool
        .transaction("screening_rescreen", async |tx| {
            rescreen(&tx, &room.store, &subject, submission, by).await
        })
        .await
        .map_err(setup::database)?;
    match outcome {
        Outcome::Done { run, replayed } => {
            journal::rescreened(submission, run, &room.actor, &one_line(&args.reason));
            let document = json!({"submission_id": submission, "run_id": run, "replayed": replayed});
            output::either(args.json, &document, || {
                let open = if replayed { "\nit had failed as screened out, and is open again" } else { "" };
                format!(
                    "submission {submission} is screened again, by run {run}{open}\nmaple-router screening show {run}\n"
                )
            })?;
            Ok(Exit::Done)
        }
        Outcome::Refused(why, open) => Err(refused(&room, submission, why, open).await),
        Outcome::Unroutable(why) => {
            let unroutable = anyhow::anyhow!(
                "submission {submission} has failed as screened out and cannot be routed again, so that nothing was done: {why}"
            );
            Err(CliError::new(Exit::FoundWanting, unroutable)
                .remedy(format!("maple-router explain {submission}")))
        }
    }
}

async fn refused(room: &Room, id: Uuid, why: Rescreened, open: Option<Uuid>) -> CliError {
    let wanting = |what: String| CliError::new(Exit::FoundWanting, anyhow::anyhow!(what));
    match why {
        Rescreened::Unknown | Rescreened::Done => setup::unknown("submission", id),
        Rescreened::Purged => wanting(format!("submission {id} is emptied: nothing is left to be screened"))
            .remedy(format!("maple-router receipts show {id}")),
        Rescreened::Unscreened => {
            let form = room.setup.look(id).await.map(|found| one_line(&found.form_id)).unwrap_or_default();
            wanting(format!("form {form} of submission {id} is not screened")).remedy(format!(
                "maple-router screening enable {form} --profile PROFILE; submissions that are there already can be screened then"
            ))
        }
        Rescreened::Open => {
            let run = open.map(|run| run.to_string()).unwrap_or_default();
            wanting(format!("run {run} of submission {id} is open: it is being screened"))
                .remedy(format!("maple-router screening show {run}"))
        }
    }
}
