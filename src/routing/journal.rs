//! The routing's lines in the journal: events of each submission, and what follows (interfaces, "Log fields").
//!
//! Never here: recipients, field values, signed URLs. A delivery is named by its position (`2/3`), replies are scrubbed.

mod delivery_status;
pub(super) mod files;
pub mod overrides;

use std::time::Duration;

pub(super) use delivery_status::{delivery_status, doubt, resolved, unproved};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::claims::Claim;
use super::claims::scope::ActionScope;
use super::dead_letter::Letter;
use super::decide::{DropReason, NackReason};
use super::event::Poison;
use super::store::Conclusion;
use super::store::sweep::{Orphan, Retaken, RetakenEnd, Unready};
use super::submission::ledger::FailReason;
use super::words::EventName;
use crate::db::DbError;
use crate::journal;
use crate::ops::metrics::DeadLetterKind;
use crate::ports::{Attributes, Fault, Outcome};
use crate::scrub::scrub;

/// Writes a line about a claimed submission: its fields, then those of the line.
macro_rules! of_claim {
    ($level:ident, $event:expr => $claim:expr, $($rest:tt)+) => {
        of_claim!($level, $claim, event = $event.label(), $($rest)+)
    };
    ($level:ident, $claim:expr, $($rest:tt)+) => {
        ::tracing::$level!(submission_id = %$claim.id, form_id = $claim.form_id, attempt = $claim.attempt, $($rest)+)
    };
}

/// An event came in.
pub(super) fn received(id: Uuid, message_id: &str, delivery_attempt: Option<i32>, reason: &str) {
    journal!(
        debug,
        EventName::Received,
        submission_id = %id,
        pubsub_message_id = message_id,
        delivery_attempt = delivery_attempt,
        reason = reason,
        "event received"
    );
}

/// An unreadable message.
pub(super) fn poison(message_id: &str, delivery_attempt: Option<i32>, why: Poison, sha256: &str, len: usize) {
    journal!(
        warn,
        EventName::Poison,
        pubsub_message_id = message_id,
        delivery_attempt = delivery_attempt,
        reason = why.label(),
        payload_sha256 = sha256,
        payload_len = len,
        "unreadable event given back ({why}): it is kept as a dead letter after its last delivery"
    );
}

/// Kind of a dead letter, and what follows.
pub(super) fn dead_letter(
    letter: Letter,
    kind: DeadLetterKind,
    message_id: &str,
    attributes: &Attributes,
    payload: &[u8],
) {
    let id = letter.submission().map(tracing::field::display);
    let deliveries = attributes
        .get("CloudPubSubDeadLetterSourceDeliveryCount")
        .and_then(|count| count.parse::<i64>().ok());
    let sha256 = hex::encode(Sha256::digest(payload));
    macro_rules! line {
        ($level:ident, $follows:literal) => {
            journal!(
                $level,
                EventName::DeadLetter,
                submission_id = id,
                pubsub_message_id = message_id,
                delivery_attempt = deliveries,
                outcome = kind.label(),
                payload_sha256 = sha256,
                payload_len = payload.len(),
                $follows
            )
        };
    }
    match letter {
        Letter::Unreadable(why) => journal!(
            error,
            EventName::DeadLetter,
            pubsub_message_id = message_id,
            delivery_attempt = deliveries,
            outcome = kind.label(),
            reason = why.label(),
            payload_sha256 = sha256,
            payload_len = payload.len(),
            "nobody could read it: it is recorded; see `maple-router dlq list`"
        ),
        Letter::UnknownSubmission(_) => {
            line!(error, "there is no such submission: it is recorded; see `maple-router dlq list`");
        }
        Letter::Exhausted(_) => {
            line!(warn, "its submission failed with its attempts spent: the row tells the rest");
        }
        Letter::Premature(_) => line!(info, "its submission is open: the sweep goes on with it"),
        Letter::Closed(_) => line!(info, "its submission has ended: nothing to do"),
    }
}

/// A submission was claimed.
pub(super) fn claimed(claim: &Claim, deliveries: usize) {
    of_claim!(info, EventName::Claimed => claim, "claimed with {deliveries} deliveries");
}

/// An event was acked without a claim: nothing to do.
pub(super) fn dropped(id: Uuid, why: DropReason) {
    let follows = match why {
        DropReason::LeasedElsewhere => "another worker has it",
        DropReason::Finished(_) => "it has ended",
        DropReason::NotScreened => "its screening goes on: the end of that brings it back",
        DropReason::NotGraded => "it waits for its grade: the grade brings it back, or a release",
        DropReason::NotFinalized | DropReason::NotClean => {
            "it is not ready: its readiness brings it back, or the sweep"
        }
        DropReason::Paused => "it is paused by an operator: the sweep brings it back when that ends",
    };
    journal!(info, EventName::Dropped, submission_id = %id, reason = why.label(), "event dropped: {follows}");
}

/// A submission is deferred here until it is due.
pub(super) fn deferred(id: Uuid, pause: Duration) {
    journal!(debug, EventName::Held, submission_id = %id, "deferred for {:.1} s until it is due", pause.as_secs_f64());
}

/// An event was given back.
pub(super) fn nacked(id: Uuid, why: NackReason) {
    macro_rules! back {
        ($level:ident, $event:expr, $why:literal) => {
            journal!($level, $event, submission_id = %id, reason = why.label(), $why)
        };
    }
    match why {
        NackReason::UnknownSubmission => back!(
            warn,
            EventName::Nacked,
            "no such submission: event given back; after its last delivery it is kept as a dead letter"
        ),
        NackReason::NotDue => back!(debug, EventName::Nacked, "not due yet: event given back"),
        NackReason::FactsInSpool => back!(
            warn,
            EventName::Nacked,
            "what the relay has accepted of it lies in the state directory and is not recorded yet: event given back, nothing \
             of it is sent meanwhile"
        ),
        // The refusing row was logged when it was set aside.
        NackReason::SetAside => {
            back!(debug, EventName::Nacked, "set aside, its claim cannot be written: event given back");
        }
        NackReason::UnreadableRow => back!(
            error,
            EventName::Nacked,
            "its row is not as the contract says: event given back; `maple-router check` names the column"
        ),
        NackReason::NewerLedger | NackReason::UnknownActionType => back!(
            error,
            EventName::Nacked,
            "written or configured for a newer version of this program: left untouched; upgrade this host"
        ),
    }
}

/// A submission failed without being claimed.
pub(super) fn refused(id: Uuid, form_id: &str, reason: FailReason) {
    journal!(
        error,
        EventName::Failed,
        submission_id = %id,
        form_id = form_id,
        reason = reason.label(),
        "failed without a send: {}; see `maple-router explain {id}`",
        reason.meaning()
    );
}

/// The intents of a mail are recorded.
pub(super) fn intent(claim: &Claim, scope: &ActionScope, recipients: usize) {
    of_claim!(
        debug,
        EventName::Begun => claim,
        action_order = scope.action_order,
        action_type = scope.action_type.label(),
        rfc_message_id = scope.message_id,
        "sending to {recipients} recipients"
    );
}

/// One delivery's outcome. `index` counts from 0.
pub(super) fn outcome(claim: &Claim, scope: &ActionScope, index: usize, outcome: &Outcome, took: Duration) {
    let delivery = format!("{}/{}", index + 1, scope.total.max(index + 1));
    let (code, enhanced, queue_id, text) = match outcome {
        Outcome::Accepted { reply, queue_id } => {
            (reply.code, reply.enhanced.clone(), queue_id.clone(), scrub(&reply.reply))
        }
        Outcome::Refused(fault) | Outcome::Deferred(fault) | Outcome::Unknown(fault) => {
            (fault.reply.code, fault.reply.enhanced.clone(), None, said(fault))
        }
        Outcome::Created { ticket, .. } => (None, None, None, ticket.display_id.clone()),
        Outcome::NotImplemented => (None, None, None, String::new()),
    };
    macro_rules! line {
        ($level:ident, $event:path, $follows:literal) => {
            of_claim!(
                $level,
                $event => claim,
                action_order = scope.action_order,
                action_type = scope.action_type.label(),
                delivery = delivery,
                outcome = outcome.label(),
                smtp_code = code,
                enhanced_code = enhanced,
                postfix_queue_id = queue_id,
                rfc_message_id = scope.message_id,
                duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                $follows,
                text
            )
        };
    }
    match outcome {
        Outcome::Accepted { .. } => line!(info, EventName::ActionAccepted, "accepted by the relay: {}"),
        Outcome::Created { .. } => line!(info, EventName::ActionAccepted, "the help desk has made ticket {}"),
        Outcome::Refused(_) => line!(warn, EventName::ActionRefused, "refused for good: {}"),
        Outcome::Deferred(_) => line!(warn, EventName::ActionDeferred, "stays open: {}"),
        Outcome::Unknown(_) => line!(warn, EventName::ActionUnknown, "in doubt, perhaps delivered: {}"),
        Outcome::NotImplemented => {
            line!(info, EventName::NotImplemented, "deferred: [happyfox] names no help desk{}");
        }
    }
}

/// A ticket in doubt was found more than once: a person closes what is too much.
pub(super) fn found_again(claim: &Claim, made: &Outcome) {
    if let Outcome::Created { ticket, also } = made
        && !also.is_empty()
    {
        let others: Vec<&str> = also.iter().map(|other| other.display_id.as_str()).collect();
        tracing::warn!(
            submission_id = %claim.id,
            "the help desk has ticket {} more than once, also as {}: close what is too much",
            ticket.display_id,
            others.join(", ")
        );
    }
}

/// End of a claim.
pub(super) fn concluded(claim: &Claim, conclusion: &Conclusion) {
    match conclusion {
        Conclusion::Routed { only_not_implemented, .. } => of_claim!(
            info,
            EventName::Routed => claim,
            "routed{}",
            if *only_not_implemented { ", but nothing was sent: all its actions are not implemented" } else { "" }
        ),
        Conclusion::Failed { reason, .. } => of_claim!(
            error,
            EventName::Failed => claim,
            reason = reason.label(),
            "failed: {}; see `maple-router explain {}`",
            reason.meaning(),
            claim.id
        ),
        Conclusion::Released { due } => of_claim!(
            warn,
            EventName::Released => claim,
            next_attempt_at = %due,
            "released: what is open is tried again when it comes back"
        ),
    }
}

/// A claim without an answer stood, and was given back.
pub(super) fn let_go(id: Uuid, due: Timestamp) {
    journal!(
        warn,
        EventName::Released,
        submission_id = %id,
        next_attempt_at = %due,
        "released: the answer to its claim was lost, and nothing was sent; it is tried again when it comes back"
    );
}

/// The claim was lost.
pub(super) fn stale(claim: &Claim) {
    of_claim!(
        warn,
        EventName::StaleSettle => claim,
        "the claim is not ours any more: what the relay accepted is recorded, nothing else is touched"
    );
}

/// The end of a claim was perhaps committed, and its answer lost.
pub(super) fn answer_lost(claim: &Claim) {
    of_claim!(
        warn,
        claim,
        "the claim has ended, but the database's answer was lost: it comes again and the row tells how"
    );
}

/// The row that an outcome belongs to is deleted or hidden.
pub(super) fn no_row(claim: &Claim, facts: usize) {
    of_claim!(
        error,
        claim,
        facts,
        "its row is not to be seen any more, deleted or hidden: nothing of it is recorded{}",
        if facts == 0 { "" } else { ", and what the relay has accepted is kept in the state directory" }
    );
}

/// Recording was given up.
pub(super) fn gave_up(claim: &Claim, facts: usize, error: &DbError) {
    of_claim!(
        error,
        claim,
        facts,
        "its outcome is not recorded ({}): what is not in the spool stays in doubt until it is taken back",
        scrub(&error.to_string())
    );
}

/// A record is refused again and again, and goes on without a slot.
pub(super) fn set_aside(id: Uuid) {
    tracing::error!(
        submission_id = %id,
        "the database refuses to record its outcome again and again: it is tried on, and others are routed meanwhile; the \
         lines before say what refuses it"
    );
}

/// Facts wait in the spool.
pub(super) fn spooled(id: Uuid, facts: usize) {
    journal!(
        warn,
        EventName::Spooled,
        submission_id = %id,
        facts,
        "the database does not take what the relay accepted: it is kept in the state directory until it does"
    );
}

/// Facts wait in memory only.
pub(super) fn not_spooled(id: Uuid, facts: usize, fault: &dyn std::fmt::Display) {
    tracing::error!(
        submission_id = %id,
        facts,
        "the database does not take what the relay accepted, and {fault}: it is lost if this process ends before it is \
         recorded"
    );
}

/// Spooled facts stand in the database.
pub(super) fn spool_replayed(id: Uuid, facts: usize) {
    journal!(
        info,
        EventName::SpoolReplayed,
        submission_id = %id,
        facts,
        "what the relay accepted before is recorded from the spool"
    );
}

/// A spool file that the database does not take now.
pub(super) fn spool_refused(id: Option<Uuid>, file: &std::path::Path, why: &str) {
    let id = id.map(tracing::field::display);
    tracing::warn!(
        submission_id = id,
        "{} cannot be recorded yet: {}; it is tried again, and this host sends nothing of its submission meanwhile",
        file.display(),
        scrub(why)
    );
}

/// A foreign entry in the spool.
pub(super) fn spool_foreign(path: &std::path::Path) {
    tracing::warn!("{} is none of the spool's files: it is left alone", path.display());
}

/// A spool file that can never be recorded.
pub(super) fn spool_set_aside(id: Option<Uuid>, file: &std::path::Path, why: &str) {
    let id = id.map(tracing::field::display);
    tracing::error!(
        submission_id = id,
        "{} is set aside: {}; it is tried again at each start, and while it lies there this host sends nothing of its \
         submission",
        file.display(),
        scrub(why)
    );
}

/// The sweep dealt with an abandoned claim.
pub(super) fn taken_back(retaken: &Retaken) {
    let Retaken { id, form_id, worker, end, .. } = retaken;
    let worker = worker.as_deref().map_or_else(|| "unknown".to_owned(), scrub);
    match end {
        RetakenEnd::Reset { attempts, refunded, in_doubt } => journal!(
            warn,
            EventName::Rescued,
            submission_id = %id,
            form_id = form_id,
            attempt = attempts,
            "taken back from worker {worker}, which left it untouched: it is claimed again; {in_doubt} deliveries are in \
             doubt{}",
            if *refunded { ", the attempt is given back" } else { "" }
        ),
        RetakenEnd::Failed(reason) => journal!(
            error,
            EventName::Failed,
            submission_id = %id,
            form_id = form_id,
            reason = reason.label(),
            "failed when it was taken back from worker {worker}, which left it untouched: {}; see `maple-router explain {id}`",
            reason.meaning()
        ),
        // Logged once for all such claims, and not at every pass.
        RetakenEnd::Left => {}
    }
}

/// Stuck claims whose ledger this version does not know.
pub(super) fn left(claims: u64) {
    if claims == 0 {
        tracing::info!("no stuck claim of a newer version is left any more");
    } else {
        tracing::warn!(
            "{claims} claims are untouched for long, but a newer version of this program wrote their ledgers: left to \
             that; upgrade this host, or start the newer one"
        );
    }
}

/// The sweep found a submission that no event has brought back.
pub(super) fn orphan(found: &Orphan) {
    journal!(
        info,
        EventName::Orphan,
        submission_id = %found.id,
        form_id = found.form_id,
        "ready, and no event came for it: it is claimed from here"
    );
}

/// Submissions that do not become ready.
pub(super) fn unready(unready: &Unready) {
    let Some(sample) = unready.sample else {
        tracing::info!("no submission waits too long for its readiness any more");
        return;
    };
    journal!(
        error,
        EventName::Unready,
        submission_id = %sample,
        "{} submissions are not ready since long, the oldest for {} s: do the scan worker and the backend run? See \
         `maple-router explain {sample}`",
        unready.count,
        unready.oldest.as_secs()
    );
}

/// A database fault while working on a claim.
pub(super) fn database_fault(claim: &Claim, what: &str, error: &DbError) {
    of_claim!(warn, claim, "{what}: {}", scrub(&error.to_string()));
}

fn said(fault: &Fault) -> String {
    let stage = serde_json::to_value(fault.stage).ok().and_then(|v| v.as_str().map(str::to_owned));
    format!("{}: {}", stage.unwrap_or_default(), scrub(&fault.reply.reply))
}
