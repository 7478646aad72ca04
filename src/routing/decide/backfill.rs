//! Back-fill: tickets that were deferred while there was no help desk, and are made now (help-desk contract, "State").
//!
//! Invariant: no I/O here, no fact is touched, and the plan stays as it was pinned. Only a routed submission is opened: one
//! that failed belongs to a replay, and one that is open goes on by itself. Decisions are taken while the caller has the row
//! locked.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::kernel::{Transition, Who};
use crate::routing::submission::expand::{self, Expansion};
use crate::routing::submission::ledger::{DeliveryState, Ledger, LedgerFault, VERSION};
use crate::routing::submission::plan::PlannedAction;
use crate::routing::table::{Command, Status, Submission};

/// Values read of a row, under its lock.
#[derive(Debug, Clone, Copy)]
pub struct BackfillView<'a> {
    /// `submissions.status`.
    pub status: Status,
    /// The ledger as it is stored.
    pub stored: &'a Value,
    /// The ledger, or the reason why it is not believed.
    pub ledger: Result<&'a Ledger, &'a LedgerFault>,
    /// Whether an attachment is infected.
    pub infected: bool,
}

/// Changes written by a back-fill.
#[derive(Debug, Clone, PartialEq)]
pub struct Backfill {
    /// Transition back to `received`.
    pub transition: Transition<Submission>,
    /// Keys of the ledger to be set.
    pub keys: Value,
    /// Actions whose tickets are made now, in their order.
    pub actions: Vec<i32>,
    /// Content of the override, besides its author and reason.
    pub note: Value,
}

/// Reason why a submission is not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackfillRefusal {
    /// The submission has not ended.
    #[error("it is {0}: somebody has it, or it goes on by itself; once it is routed, do this again")]
    NotEnded(Status),
    /// The submission failed: what failed of it is a person's to decide first.
    #[error("it failed: `maple-router replay` sends what failed of it; once it is routed, do this again")]
    Failed,
    /// Retention has emptied the submission.
    #[error("it is purged: its contents were removed")]
    Purged,
    /// The ledger is not believed.
    #[error("{0}: which of its tickets were deferred is not known")]
    Ledger(LedgerFault),
    /// The submission would fail.
    #[error("an attachment is infected (rb-008), so that it would fail")]
    Infected,
    /// No ticket of it is deferred, or none that is wanted.
    #[error("none of its tickets is deferred any more")]
    NothingDeferred,
}

/// Decides about one row: every deferred ticket is opened but those of `left`, which would be refused. `now` is the database's
/// time.
///
/// # Errors
/// The reason why the row stays as it is.
pub fn backfill(
    view: &BackfillView<'_>,
    left: &BTreeSet<i32>,
    now: Timestamp,
) -> Result<Backfill, BackfillRefusal> {
    match view.status {
        Status::Received | Status::Processing => return Err(BackfillRefusal::NotEnded(view.status)),
        Status::Failed => return Err(BackfillRefusal::Failed),
        Status::Purged => return Err(BackfillRefusal::Purged),
        Status::Routed => {}
    }
    let transition = Transition::of(view.status, Command::Backfill, Who::OPERATOR)
        .map_err(|_| BackfillRefusal::NotEnded(view.status))?;
    let ledger = view.ledger.map_err(|fault| BackfillRefusal::Ledger(fault.clone()))?;
    if view.infected {
        return Err(BackfillRefusal::Infected);
    }
    let mut entries = match view.stored.get("deliveries") {
        Some(Value::Object(entries)) => entries.clone(),
        Some(_) | None => Map::new(),
    };
    let mut actions = Vec::new();
    for action in deferred(ledger).filter(|action| !left.contains(&action.action_order)) {
        reopen(&mut entries, action, ledger, now);
        actions.push(action.action_order);
    }
    if actions.is_empty() {
        return Err(BackfillRefusal::NothingDeferred);
    }
    let mut note = json!({"from": view.status, "deliveries": actions.len()});
    if let Some(finished) = view.stored.get("finished") {
        note["finished"] = finished.clone();
    }
    let keys = json!({"v": VERSION, "attempts": 0, "resets": 0, "deliveries": entries});
    Ok(Backfill { transition, keys, actions, note })
}

/// The actions of the pinned plan whose ticket was deferred, in their order.
fn deferred(ledger: &Ledger) -> impl Iterator<Item = &PlannedAction> {
    let is_deferred = |order| {
        let mut deliveries = ledger.deliveries_of(order).peekable();
        deliveries.peek().is_some() && deliveries.all(|(_, d)| d.state == DeliveryState::NotImplemented)
    };
    ledger
        .plan
        .iter()
        .filter(move |action| !action.action_type.is_email() && is_deferred(action.action_order))
}

/// Replaces the action's deferred entries, whoever deferred it, by an open one that is the help desk's.
fn reopen(entries: &mut Map<String, Value>, action: &PlannedAction, ledger: &Ledger, now: Timestamp) {
    for (key, _) in ledger.deliveries_of(action.action_order) {
        entries.remove(key);
    }
    // A ticket has one recipient, however many a mail may have.
    for key in expand::keys(action, Expansion { max_recipients: usize::MAX, tickets: true }) {
        entries.insert(key, json!({"state": DeliveryState::Open.label(), "at": now}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-20T10:00:00Z";

    fn at() -> Timestamp {
        NOW.parse().expect("a time")
    }

    /// Two tickets and a mail; the mail was accepted.
    fn stored(first: &Value, second: &Value) -> Value {
        let mut deliveries = json!({
            "2|a@x.test": {"state": "accepted", "nonce": "n", "queue_id": "Q", "relay": {"status": "delivered", "at": NOW, "theirs": 7}},
        });
        for entries in [first, second] {
            let Value::Object(entries) = entries else { continue };
            for (key, entry) in entries {
                deliveries[key] = entry.clone();
            }
        }
        json!({
            "v": 1, "attempts": 3, "resets": 2, "theirs": 7, "generations": {"1": 1},
            "finished": {"token": "t", "at": "2026-11-01T10:00:00Z", "status": "routed"},
            "plan": [
                {"action_order": 1, "action_type": "happyfox_template", "destination": "", "happyfox_category": "A"},
                {"action_order": 2, "action_type": "email_raw", "destination": "a@x.test"},
                {"action_order": 3, "action_type": "happyfox_template", "destination": "", "happyfox_category": "B"},
            ],
            "deliveries": deliveries,
        })
    }

    fn waiting() -> Value {
        stored(
            &json!({"1|": {"state": "not_implemented", "at": "2026-11-01T10:00:00Z"}}),
            &json!({"3|": {"state": "not_implemented"}}),
        )
    }

    fn decided(
        status: Status,
        stored: &Value,
        infected: bool,
        left: &[i32],
    ) -> Result<Backfill, BackfillRefusal> {
        let ledger = Ledger::read(stored);
        let view = BackfillView { status, stored, ledger: ledger.as_ref(), infected };
        backfill(&view, &left.iter().copied().collect(), at())
    }

    #[test]
    fn deferred_tickets_are_opened_and_nothing_else_changes() {
        let before = waiting();
        let done = decided(Status::Routed, &before, false, &[]).expect("deferred");
        assert_eq!(done.actions, [1, 3]);
        assert_eq!(
            done.keys,
            json!({
                "v": 1, "attempts": 0, "resets": 0,
                "deliveries": {
                    "1|happyfox": {"state": "open", "at": NOW},
                    "2|a@x.test": before["deliveries"]["2|a@x.test"],
                    "3|happyfox": {"state": "open", "at": NOW},
                },
            }),
            "the plan, its generations and keys of others are not written"
        );
        let finished = &before["finished"];
        assert_eq!(done.note, json!({"from": "routed", "deliveries": 2, "finished": finished}));
        assert_eq!(done.transition.to(), Status::Received);
    }

    #[test]
    fn what_would_be_refused_stays_deferred() {
        let before = waiting();
        let done = decided(Status::Routed, &before, false, &[1]).expect("one is left");
        assert_eq!(done.actions, [3]);
        assert_eq!(done.keys["deliveries"]["1|"], before["deliveries"]["1|"]);
        assert_eq!(done.keys["deliveries"].get("1|happyfox"), None);
    }

    /// A daemon that has no help desk yet may have claimed what was opened: its entry is the help desk's, and deferred.
    #[test]
    fn a_ticket_is_deferred_whoever_deferred_it_and_made_once() {
        let there = json!({"3|happyfox": {"state": "accepted", "ticket": {"id": 1, "display_id": "D1"}}});
        let again = stored(&json!({"1|happyfox": {"state": "not_implemented"}}), &there);
        let done = decided(Status::Routed, &again, false, &[]).expect("deferred");
        assert_eq!(done.actions, [1]);
        assert_eq!(done.keys["deliveries"]["1|happyfox"]["state"], "open");
        assert_eq!(done.keys["deliveries"]["3|happyfox"], there["3|happyfox"]);
        // A fact beside a deferred entry is believed: the ticket exists.
        let both = json!({"1|": {"state": "not_implemented"}, "1|happyfox": {"state": "accepted"}});
        let made = decided(Status::Routed, &stored(&both, &there), false, &[]);
        assert_eq!(made, Err(BackfillRefusal::NothingDeferred));
    }

    #[test]
    fn every_other_row_stays_as_it_is_and_says_why() {
        let newer = json!({"v": 9});
        let damaged = json!({"v": 1, "attempts": "many"});
        let mail_alone = stored(&json!({}), &json!({}));
        type Case<'a> = (Status, &'a Value, bool, &'a [i32], &'a str);
        let waiting = waiting();
        let cases: [Case<'_>; 10] = [
            (Status::Received, &waiting, false, &[], "it is received"),
            (Status::Processing, &waiting, false, &[], "it is processing"),
            (Status::Failed, &waiting, false, &[], "maple-router replay"),
            (Status::Purged, &waiting, false, &[], "purged"),
            (Status::Routed, &waiting, true, &[], "infected"),
            (Status::Routed, &waiting, false, &[1, 3], "deferred any more"),
            (Status::Routed, &mail_alone, false, &[], "deferred any more"),
            (Status::Routed, &json!({}), false, &[], "deferred any more"),
            (Status::Routed, &newer, false, &[], "version 9"),
            (Status::Routed, &damaged, false, &[], "damaged"),
        ];
        for (status, stored, infected, left, expected) in cases {
            let refused = decided(status, stored, infected, left).expect_err(expected).to_string();
            assert!(refused.contains(expected), "{status:?}: {refused}");
        }
    }
}
