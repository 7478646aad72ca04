//! One submission as it changes: each look gives all known moments, each with the key by which it is recognised again.
//!
//! Reads only, and keeps nothing open between two looks.

use jiff::Timestamp;
use uuid::Uuid;

use super::Reader;
use super::timeline::{self, Moment};
use crate::config::Routing;
use crate::db::DbError;
use crate::routing::decide;
use crate::routing::explain::at;
use crate::routing::store::view::{AuditRow, SubmissionView};
use crate::routing::submission::ledger::{DeliveryState, Ledger};
use crate::routing::submission::text::{bounded, one_line};
use crate::routing::table::Status;

/// The submission with its trail, where that may be read.
pub(crate) async fn look(
    reader: &Reader,
    id: Uuid,
) -> Result<(Option<SubmissionView>, Option<Vec<AuditRow>>), DbError> {
    // The row first: the log has the ends that the row shows.
    let view = reader.view().look(id).await?;
    Ok((view, reader.view().audit(id).await?))
}

/// All known moments, oldest first, each with its key.
pub(crate) fn moments(
    view: &SubmissionView,
    audit: Option<&[AuditRow]>,
    routing: &Routing,
) -> Vec<(String, Moment)> {
    let nothing = Ledger::default();
    let ledger = view.ledger.as_ref().unwrap_or(&nothing);
    let moment =
        |at: Timestamp, what: &str, words: String| Moment { at, what: what.to_owned(), actor: None, words };
    let mut all = timeline::timeline(ledger, audit);
    all.push(moment(view.created_at, "submitted", String::new()));
    if let Some(claim) = ledger.claim.as_ref().filter(|_| view.status == Status::Processing) {
        let worker = bounded(one_line(&claim.worker), 60);
        let words = format!("attempt {} of {} by {worker}", ledger.attempts, routing.max_attempts);
        all.push(moment(claim.at, "claimed", words));
    }
    for delivery in ledger.deliveries.values().filter(|delivery| delivery.state == DeliveryState::Open) {
        if let Some(intent) = &delivery.intent {
            all.push(moment(intent.at, "sending", String::new()));
        }
    }
    all.sort_by_key(|moment| moment.at);
    all.dedup();
    let known = |moment: Moment| (format!("{} {} {}", moment.at, moment.what, moment.words), moment);
    let mut all: Vec<(String, Moment)> = all.into_iter().map(known).collect();
    // The present state has no time of its own: its words are its key, and its time is that of the look.
    if let Some((what, words)) = standing(view, ledger, routing) {
        let key = format!("{what} {words} {}", ledger.overrides.len());
        all.push((key, moment(view.now, what, words)));
    }
    all
}

/// Reason why a submission in no work waits.
fn standing(view: &SubmissionView, ledger: &Ledger, routing: &Routing) -> Option<(&'static str, String)> {
    if view.status != Status::Received {
        return None;
    }
    Some(match (view.infected, view.finalized, view.pending) {
        (true, ..) => ("infected", "it fails".to_owned()),
        (false, false, _) => ("not_finalized", String::new()),
        (false, true, 1..) => {
            ("scanning", format!("{} of {} attachments to be scanned", view.pending, view.attachments.len()))
        }
        (false, true, _) => match decide::due(ledger, Some(view.updated_at), view.now, routing.backoff_max) {
            Some(due) => {
                let next =
                    if due > view.now { format!("not before {}", at(due)) } else { "is due".to_owned() };
                let of = format!("{} of {}", ledger.attempts, routing.max_attempts);
                ("given_back", format!("attempt {of} is spent, the next {next}"))
            }
            None => ("ready", String::new()),
        },
    })
}
