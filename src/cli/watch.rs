//! `watch ID`: one submission until it ends, each change as it happens.
//!
//! Reads only, looking once a second and keeping nothing open in between: it may be ended at any time. While the database does
//! not answer it says so once, and goes on when it does.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::desk::{self, Desk};
use super::id::{self, IdArg};
use super::output::{self, Palette};
use super::timeline::{self, Moment};
use super::{CliError, Context, Exit};
use crate::config::Routing;
use crate::db::{DbError, DbErrorKind};
use crate::routing::decide;
use crate::routing::explain::at;
use crate::routing::ledger::{DeliveryState, FailReason, Finished, Ledger};
use crate::routing::store::view::{AuditRow, Sight};
use crate::routing::table::Status;
use crate::routing::text::{bounded, one_line};

/// Between two looks.
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

/// Follows it to its end: 0 where it is routed.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let desk = Desk::open(ctx)?;
    let id = desk.submission(&args.id).await?;
    let mut told = BTreeSet::new();
    let mut silent = false;
    loop {
        match look(&desk, id).await {
            Ok((None, _)) => return Err(desk::unknown("submission", id)),
            Ok((Some(sight), audit)) => {
                if told.is_empty() && !args.json {
                    output::page(&format!("{id}  {}", bounded(one_line(&sight.form_id), 60)))?;
                }
                for (key, moment) in moments(&sight, audit.as_deref(), &desk.config.routing) {
                    if told.insert(key) {
                        tell(&moment, args.json)?;
                    }
                }
                if sight.status.is_terminal() {
                    return end(id, &sight, args.json);
                }
                silent = false;
            }
            // Whoever begins with a database that is away is told so.
            Err(error) if told.is_empty() || !passes(&error) => return Err(desk::database(error)),
            Err(error) => {
                if !std::mem::replace(&mut silent, true) {
                    output::note(&format!("the database does not answer ({error}): waiting for it"))?;
                }
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Whether a fault of the database may be gone at the next look.
pub(super) fn passes(error: &DbError) -> bool {
    matches!(error.kind(), DbErrorKind::Unreachable | DbErrorKind::Busy)
}

async fn look(desk: &Desk, id: Uuid) -> Result<(Option<Sight>, Option<Vec<AuditRow>>), DbError> {
    // The row first: what it says has ended is in the log by then.
    let sight = desk.view().look(id).await?;
    Ok((sight, desk.view().audit(id).await?))
}

fn tell(moment: &Moment, json: bool) -> Result<(), CliError> {
    if json {
        output::json_line(moment)
    } else {
        output::page(&format!("{} {}", at(moment.at), moment.line()))
    }
}

fn end(id: Uuid, sight: &Sight, json: bool) -> Result<Exit, CliError> {
    let ledger = sight.ledger.as_ref().ok();
    let reason =
        ledger.and_then(|ledger| ledger.finished.as_ref()).and_then(|Finished { reason, .. }| *reason);
    let reason = reason.map(FailReason::label);
    if json {
        output::json_line(
            &json!({"at": sight.updated_at, "what": "ended", "status": sight.status, "reason": reason}),
        )?;
    } else {
        let because = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        let word = format!("{}{because}", sight.status.label().to_uppercase());
        let palette = Palette::of_stdout();
        output::page(&match sight.status {
            Status::Routed => palette.green(&word),
            Status::Received | Status::Processing | Status::Failed | Status::Purged => {
                format!("{}: maple-router explain {id}", palette.red(&word))
            }
        })?;
    }
    Ok(if sight.status == Status::Routed { Exit::Done } else { Exit::FoundWanting })
}

/// What is known of it, oldest first, each with what it is known again by.
fn moments(sight: &Sight, audit: Option<&[AuditRow]>, routing: &Routing) -> Vec<(String, Moment)> {
    let nothing = Ledger::default();
    let ledger = sight.ledger.as_ref().unwrap_or(&nothing);
    let moment =
        |at: Timestamp, what: &str, words: String| Moment { at, what: what.to_owned(), actor: None, words };
    let mut all = timeline::timeline(ledger, audit);
    all.push(moment(sight.created_at, "submitted", String::new()));
    if let Some(claim) = ledger.claim.as_ref().filter(|_| sight.status == Status::Processing) {
        let worker = bounded(one_line(&claim.worker), 60);
        let words = format!("attempt {} of {} by {worker}", ledger.attempts, routing.max_attempts);
        all.push(moment(claim.at, "claimed", words));
    }
    for delivery in ledger.deliveries.values().filter(|delivery| delivery.state == DeliveryState::Open) {
        if let Some(begun) = &delivery.begun {
            all.push(moment(begun.at, "sending", String::new()));
        }
    }
    all.sort_by_key(|moment| moment.at);
    all.dedup();
    let known = |moment: Moment| (format!("{} {} {}", moment.at, moment.what, moment.words), moment);
    let mut all: Vec<(String, Moment)> = all.into_iter().map(known).collect();
    // How it stands has no time of its own: known by what it says, told as of when it was seen.
    if let Some((what, words)) = standing(sight, ledger, routing) {
        let key = format!("{what} {words} {}", ledger.overrides.len());
        all.push((key, moment(sight.now, what, words)));
    }
    all
}

/// What a submission that nobody works on waits for.
fn standing(sight: &Sight, ledger: &Ledger, routing: &Routing) -> Option<(&'static str, String)> {
    if sight.status != Status::Received {
        return None;
    }
    Some(match (sight.infected, sight.finalized, sight.pending) {
        (true, ..) => ("infected", "it fails".to_owned()),
        (false, false, _) => ("not_finalized", String::new()),
        (false, true, 1..) => (
            "scanning",
            format!("{} of {} attachments to be scanned", sight.pending, sight.attachments.len()),
        ),
        (false, true, _) => match decide::due(ledger, Some(sight.updated_at), sight.now, routing.backoff_max)
        {
            Some(due) => {
                let next =
                    if due > sight.now { format!("not before {}", at(due)) } else { "is due".to_owned() };
                let of = format!("{} of {}", ledger.attempts, routing.max_attempts);
                ("given_back", format!("attempt {of} is spent, the next {next}"))
            }
            None => ("ready", String::new()),
        },
    })
}
