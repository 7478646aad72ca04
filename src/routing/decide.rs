//! What follows: pure decisions over a row and its ledger. Time is an argument, chance too.
//!
//! Invariant: nothing here does I/O. Every decision is taken while the caller holds the row's lock, on what was read
//! under that lock (protocol, "Every guarded write locks its row first").

mod stuck;

pub use stuck::{REFUNDED_RESETS, StuckDecision, perhaps_sent, stuck};

use std::collections::BTreeSet;
use std::time::Duration;

use backon::BackoffBuilder;
use jiff::{SignedDuration, Timestamp};
use rand::{Rng, RngExt};

use super::ledger::{DeliveryState, ErrorClass, FailReason, Ledger, LedgerFault};
use super::pause::Pauses;
use crate::config::InDoubt;
use crate::lifecycle::submission::Status;

/// A due time within this distance is waited for; a later one goes back to the source (protocol §2).
pub const HOLD_WITHIN: SignedDuration = SignedDuration::from_secs(60);

/// What the claim reads of a row, under its lock.
#[derive(Debug, Clone)]
pub struct RowView<'a> {
    /// `submissions.status`.
    pub status: Status,
    /// The ledger, or why it is not believed.
    pub ledger: &'a Result<Ledger, LedgerFault>,
    /// Finalized, as the database contract defines it.
    pub finalized: bool,
    /// Attachments still to be scanned.
    pub pending: i64,
    /// An attachment is infected.
    pub infected: bool,
}

/// What becomes of an event for a row (protocol §2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimDecision {
    /// Claim it.
    Take,
    /// Ack and drop: nothing to do here.
    Drop(DropReason),
    /// Keep the event until this instant of database time, then look again.
    Hold(Timestamp),
    /// Give the event back.
    Nack(NackReason),
    /// `received → failed`, nothing sent.
    Fail(FailReason),
}

/// Why an event is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// Somebody else works on it.
    HeldElsewhere,
    /// It ended.
    Finished(Status),
    /// The backend has not finalized it: the seam or the sweep brings it back.
    NotFinalized,
    /// Attachments are still being scanned: the seam or the sweep brings it back.
    NotClean,
    /// An operator has paused all there is to do: the sweep brings it back when that ends.
    Paused,
}

impl DropReason {
    /// The label used in the journal.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::HeldElsewhere => "held_elsewhere",
            Self::Finished(_) => "finished",
            Self::NotFinalized => "not_finalized",
            Self::NotClean => "not_clean",
            Self::Paused => "paused",
        }
    }
}

/// Why an event goes back to its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NackReason {
    /// No such row.
    UnknownSubmission,
    /// Due, but not soon.
    NotDue,
    /// The ledger was written by a newer version.
    NewerLedger,
    /// The form has an action of a type this version does not know.
    UnknownActionType,
    /// A column of the row has another type than the contract says.
    UnreadableRow,
}

impl NackReason {
    /// The label used in the journal.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::UnknownSubmission => "unknown_submission",
            Self::NotDue => "not_due",
            Self::NewerLedger => "newer_ledger",
            Self::UnknownActionType => "unknown_action_type",
            Self::UnreadableRow => "unreadable_row",
        }
    }
}

/// Decides about one row (protocol §2). The order matters: what is not ours is dropped before it is judged, and a
/// ledger of a newer version stays untouched whatever else is true.
#[must_use]
pub fn claim(row: &RowView<'_>, now: Timestamp, max_attempts: u32) -> ClaimDecision {
    match row.status {
        Status::Processing => return ClaimDecision::Drop(DropReason::HeldElsewhere),
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
    match ledger.next_attempt_at {
        Some(due) if due > now => {
            if due.duration_since(now) <= HOLD_WITHIN {
                ClaimDecision::Hold(due)
            } else {
                ClaimDecision::Nack(NackReason::NotDue)
            }
        }
        Some(_) | None => ClaimDecision::Take,
    }
}

/// The same where something may be paused. Only a claim is held up: what fails without a send fails all the same, and a
/// row with nothing left to send is finished.
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
    let held_up = || {
        let pause = pauses.of_submission(form_id, open.iter().map(String::as_str));
        pause.is_some() && !row.ledger.as_ref().is_ok_and(nothing_left_open)
    };
    if decision == ClaimDecision::Take && held_up() {
        ClaimDecision::Drop(DropReason::Paused)
    } else {
        decision
    }
}

/// A row whose deliveries all have a fact may still end `routed` when no attempts are left (protocol §6).
fn nothing_left_open(ledger: &Ledger) -> bool {
    !ledger.plan.is_empty() && verdict(ledger, u32::MAX) == Verdict::Routed
}

/// What the ledger says about the end of a claim (protocol §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Everything accepted or not implemented.
    Routed,
    /// For good.
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
    let held = |d: &super::ledger::Delivery| d.error.as_ref().is_some_and(|e| e.class == ErrorClass::InDoubt);
    if failed.any(held) { Verdict::Failed(FailReason::InDoubt) } else { Verdict::Failed(FailReason::Refused) }
}

/// The same where the attempt is given back, should it come to a release: the last attempt is not spent then.
#[must_use]
pub fn verdict_with_refund(ledger: &Ledger, max_attempts: u32, refund: bool) -> Verdict {
    verdict(ledger, max_attempts.saturating_add(u32::from(refund)))
}

/// The next action of this claim: the first in order with an open delivery that was not tried under it (protocol §3).
/// An action tried and deferred waits for the next claim; it never blocks the ones behind it.
#[must_use]
pub fn next_action(ledger: &Ledger, tried: &BTreeSet<i32>) -> Option<i32> {
    ledger
        .plan
        .iter()
        .map(|action| action.action_order)
        .filter(|order| !tried.contains(order))
        .find(|order| ledger.deliveries_of(*order).any(|(_, d)| d.state == DeliveryState::Open))
}

/// The open deliveries of one action, split by what the policy for doubt allows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenDeliveries {
    /// To be sent, again where in doubt under `resend`.
    pub send: Vec<String>,
    /// Those of `send` that are in doubt: perhaps delivered before, and sent with the same Message-ID.
    pub resend: Vec<String>,
    /// In doubt under `hold`: these fail with `in_doubt`, the others proceed.
    pub hold: Vec<String>,
}

/// Splits the open deliveries of an action: the one place where doubt is resolved (protocol, "Crash, doubt, stop,
/// replay"). Today the policy alone resolves it. What the relay's log proves comes before the policy and arrives here as
/// a changed ledger: a fact ends the doubt, and so does the proof of the contrary.
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

/// Pause before the next attempt: exponential from `min` to `max`, full jitter above `min` (protocol §7).
///
/// `attempts` is the number already spent (1 after the first).
pub fn backoff(attempts: u32, min: Duration, max: Duration, chance: &mut impl Rng) -> Duration {
    let step = usize::try_from(attempts.saturating_sub(1)).unwrap_or(usize::MAX).min(32);
    let ceiling = backon::ExponentialBuilder::default()
        .with_min_delay(min)
        .with_max_delay(max)
        .with_factor(2.0)
        .without_max_times()
        .build()
        .nth(step)
        .unwrap_or(max)
        .clamp(min, max);
    min + (ceiling - min).mul_f64(chance.random_range(0.0..=1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use serde_json::{Value, json};

    const NOW: &str = "2026-11-01T10:00:00Z";

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a timestamp")
    }

    fn decide(
        status: Status,
        stored: &Value,
        finalized: bool,
        pending: i64,
        infected: bool,
    ) -> ClaimDecision {
        let ledger = Ledger::read(stored);
        claim(&RowView { status, ledger: &ledger, finalized, pending, infected }, at(NOW), 5)
    }

    #[test]
    fn the_claim_table_of_the_protocol() {
        use ClaimDecision as D;
        let due = |text: &str| json!({"v": 1, "attempts": 1, "next_attempt_at": text});
        let cases = [
            ("fresh", Status::Received, json!({}), true, 0, false, D::Take),
            ("due", Status::Received, due("2026-11-01T09:59:59Z"), true, 0, false, D::Take),
            ("due now", Status::Received, due(NOW), true, 0, false, D::Take),
            (
                "due in a minute",
                Status::Received,
                due("2026-11-01T10:01:00Z"),
                true,
                0,
                false,
                D::Hold(at("2026-11-01T10:01:00Z")),
            ),
            (
                "due later",
                Status::Received,
                due("2026-11-01T10:01:01Z"),
                true,
                0,
                false,
                D::Nack(NackReason::NotDue),
            ),
            ("held", Status::Processing, json!({}), true, 0, false, D::Drop(DropReason::HeldElsewhere)),
            (
                "held, damaged",
                Status::Processing,
                json!([]),
                true,
                0,
                true,
                D::Drop(DropReason::HeldElsewhere),
            ),
            (
                "routed",
                Status::Routed,
                json!({}),
                true,
                0,
                false,
                D::Drop(DropReason::Finished(Status::Routed)),
            ),
            (
                "failed",
                Status::Failed,
                json!([]),
                true,
                0,
                false,
                D::Drop(DropReason::Finished(Status::Failed)),
            ),
            (
                "purged",
                Status::Purged,
                json!({}),
                true,
                0,
                false,
                D::Drop(DropReason::Finished(Status::Purged)),
            ),
            (
                "not finalized",
                Status::Received,
                json!({}),
                false,
                0,
                false,
                D::Drop(DropReason::NotFinalized),
            ),
            ("scanning", Status::Received, json!({}), true, 1, false, D::Drop(DropReason::NotClean)),
            ("infected", Status::Received, json!({}), true, 2, true, D::Fail(FailReason::Infected)),
            (
                "infected, not final",
                Status::Received,
                json!({}),
                false,
                2,
                true,
                D::Fail(FailReason::Infected),
            ),
            ("infected, damaged", Status::Received, json!([]), true, 1, true, D::Fail(FailReason::Infected)),
            (
                "spent",
                Status::Received,
                json!({"v": 1, "attempts": 5}),
                true,
                0,
                false,
                D::Fail(FailReason::Exhausted),
            ),
            ("one left", Status::Received, json!({"v": 1, "attempts": 4}), true, 0, false, D::Take),
            (
                "damaged",
                Status::Received,
                json!({"attempts": "many"}),
                true,
                0,
                false,
                D::Fail(FailReason::LedgerDamaged),
            ),
            ("newer", Status::Received, json!({"v": 7}), true, 0, true, D::Nack(NackReason::NewerLedger)),
        ];
        for (name, status, stored, finalized, pending, infected, expected) in cases {
            assert_eq!(decide(status, &stored, finalized, pending, infected), expected, "{name}");
        }
    }

    fn ledger(attempts: u32, deliveries: &Value) -> Ledger {
        let action =
            |order: i32| json!({"action_order": order, "action_type": "email_raw", "destination": "x"});
        Ledger::read(
            &json!({"v": 1, "attempts": attempts, "plan": [action(1), action(2)], "deliveries": deliveries}),
        )
        .expect("well-shaped")
    }

    #[test]
    fn the_verdict_table_of_the_protocol() {
        let open = json!({"state": "open"});
        let sent = json!({"state": "accepted"});
        let refused =
            json!({"state": "failed", "error": {"class": "refused", "stage": "RCPT", "reply": "no"}});
        let held =
            json!({"state": "failed", "error": {"class": "in_doubt", "stage": "dot", "reply": "lost"}});
        let later = json!({"state": "not_implemented"});
        let cases = [
            ("all accepted", 1, json!({"1|a@x": sent, "2|b@x": sent}), Verdict::Routed),
            ("accepted and deferred stub", 1, json!({"1|a@x": sent, "2|": later}), Verdict::Routed),
            ("all accepted, none left", 5, json!({"1|a@x": sent, "2|b@x": sent}), Verdict::Routed),
            ("open", 1, json!({"1|a@x": sent, "2|b@x": open}), Verdict::Release),
            ("open and refused", 1, json!({"1|a@x": refused, "2|b@x": open}), Verdict::Release),
            (
                "open, none left",
                5,
                json!({"1|a@x": sent, "2|b@x": open}),
                Verdict::Failed(FailReason::Exhausted),
            ),
            ("refused", 1, json!({"1|a@x": refused, "2|b@x": sent}), Verdict::Failed(FailReason::Refused)),
            ("held", 1, json!({"1|a@x": refused, "2|b@x": held}), Verdict::Failed(FailReason::InDoubt)),
            ("an action without deliveries", 1, json!({"1|a@x": sent}), Verdict::Release),
            (
                "an action without deliveries, none left",
                5,
                json!({"1|a@x": sent}),
                Verdict::Failed(FailReason::Exhausted),
            ),
        ];
        for (name, attempts, deliveries, expected) in cases {
            assert_eq!(verdict(&ledger(attempts, &deliveries), 5), expected, "{name}");
        }
        let none = Ledger { attempts: 1, ..Ledger::default() };
        assert_eq!(verdict(&none, 5), Verdict::Release, "a form without actions is tried again");
        let none = Ledger { attempts: 5, ..Ledger::default() };
        assert_eq!(verdict(&none, 5), Verdict::Failed(FailReason::NoActions));
    }

    #[test]
    fn all_accepted_before_a_crash_still_ends_routed_when_no_attempts_are_left() {
        let row = ledger(5, &json!({"1|a@x": {"state": "accepted"}, "2|": {"state": "not_implemented"}}));
        let view = RowView {
            status: Status::Received,
            ledger: &Ok(row),
            finalized: true,
            pending: 0,
            infected: false,
        };
        assert_eq!(claim(&view, at(NOW), 5), ClaimDecision::Take);
    }

    #[test]
    fn a_deferred_action_never_blocks_the_next_one() {
        let both = ledger(1, &json!({"1|a@x": {"state": "open"}, "2|b@x": {"state": "open"}}));
        assert_eq!(next_action(&both, &BTreeSet::new()), Some(1));
        assert_eq!(next_action(&both, &BTreeSet::from([1])), Some(2));
        assert_eq!(next_action(&both, &BTreeSet::from([1, 2])), None);
        let second = ledger(1, &json!({"1|a@x": {"state": "failed"}, "2|b@x": {"state": "open"}}));
        assert_eq!(next_action(&second, &BTreeSet::new()), Some(2));
    }

    #[test]
    fn only_doubt_is_held_and_only_under_hold() {
        let mixed = ledger(
            2,
            &json!({"1|a@x": {"state": "open", "doubt": true}, "1|b@x": {"state": "open"}, "1|c@x": {"state": "accepted"}}),
        );
        assert_eq!(
            open_deliveries(&mixed, 1, "t", InDoubt::Hold),
            OpenDeliveries { send: vec!["1|b@x".to_owned()], resend: vec![], hold: vec!["1|a@x".to_owned()] }
        );
        let again = open_deliveries(&mixed, 1, "t", InDoubt::Resend);
        assert_eq!(
            (again.send, again.resend),
            (vec!["1|a@x".to_owned(), "1|b@x".to_owned()], vec!["1|a@x".to_owned()])
        );
    }

    #[test]
    fn the_back_off_grows_within_its_bounds_and_spreads() {
        let (min, max) = (Duration::from_secs(10), Duration::from_secs(300));
        let mut chance = rand::rngs::StdRng::seed_from_u64(7);
        for attempts in 0..200_u32 {
            let ceiling = min.saturating_mul(1 << attempts.clamp(1, 6).saturating_sub(1)).min(max);
            let pause = backoff(attempts, min, max, &mut chance);
            assert!(
                pause >= min && pause <= ceiling,
                "{attempts}: {pause:?} not within {min:?}..={ceiling:?}"
            );
        }
        let spread: BTreeSet<Duration> = (0..20).map(|_| backoff(6, min, max, &mut chance)).collect();
        assert!(spread.len() > 10, "full jitter spreads: {spread:?}");
    }
}
