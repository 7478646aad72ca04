//! From a plan to its deliveries: one entry per (action, recipient), made once, when the plan is pinned.
//!
//! Invariant: no I/O here. The keys live on in the ledger, so that a changed limit or domain list never changes the
//! deliveries of a submission.

use serde_json::{Map, Value, json};

use crate::config::Config;

use super::destination;
use super::ledger::Ledger;
use super::plan::PlannedAction;

/// The recipient of a ticket, in a delivery's key.
pub(super) const HELP_DESK: &str = "happyfox";

/// What a plan is expanded by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expansion {
    /// `mail.max_recipients`
    pub max_recipients: usize,
    /// Whether there is a help desk: an action that wants a ticket is a delivery to it then.
    pub tickets: bool,
}

impl From<&Config> for Expansion {
    fn from(config: &Config) -> Self {
        Self { max_recipients: config.mail.max_recipients, tickets: config.happyfox.is_on() }
    }
}

/// The entries that the ledger lacks: those of every action of the plan without any yet. Where the ledger has no plan,
/// every entry of `plan` that is missing: a fact may have come before the plan was pinned (again), and the other
/// recipients of its action must not go without.
#[must_use]
pub fn missing_deliveries(ledger: &Ledger, plan: &[PlannedAction], by: Expansion) -> Map<String, Value> {
    let mut entries = Map::new();
    for action in plan {
        if !ledger.plan.is_empty() && ledger.deliveries_of(action.action_order).next().is_some() {
            continue;
        }
        for key in keys(action, by) {
            if !ledger.deliveries.contains_key(&key) {
                entries.insert(key, json!({"state": "open"}));
            }
        }
    }
    entries
}

/// The delivery keys of one action (protocol, "delivery"; help-desk contract, "What is sent").
#[must_use]
pub fn keys(action: &PlannedAction, by: Expansion) -> Vec<String> {
    if !action.action_type.is_email() {
        let to = if by.tickets { HELP_DESK } else { "" };
        return vec![format!("{}|{to}", action.action_order)];
    }
    destination::parse(&action.destination, action.action_order, by.max_recipients)
        .into_iter()
        .map(|target| target.key)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_that_came_before_the_plan_hides_no_recipient() {
        let action =
            json!({"action_order": 1, "action_type": "email_raw", "destination": "a@x.test, b@x.test"});
        let plan: Vec<PlannedAction> = serde_json::from_value(json!([action])).expect("a plan");
        let deliveries = json!({"1|a@x.test": {"state": "accepted"}});
        let missing = |ledger: Value| {
            let ledger = Ledger::read(&ledger).expect("well-shaped");
            missing_deliveries(&ledger, &plan, Expansion { max_recipients: 50, tickets: false })
                .into_iter()
                .map(|(key, _)| key)
                .collect::<Vec<_>>()
        };
        assert_eq!(missing(json!({})), ["1|a@x.test", "1|b@x.test"]);
        assert_eq!(missing(json!({"deliveries": deliveries})), ["1|b@x.test"]);
        assert!(
            missing(json!({"plan": [action], "deliveries": deliveries})).is_empty(),
            "pinned with its keys"
        );
    }
}
