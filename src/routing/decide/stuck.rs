//! Decisions on a claim whose worker is gone, for the sweep and for `release` (protocol, "Crash, doubt, stop, replay"
//! and "Sweep").
//!
//! Invariant: no I/O here. The row's age under its lock shows whether a claim is stuck, not this module.

use super::{FailReason, Ledger, LedgerFault, Verdict, verdict};
use crate::routing::submission::ledger::{Delivery, DeliveryState};

/// Number of resets that may give an attempt back; from then on a row that keeps losing its worker spends its attempts.
pub const REFUNDED_RESETS: u32 = 10;

/// Decision on a claim whose worker is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StuckDecision {
    /// Back to `received`, due at once; deliveries with an intent are in doubt.
    Reset {
        /// Whether the attempt is given back.
        refund: bool,
    },
    /// The submission fails.
    Fail(FailReason),
    /// The ledger is of a newer version: left untouched.
    Leave,
}

/// Decides about one row in `processing` whose worker is gone, with the checks of the claim in their order.
#[must_use]
pub fn stuck(ledger: &Result<Ledger, LedgerFault>, infected: bool, max_attempts: u32) -> StuckDecision {
    if let Err(LedgerFault::Newer(_)) = ledger {
        return StuckDecision::Leave;
    }
    if infected {
        return StuckDecision::Fail(FailReason::Infected);
    }
    let Ok(ledger) = ledger else {
        return StuckDecision::Fail(FailReason::LedgerDamaged);
    };
    let refund = ledger.resets < REFUNDED_RESETS && began_nothing(ledger);
    // A refunded attempt is one that is left.
    match verdict(&ledger.with_proofs(), max_attempts.saturating_add(u32::from(refund))) {
        // A submission that is accepted in full is claimed once more, and that claim only finishes.
        Verdict::Routed | Verdict::Release => StuckDecision::Reset { refund },
        Verdict::Failed(reason) => StuckDecision::Fail(reason),
    }
}

/// Deliveries with an intent and no outcome, of any claim: these are in doubt once their claim is taken back.
pub fn perhaps_sent(ledger: &Ledger) -> impl Iterator<Item = &str> {
    ledger
        .deliveries
        .iter()
        .filter(|(_, delivery)| delivery.state == DeliveryState::Open && delivery.intent.is_some())
        .map(|(key, _)| key.as_str())
}

/// Whether the live claim left no trace: no intent, no fact, no other outcome. Facts name their claim; other outcomes
/// are fenced, so one recorded since the claim started is the claim's own. Without a claim the answer is no.
fn began_nothing(ledger: &Ledger) -> bool {
    let Some(claim) = &ledger.claim else { return false };
    let traced = |delivery: &Delivery| {
        delivery.intent.as_ref().is_some_and(|intent| intent.token == claim.token)
            || match delivery.state {
                DeliveryState::Accepted => delivery.token.as_ref() == Some(&claim.token),
                DeliveryState::Open | DeliveryState::Failed | DeliveryState::NotImplemented => {
                    delivery.at.is_some_and(|at| at >= claim.at)
                }
            }
    };
    !ledger.deliveries.values().any(traced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const MAX: u32 = 5;

    fn row(attempts: u32, resets: u32, deliveries: &Value) -> Value {
        let action =
            |order: i32| json!({"action_order": order, "action_type": "email_raw", "destination": "x"});
        json!({
            "v": 1, "attempts": attempts, "resets": resets, "plan": [action(1), action(2)], "deliveries": deliveries,
            "claim": {"token": "t", "worker": "host/1", "at": "2026-11-01T10:00:00Z", "deadline": "2026-11-01T10:20:00Z"},
        })
    }

    fn decide(stored: &Value, infected: bool) -> StuckDecision {
        stuck(&Ledger::read(stored), infected, MAX)
    }

    #[test]
    fn the_table_of_stuck_claims() {
        use StuckDecision::{Fail, Leave, Reset};
        let (back, spent) = (Reset { refund: true }, Reset { refund: false });
        let open = json!({"state": "open"});
        let intent =
            |token: &str| json!({"state": "open", "begun": {"token": token, "at": "2026-11-01T10:01:00Z"}});
        let sent = |token: &str| json!({"state": "accepted", "token": token, "at": "2026-11-01T10:01:00Z"});
        let deferred = |at: &str| json!({"state": "open", "at": at, "error": {"class": "deferred", "stage": "RCPT", "reply": "later"}});
        let refused = |at: &str| json!({"state": "failed", "at": at, "error": {"class": "refused", "stage": "RCPT", "reply": "no"}});
        let (before, since) = ("2026-11-01T09:59:59Z", "2026-11-01T10:00:01Z");
        let both = |one: &Value, two: &Value| json!({"1|a@x": one, "2|b@x": two});
        let cases = [
            ("nothing begun", row(1, 0, &both(&open, &open)), false, back),
            ("nothing begun, the last attempt", row(5, 0, &both(&open, &open)), false, back),
            ("nothing begun, no deliveries yet", row(1, 0, &json!({})), false, back),
            ("nine resets", row(2, 9, &both(&open, &open)), false, back),
            ("ten resets", row(2, 10, &both(&open, &open)), false, spent),
            (
                "ten resets, the last attempt",
                row(5, 10, &both(&open, &open)),
                false,
                Fail(FailReason::Exhausted),
            ),
            ("begun", row(1, 0, &both(&intent("t"), &open)), false, spent),
            ("begun by an older claim only", row(2, 0, &both(&intent("old"), &open)), false, back),
            ("accepted under it", row(1, 0, &both(&sent("t"), &open)), false, spent),
            ("accepted under an older claim", row(2, 0, &both(&sent("old"), &open)), false, back),
            ("deferred under it", row(1, 0, &both(&deferred(since), &open)), false, spent),
            ("deferred under an older claim", row(2, 0, &both(&deferred(before), &open)), false, back),
            ("refused under it", row(1, 0, &both(&refused(since), &open)), false, spent),
            ("begun, one left", row(4, 0, &both(&intent("t"), &open)), false, spent),
            ("begun, none left", row(5, 0, &both(&intent("t"), &open)), false, Fail(FailReason::Exhausted)),
            ("all accepted", row(1, 0, &both(&sent("t"), &sent("t"))), false, spent),
            ("all accepted, none left", row(5, 0, &both(&sent("t"), &sent("t"))), false, spent),
            (
                "nothing open, something refused",
                row(1, 0, &both(&sent("t"), &refused(since))),
                false,
                Fail(FailReason::Refused),
            ),
            ("infected", row(1, 0, &both(&intent("t"), &open)), true, Fail(FailReason::Infected)),
            ("infected, damaged", json!([]), true, Fail(FailReason::Infected)),
            ("damaged", json!({"v": 1, "attempts": "many"}), false, Fail(FailReason::LedgerDamaged)),
            ("newer", json!({"v": 7}), true, Leave),
            ("never claimed by us", json!({}), false, spent),
        ];
        for (name, stored, infected, expected) in cases {
            assert_eq!(decide(&stored, infected), expected, "{name}");
        }
        let mut actionless = row(1, 0, &json!({}));
        actionless["plan"] = json!([]);
        assert_eq!(decide(&actionless, false), back, "a form without actions is tried again");
        actionless["attempts"] = json!(5);
        actionless["resets"] = json!(10);
        assert_eq!(decide(&actionless, false), Fail(FailReason::NoActions));
    }

    #[test]
    fn doubt_is_what_was_begun_and_has_no_outcome_whoever_began_it() {
        let intent = |token: &str| json!({"token": token, "at": "2026-11-01T10:00:00Z"});
        let stored = row(
            1,
            0,
            &json!({
                "1|mine@x": {"state": "open", "begun": intent("t")}, "1|theirs@x": {"state": "open", "begun": intent("old")},
                "1|sent@x": {"state": "accepted", "begun": intent("t")}, "1|not@x": {"state": "open"},
                "1|known@x": {"state": "open", "doubt": true}, "1|no@x": {"state": "failed", "begun": intent("t")},
            }),
        );
        let ledger = Ledger::read(&stored).expect("well-shaped");
        assert_eq!(perhaps_sent(&ledger).collect::<Vec<_>>(), ["1|mine@x", "1|theirs@x"]);
    }
}
