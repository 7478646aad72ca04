//! Forcing: what the relay has accepted is sent again because an operator says so, always as another mail.
//!
//! Invariant: no I/O here. A former mail's fact goes into its delivery's `history`; a neighbour that is not forced keeps its
//! mail, and the generation of that mail.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::ReplayRefusal;
use crate::routing::submission::expand::{self, Expansion};
use crate::routing::submission::ledger::{Delivery, DeliveryState, ErrorClass, Ledger, order_of, place};
use crate::routing::submission::plan::PlannedAction;

/// Accepted deliveries to be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force<'a> {
    /// All of the action of this order.
    Action(i32),
    /// The one of this key.
    Delivery(&'a str),
}

/// Deliveries that a replay sends again, without an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forced {
    /// The action's order.
    pub action_order: i32,
    /// Place of the only delivery among those of its action, as `2/3`; absent where all were forced.
    pub delivery: Option<String>,
    /// Generation of the mail to be sent.
    pub generation: u32,
}

/// Keys that a fact leaves in an entry, and those of a send without an outcome.
pub(super) const OF_A_FACT: [&str; 15] = [
    "state",
    "at",
    "nonce",
    "token",
    "smtp",
    "queue_id",
    "message_id",
    "ticket",
    "also",
    "generation",
    "late",
    "doubted",
    "relay",
    "begun",
    "doubt",
];

/// Whether the delivery of `key` can be forced by itself. What is open beside it goes out under the new Message-ID as well, so
/// that nothing beside it may have been sent under the present one. To be asked before anything is reopened.
///
/// # Errors
/// The reason why not.
pub(super) fn is_possible(ledger: &Ledger, key: &str) -> Result<(), ReplayRefusal> {
    let (Some(delivery), Some(order)) = (ledger.deliveries.get(key), order_of(key)) else {
        return Err(ReplayRefusal::NoSuchDelivery);
    };
    if delivery.state != DeliveryState::Accepted {
        return Err(ReplayRefusal::NotAccepted);
    }
    if ledger.deliveries_of(order).any(|(_, neighbour)| is_perhaps_sent(neighbour)) {
        return Err(ReplayRefusal::NeighbourInDoubt(order));
    }
    Ok(())
}

fn is_perhaps_sent(delivery: &Delivery) -> bool {
    let is_on_hold = delivery.error.as_ref().is_some_and(|error| error.class == ErrorClass::InDoubt);
    match delivery.state {
        DeliveryState::Open | DeliveryState::Failed => {
            delivery.doubt || delivery.intent.is_some() || is_on_hold
        }
        DeliveryState::Accepted | DeliveryState::NotImplemented => false,
    }
}

/// Reopens what is wanted of `entries`, as another mail. Only recipients of the plan are forced; a fact of any other stays as
/// it is.
///
/// # Errors
/// The reason why there is nothing to force.
pub(super) fn force(
    wanted: Force<'_>,
    entries: &mut Map<String, Value>,
    plan: &[PlannedAction],
    ledger: &Ledger,
    now: Timestamp,
) -> Result<Forced, ReplayRefusal> {
    let keys_of = |order: i32| {
        let action = plan.iter().find(|action| action.action_order == order)?;
        // The ledger has the keys; a limit of today is none of theirs.
        let no_limit = Expansion { max_recipients: usize::MAX, tickets: false };
        Some(if action.action_type.is_email() {
            expand::keys(action, no_limit)
        } else {
            ledger.deliveries_of(order).map(|(key, _)| key.to_owned()).collect()
        })
    };
    let (order, delivery) = match wanted {
        Force::Action(order) => {
            let keys = keys_of(order).ok_or(ReplayRefusal::NoSuchAction(order))?;
            if keys.iter().filter(|key| reopen_accepted(entries, key, now)).count() == 0 {
                return Err(ReplayRefusal::NothingAccepted(order));
            }
            (order, None)
        }
        Force::Delivery(key) => {
            let order = order_of(key).ok_or(ReplayRefusal::NoSuchDelivery)?;
            let is_planned = keys_of(order).is_some_and(|keys| keys.iter().any(|planned| planned == key));
            if !is_planned {
                return Err(ReplayRefusal::NoSuchDelivery);
            }
            if !reopen_accepted(entries, key, now) {
                return Err(ReplayRefusal::NotAccepted);
            }
            let of_action = entries.keys().map(String::as_str).filter(|key| order_of(key) == Some(order));
            (order, place(of_action, key))
        }
    };
    let generation = ledger.generation(order).saturating_add(1);
    Ok(Forced { action_order: order, delivery, generation })
}

/// Opens an accepted delivery again, its fact as its history; whether there was one.
fn reopen_accepted(entries: &mut Map<String, Value>, key: &str, now: Timestamp) -> bool {
    let Some(Value::Object(entry)) = entries.get_mut(key) else { return false };
    if entry.get("state") != Some(&json!(DeliveryState::Accepted.label())) {
        return false;
    }
    let mut fact: Map<String, Value> =
        entry.iter().filter(|(name, _)| OF_A_FACT.contains(&name.as_str())).map(pair).collect();
    fact.entry("generation").or_insert(json!(0));
    entry.retain(|name, _| !OF_A_FACT.contains(&name.as_str()) && name != "error");
    entry.insert("state".to_owned(), json!(DeliveryState::Open.label()));
    entry.insert("at".to_owned(), json!(now));
    let history = entry.entry("history").or_insert_with(|| json!([]));
    if let Value::Array(history) = history {
        history.push(Value::Object(fact));
    } else {
        *history = json!([fact]);
    }
    true
}

fn pair((name, value): (&String, &Value)) -> (String, Value) {
    (name.clone(), value.clone())
}
