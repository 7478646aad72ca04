//! From a plan to its deliveries: one entry per (action, recipient), made once, when the plan is pinned.
//!
//! Invariant: nothing here does I/O. The keys live on in the ledger, so that a changed limit or domain list never
//! changes which deliveries a submission has.

use serde_json::{Map, Value, json};

use super::destination;
use super::ledger::Ledger;
use super::plan::PlannedAction;

/// The entries that the ledger lacks: those of every action of the plan that has none yet.
#[must_use]
pub fn missing_deliveries(
    ledger: &Ledger,
    plan: &[PlannedAction],
    max_recipients: usize,
) -> Map<String, Value> {
    let mut entries = Map::new();
    for action in plan {
        if ledger.deliveries_of(action.action_order).next().is_some() {
            continue;
        }
        for key in keys(action, max_recipients) {
            entries.insert(key, json!({"state": "open"}));
        }
    }
    entries
}

/// The delivery keys of one action (protocol, "delivery").
#[must_use]
pub fn keys(action: &PlannedAction, max_recipients: usize) -> Vec<String> {
    if !action.action_type.is_email() {
        return vec![format!("{}|", action.action_order)];
    }
    destination::parse(&action.destination, action.action_order, max_recipients)
        .into_iter()
        .map(|target| target.key)
        .collect()
}
