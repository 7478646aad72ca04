//! Pure decisions over a row and its ledger. Time is an argument.
//!
//! Invariant: no I/O here. Every decision is taken while the caller has the row locked, on values read under that lock
//! (protocol, "Every guarded write locks its row first").

pub mod backfill;
pub mod draft;
pub mod evidence;
pub mod replay;
pub mod settlement;
mod stuck;

pub use stuck::{REFUNDED_RESETS, StuckDecision, perhaps_sent, stuck};

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::pause::Pauses;
use super::submission::ledger::{Delivery, DeliveryState, ErrorClass, FailReason, Ledger, LedgerFault};
use super::submission::plan::PlannedAction;
use super::submission::screening::Gate;
use super::table::Status;
use crate::config::InDoubt;
use crate::kernel::words;

/// Longest wait for a due time; an event due later goes back to the source (protocol §2).
pub const HOLD_WITHIN: SignedDuration = SignedDuration::from_secs(60);

/// Values of a row that the claim reads, under its lock.
#[derive(Debug, Clone)]
pub struct RowView<'a> {
    /// `submissions.status`.
    pub status: Status,
    /// The ledger, or the reason why it is not believed.
    pub ledger: &'a Result<Ledger, LedgerFault>,
    /// Whether the row is finalized, as the database contract defines it.
    pub finalized: bool,
    /// Number of attachments still to be scanned.
    pub pending: i64,
    /// Whether an attachment is infected.
    pub infected: bool,
    /// What screening and grading say.
    pub gate: Gate,
    /// `submissions.updated_at`; absent where that is no instant.
    pub touched: Option<Timestamp>,
    /// Longest back-off of the configuration.
    pub longest_pause: Duration,
}

/// Decision about a row's event (protocol §2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimDecision {
    /// Claim the row.
    Take,
    /// Ack and drop: nothing to do here.
    Drop(DropReason),
    /// Keep the event until this instant of database time, then decide again.
    Defer(Timestamp),
    /// Give the event back.
    Nack(NackReason),
    /// `received → failed`, nothing sent.
    Fail(FailReason),
}

/// Reason why an event is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// Another worker has claimed the submission.
    LeasedElsewhere,
    /// The submission has ended.
    Finished(Status),
    /// The backend has not finalized it: the readiness override or the sweep brings it back.
    NotFinalized,
    /// Attachments are still being scanned: the readiness override or the sweep brings it back.
    NotClean,
    /// Its screening goes on: its end brings it back.
    NotScreened,
    /// It waits for its grade: the grade, or a release, brings it back.
    NotGraded,
    /// An operator has paused all open deliveries: the sweep brings the submission back when the pause ends.
    Paused,
}

impl DropReason {
    /// Label used in the journal.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::LeasedElsewhere => "held_elsewhere",
            Self::Finished(_) => "finished",
            Self::NotFinalized => "not_finalized",
            Self::NotClean => "not_clean",
            Self::NotScreened => "not_screened",
            Self::NotGraded => "not_graded",
            Self::Paused => "paused",
        }
    }
}

words! {
    /// Reason why an event goes back to its source.
    NackReason {
        /// No such row.
        UnknownSubmission = "unknown_submission",
        /// Due, but not soon.
        NotDue = "not_due",
        /// The ledger was written by a newer version.
        NewerLedger = "newer_ledger",
        /// The form has an action of a type this version does not know.
        UnknownActionType = "unknown_action_type",
        /// A column of the row has another type than in the contract.
        UnreadableRow = "unreadable_row",
        /// Facts of the submission lie in this host's spool: the row does not show what was sent.
        FactsInSpool = "facts_in_spool",
        /// The database refuses to write this submission's claim, and that of no other.
        SetAside = "set_aside",
    }
}

/// Decides about one row (protocol §2). The order matters: a row that is not ours is dropped before it is judged, and a
/// ledger of a newer version stays untouched whatever else is true.
#[must_use]
pub fn claim(row: &RowView<'_>, now: Timestamp, max_attempts: u32) -> ClaimDecision {
    match row.status {
        Status::Processing => return ClaimDecision::Drop(DropReason::LeasedElsewhere),
        Status::Routed | Status::Failed | Status::Purged => {
            return ClaimDecision::Drop(DropReason::Finished(row.status));
        }
        Status::Received => {}
    }
    if let Err(LedgerFault::Newer(_)) = row.ledger {
        return ClaimDecision::Nack(NackReason::NewerLedger);
    }
    if row.infected {
        return ClaimDecision::Fail(FailReason::Infected);
    }
    if row.gate == Gate::Out {
        return ClaimDecision::Fail(FailReason::ScreenedOut);
    }
    let Ok(ledger) = row.ledger else {
        return ClaimDecision::Fail(FailReason::LedgerDamaged);
    };
    if ledger.attempts >= max_attempts && !nothing_left_open(ledger) {
        return ClaimDecision::Fail(FailReason::Exhausted);
    }
    if !row.finalized {
        return ClaimDecision::Drop(DropReason::NotFinalized);
    }
    if row.pending > 0 {
        return ClaimDecision::Drop(DropReason::NotClean);
    }
    if row.gate == Gate::Waiting {
        return ClaimDecision::Drop(DropReason::NotScreened);
    }
    if row.gate == Gate::Ungraded {
        return ClaimDecision::Drop(DropReason::NotGraded);
    }
    match due(ledger, row.touched, now, row.longest_pause) {
        Some(due) if due > now => {
            if due.duration_since(now) <= HOLD_WITHIN {
                ClaimDecision::Defer(due)
            } else {
                ClaimDecision::Nack(NackReason::NotDue)
            }
        }
        Some(_) | None => ClaimDecision::Take,
    }
}

/// Time of the next attempt. A due time further ahead than the longest back-off was written by a clock that was ahead
/// (routing writes none): it counts as that back-off after the last change; where the same clock wrote that too, as now.
#[must_use]
pub fn due(
    ledger: &Ledger,
    touched: Option<Timestamp>,
    now: Timestamp,
    longest: Duration,
) -> Option<Timestamp> {
    let written = ledger.next_attempt_at?;
    let after = |from: Timestamp| from.checked_add(longest).unwrap_or(Timestamp::MAX);
    if written <= after(now) {
        return Some(written);
    }
    Some(touched.filter(|touched| *touched <= now).map_or(now, after))
}

/// Decides as [`claim`] does, with pauses. A pause stops only a claim: a failure without a send happens all the same,
/// and a row with nothing left to send is finished.
#[must_use]
pub fn claim_unless_paused(
    row: &RowView<'_>,
    now: Timestamp,
    max_attempts: u32,
    form_id: &str,
    open: &[String],
    pauses: &Pauses,
) -> ClaimDecision {
    let decision = claim(row, now, max_attempts);
    let deferred = || {
        let pause = pauses.of_submission(form_id, open.iter().map(String::as_str));
        pause.is_some() && !row.ledger.as_ref().is_ok_and(nothing_left_open)
    };
    if decision == ClaimDecision::Take && deferred() {
        ClaimDecision::Drop(DropReason::Paused)
    } else {
        decision
    }
}

/// Whether all deliveries have a fact, or the proof of one: such a row may still end `routed` when no attempts are left
/// (protocol §6).
fn nothing_left_open(ledger: &Ledger) -> bool {
    !ledger.plan.is_empty() && verdict(&ledger.with_proofs(), u32::MAX) == Verdict::Routed
}

/// The ledger's judgement at the end of a claim (protocol §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Every delivery is accepted or not implemented.
    Routed,
    /// The submission fails for good.
    Failed(FailReason),
    /// Another attempt follows.
    Release,
}

/// The verdict, computed from the ledger under the row lock, never from memory (protocol §6).
///
/// An action of the plan without a delivery counts as open, so that `routed` always implies a delivery per action (P5).
#[must_use]
pub fn verdict(ledger: &Ledger, max_attempts: u32) -> Verdict {
    let attempts_left = ledger.attempts < max_attempts;
    if ledger.plan.is_empty() {
        return if attempts_left { Verdict::Release } else { Verdict::Failed(FailReason::NoActions) };
    }
    let open = ledger.deliveries.values().any(|d| d.state == DeliveryState::Open)
        || ledger.plan.iter().any(|action| ledger.deliveries_of(action.action_order).next().is_none());
    if open {
        return if attempts_left { Verdict::Release } else { Verdict::Failed(FailReason::Exhausted) };
    }
    let mut failed = ledger.deliveries.values().filter(|d| d.state == DeliveryState::Failed).peekable();
    if failed.peek().is_none() {
        return Verdict::Routed;
    }
    let on_hold = |d: &crate::routing::submission::ledger::Delivery| {
        d.error.as_ref().is_some_and(|e| e.class == ErrorClass::InDoubt)
    };
    if failed.any(on_hold) {
        Verdict::Failed(FailReason::InDoubt)
    } else {
        Verdict::Failed(FailReason::Refused)
    }
}

/// Computes [`verdict`] with the attempt given back in case of a release: the last attempt is not spent then.
#[must_use]
pub fn verdict_with_refund(ledger: &Ledger, max_attempts: u32, refund: bool) -> Verdict {
    verdict(ledger, max_attempts.saturating_add(u32::from(refund)))
}

/// The next action of this claim: the first in order with an open delivery that was not tried under it (protocol §3). An
/// action tried and deferred waits for the next claim; it never blocks later ones.
#[must_use]
pub fn next_action(ledger: &Ledger, tried: &BTreeSet<i32>) -> Option<i32> {
    ledger
        .plan
        .iter()
        .map(|action| action.action_order)
        .filter(|order| !tried.contains(order))
        .find(|order| ledger.deliveries_of(*order).any(|(_, d)| d.state == DeliveryState::Open))
}

/// How a ticket that may exist is looked for before it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// Again and again over a window, because the help desk's index may be behind.
    OverTime,
    /// Once: its doubt is older than any index.
    Once,
}

/// Whether a ticket is looked for before it is made: one in doubt; and one that was held, and that a person has opened again.
#[must_use]
pub fn search(delivery: &Delivery, token: &str) -> Option<Search> {
    if delivery.in_doubt(token) {
        return Some(Search::OverTime);
    }
    (delivery.state == DeliveryState::Open && delivery.doubted).then_some(Search::Once)
}

/// The open deliveries of one action, split by what the policy for doubt allows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenDeliveries {
    /// To be sent, those in doubt under `resend` once more.
    pub send: Vec<String>,
    /// Subset of `send` in doubt: perhaps delivered before, and sent with the same Message-ID.
    pub resend: Vec<String>,
    /// In doubt under `hold`: these fail with `in_doubt`, the others proceed.
    pub hold: Vec<String>,
}

/// Splits the open deliveries of an action by the policy for doubt (protocol, "Crash, doubt, stop, replay"). The relay's
/// proofs come before the policy and arrive here as a changed ledger: a fact ends the doubt, and so does the proof of
/// the contrary.
#[must_use]
pub fn open_deliveries(ledger: &Ledger, action_order: i32, token: &str, policy: InDoubt) -> OpenDeliveries {
    let mut open = OpenDeliveries::default();
    for (key, delivery) in ledger.deliveries_of(action_order) {
        if delivery.state != DeliveryState::Open {
            continue;
        }
        match (delivery.in_doubt(token), policy) {
            (true, InDoubt::Hold) => open.hold.push(key.to_owned()),
            (true, InDoubt::Resend) => {
                open.send.push(key.to_owned());
                open.resend.push(key.to_owned());
            }
            (false, InDoubt::Hold | InDoubt::Resend) => open.send.push(key.to_owned()),
        }
    }
    open
}

/// [`next_mail`] of a claim that has tried nothing yet.
#[must_use]
pub fn first_mail(ledger: &Ledger, token: &str) -> Vec<String> {
    next_mail(ledger, &BTreeSet::new(), token)
}

/// Deliveries of the next mail whose intent a claim, or the record of the mail before, may record at once (protocol §3): all
/// open ones of the next action, if that is a mail, every address is usable and nothing is in doubt. None otherwise: then
/// another step precedes the mail.
#[must_use]
pub fn next_mail(ledger: &Ledger, tried: &BTreeSet<i32>, token: &str) -> Vec<String> {
    let Some(order) = next_action(ledger, tried) else { return Vec::new() };
    let is_mail = |action: &PlannedAction| action.action_order == order && action.action_type.is_email();
    let open = open_deliveries(ledger, order, token, InDoubt::Resend);
    let is_usable = |key: &String| !key.contains("|!");
    if ledger.plan.iter().any(is_mail) && open.resend.is_empty() && open.send.iter().all(is_usable) {
        open.send
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
