//! `watch ID`: one submission until it ends, each change as it happens.
//!
//! Reads only, looking once a second and keeping nothing open in between: the verb may be ended at any time. While
//! the database does not answer it says so once, and goes on when it does.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use uuid::Uuid;

use super::id::{self, IdArg};
use super::output::{self, Palette};
use super::setup::{self, Setup};
use super::{CliError, Context, Exit};
use crate::db::{DbError, DbErrorKind};
use crate::queries::timeline::Moment;
use crate::queries::watch;
use crate::routing::explain::at;
use crate::routing::store::view::SubmissionView;
use crate::routing::submission::ledger::{FailReason, Finished};
use crate::routing::submission::text::{bounded, one_line};
use crate::routing::table::Status;

/// Interval between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// Arguments of `watch`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Submission id, or its beginning
    #[arg(value_name = "ID", value_parser = id::parse)]
    pub(super) id: IdArg,
    /// A JSON object a line
    #[arg(long)]
    pub(super) json: bool,
}

/// Follows the submission to its end: 0 where it is routed.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let setup = Setup::open(ctx)?;
    let id = setup.submission(&args.id).await?;
    let mut shown = BTreeSet::new();
    let mut silent = false;
    loop {
        match watch::look(&setup, id).await {
            Ok((None, _)) => return Err(setup::unknown("submission", id)),
            Ok((Some(view), audit)) => {
                if shown.is_empty() && !args.json {
                    output::page(&format!("{id}  {}", bounded(one_line(&view.form_id), 60)))?;
                }
                for (key, moment) in watch::moments(&view, audit.as_deref(), &setup.config.routing) {
                    if shown.insert(key) {
                        tell(&moment, args.json)?;
                    }
                }
                if view.status.is_terminal() {
                    return end(id, &view, args.json);
                }
                silent = false;
            }
            // At the start a database that is away is an error.
            Err(error) if shown.is_empty() || !passes(&error) => return Err(setup::database(error)),
            Err(error) => {
                if !std::mem::replace(&mut silent, true) {
                    output::note(&format!("the database does not answer ({error}): waiting for it"))?;
                }
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Says whether a fault of the database may be gone at the next look.
pub(super) fn passes(error: &DbError) -> bool {
    matches!(error.kind(), DbErrorKind::Unreachable | DbErrorKind::Busy)
}

fn tell(moment: &Moment, json: bool) -> Result<(), CliError> {
    if json {
        output::json_line(moment)
    } else {
        output::page(&format!("{} {}", at(moment.at), moment.line()))
    }
}

fn end(id: Uuid, view: &SubmissionView, json: bool) -> Result<Exit, CliError> {
    let ledger = view.ledger.as_ref().ok();
    let reason =
        ledger.and_then(|ledger| ledger.finished.as_ref()).and_then(|Finished { reason, .. }| *reason);
    let reason = reason.map(FailReason::label);
    if json {
        output::json_line(
            &json!({"at": view.updated_at, "what": "ended", "status": view.status, "reason": reason}),
        )?;
    } else {
        let because = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        let word = format!("{}{because}", view.status.label().to_uppercase());
        let palette = Palette::of_stdout();
        output::page(&match view.status {
            Status::Routed => palette.green(&word),
            Status::Received | Status::Processing | Status::Failed | Status::Purged => {
                format!("{}: maple-router explain {id}", palette.red(&word))
            }
        })?;
    }
    Ok(if view.status == Status::Routed { Exit::Done } else { Exit::FoundWanting })
}
