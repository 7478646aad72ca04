//! Replay: deliveries that an operator reopens, and refusals (protocol, "Crash, doubt, stop, replay").
//!
//! Invariant: no I/O here, and no fact is forgotten: an acceptance stays in the delivery's entry, or in its `history`
//! where another mail is asked for. Decisions are taken while the caller has the row locked.

mod force;

use force::OF_A_FACT;
pub use force::{Force, Forced};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::kernel::{Transition, Who};
use crate::routing::submission::expand::{self, Expansion};
use crate::routing::submission::ledger::{DeliveryState, ErrorClass, Ledger, LedgerFault, VERSION};
use crate::routing::submission::plan::PlannedAction;
use crate::routing::submission::version::FormVersion;
use crate::routing::table::{Command, Status, Submission};

/// The operator's options of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplayOptions<'a> {
    /// Accepted deliveries to be sent again, as another mail.
    pub force: Option<Force<'a>>,
    /// Take the plan anew from the form's current actions.
    pub replan: bool,
}

/// Values read of a row, under its lock.
#[derive(Debug, Clone, Copy)]
pub struct ReplayView<'a> {
    /// `submissions.status`.
    pub status: Status,
    /// The ledger as it is stored.
    pub stored: &'a Value,
    /// The ledger, or the reason why it is not believed.
    pub ledger: Result<&'a Ledger, &'a LedgerFault>,
    /// Whether an attachment is infected.
    pub infected: bool,
    /// The actions the form has now; absent where this version does not know their type.
    pub current: Option<&'a [PlannedAction]>,
    /// The version of the form that these are of; absent where the form is not managed.
    pub version: Option<&'a FormVersion>,
    /// Largest number of recipients of an action.
    pub expansion: Expansion,
}

/// Changes written by a replay.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// Transition back to `received`.
    pub transition: Transition<Submission>,
    /// Keys of the ledger to be set; a former plan's version goes with it.
    pub keys: Value,
    /// Keys of the deliveries to send now.
    pub open: Vec<String>,
    /// Accepted deliveries that are sent again.
    pub forced: Option<Forced>,
    /// Whether the plan is taken anew.
    pub replan: bool,
    /// Content of the override, besides its author and reason.
    pub note: Value,
}

/// Reason why a replay is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayRefusal {
    /// The submission has not ended.
    #[error("it is {0}: it has not ended, and goes on by itself")]
    NotEnded(Status),
    /// Retention has emptied the submission.
    #[error("it is purged: its contents were removed")]
    Purged,
    /// The ledger is not believed.
    #[error("{0}: what was sent is not known, so nothing is sent again")]
    Ledger(LedgerFault),
    /// The submission would fail again.
    #[error(
        "an attachment is infected (rb-008), so that it would fail again: only a false positive, proven as such, is \
         taken back with `maple-router mark-attachment ATTACHMENT_ID --clean --reason TEXT`"
    )]
    Infected,
    /// The operator named nothing to send again.
    #[error(
        "it is routed: say what shall be sent again with --force-delivery KEY or --force-action N, or take the form's \
         current actions with --replan"
    )]
    Routed,
    /// Nothing is open after the replay.
    #[error("every recipient of the form's current actions has its mail already")]
    NothingToSend,
    /// The plan has no such action.
    #[error("its plan has no action {0}")]
    NoSuchAction(i32),
    /// Nothing of this action was accepted.
    #[error(
        "nothing of action {0} was accepted, so there is nothing to force: a replay without it sends what failed"
    )]
    NothingAccepted(i32),
    /// The plan has no such delivery. Its key is an address, and not repeated.
    #[error("its plan has no such delivery: `maple-router explain ID --json` names the key of each")]
    NoSuchDelivery,
    /// The delivery is open or failed.
    #[error(
        "that delivery was not accepted, so there is nothing to force: a replay without it sends what failed"
    )]
    NotAccepted,
    /// Another delivery of the action may have been sent under the present Message-ID.
    #[error(
        "another delivery of action {0} is in doubt, and would go out twice under the new Message-ID: have that settled \
         first by a replay without --force-delivery, and force this one when it has ended"
    )]
    NeighbourInDoubt(i32),
    /// The form has no actions to plan.
    #[error("its form has no actions: add some and reload the YAML first")]
    NoActions,
    /// The form needs a newer version.
    #[error("its form has an action of a type this version does not know: upgrade maple-router on this host")]
    UnknownActionType,
}

/// Decides about one row. `now` is the database's time.
///
/// # Errors
/// The reason why the row stays as it is.
pub fn replay(
    view: &ReplayView<'_>,
    options: ReplayOptions<'_>,
    now: Timestamp,
) -> Result<Replay, ReplayRefusal> {
    match view.status {
        Status::Received | Status::Processing => return Err(ReplayRefusal::NotEnded(view.status)),
        Status::Purged => return Err(ReplayRefusal::Purged),
        Status::Routed if options == ReplayOptions::default() => return Err(ReplayRefusal::Routed),
        Status::Routed | Status::Failed => {}
    }
    let transition = Transition::of(view.status, Command::Replay, Who::OPERATOR)
        .map_err(|_| ReplayRefusal::NotEnded(view.status))?;
    let ledger = view.ledger.map_err(|fault| ReplayRefusal::Ledger(fault.clone()))?;
    if view.infected {
        return Err(ReplayRefusal::Infected);
    }
    let mut keys = json!({"v": VERSION, "attempts": 0, "resets": 0});
    let mut note = json!({"from": view.status});
    if let Some(finished) = view.stored.get("finished") {
        note["finished"] = finished.clone();
    }
    if let Some(Force::Delivery(key)) = options.force {
        force::is_possible(ledger, key)?;
    }
    let mut entries = match view.stored.get("deliveries") {
        Some(Value::Object(entries)) => entries.clone(),
        Some(_) | None => Map::new(),
    };
    let mut plan = ledger.plan.as_slice();
    if options.replan {
        plan = view.current.ok_or(ReplayRefusal::UnknownActionType)?;
        if plan.is_empty() {
            return Err(ReplayRefusal::NoActions);
        }
        entries = planned_anew(entries, plan, view.expansion);
        keys["plan"] = json!(plan);
        if let Some(version) = view.version {
            keys["version"] = json!(version);
        }
        note["replan"] = json!(true);
    }
    for entry in entries.values_mut() {
        reopen(entry, now);
    }
    let forced =
        options.force.map(|wanted| force::force(wanted, &mut entries, plan, ledger, now)).transpose()?;
    if let Some(forced) = &forced {
        let mut generations = match view.stored.get("generations") {
            Some(Value::Object(generations)) => generations.clone(),
            Some(_) | None => Map::new(),
        };
        generations.insert(forced.action_order.to_string(), json!(forced.generation));
        keys["generations"] = Value::Object(generations);
        note["force_action"] = json!(forced.action_order);
        if let Some(delivery) = &forced.delivery {
            note["force_delivery"] = json!(delivery);
        }
        note["generation"] = json!(forced.generation);
    }
    let is_open = |entry: &Value| entry["state"] == DeliveryState::Open.label();
    let open: Vec<String> =
        entries.iter().filter(|(_, entry)| is_open(entry)).map(|(key, _)| key.clone()).collect();
    if view.status == Status::Routed && open.is_empty() {
        return Err(ReplayRefusal::NothingToSend);
    }
    note["deliveries"] = json!(open.len());
    keys["deliveries"] = Value::Object(entries);
    Ok(Replay { transition, keys, open, forced, replan: options.replan, note })
}

/// Returns the deliveries of a new plan. Facts stay under their keys, also where the new plan has no such recipient:
/// history is kept. Every other delivery starts afresh, or is dropped.
fn planned_anew(stored: Map<String, Value>, plan: &[PlannedAction], by: Expansion) -> Map<String, Value> {
    let wanted: Vec<String> = plan.iter().flat_map(|action| expand::keys(action, by)).collect();
    let mut entries = Map::new();
    for (key, mut entry) in stored {
        if entry["state"] == DeliveryState::Accepted.label() {
            entries.insert(key, entry);
        } else if wanted.contains(&key) {
            entry["state"] = json!(DeliveryState::Open.label());
            release_hold(&mut entry);
            entries.insert(key, entry);
        } else if restore_fact(&mut entry) {
            entries.insert(key, entry);
        }
    }
    for key in wanted {
        entries.entry(key).or_insert_with(|| json!({"state": DeliveryState::Open.label()}));
    }
    entries
}

/// Gives a recipient that is no longer wanted, but was sent to under a former generation, its last fact as its state.
fn restore_fact(entry: &mut Value) -> bool {
    for list in ["history", "dups"] {
        let last = entry.get_mut(list).and_then(Value::as_array_mut).and_then(Vec::pop);
        if let (Some(Value::Object(fact)), Value::Object(entry)) = (last, &mut *entry) {
            entry.retain(|name, _| !OF_A_FACT.contains(&name.as_str()) && name != "error");
            entry.extend(fact);
            entry.insert("state".to_owned(), json!(DeliveryState::Accepted.label()));
            return true;
        }
    }
    false
}

/// Opens a failed delivery again; its last error stays as its history until there is news.
fn reopen(entry: &mut Value, now: Timestamp) {
    if entry["state"] == DeliveryState::Failed.label() {
        entry["state"] = json!(DeliveryState::Open.label());
        entry["at"] = json!(now);
        release_hold(entry);
    }
}

/// Ends a hold in doubt: the operator has decided to send. The former doubt stays visible.
fn release_hold(entry: &mut Value) {
    if entry["error"]["class"] != json!(ErrorClass::InDoubt) {
        return;
    }
    if let Value::Object(entry) = entry {
        entry.remove("doubt");
        entry.remove("begun");
        entry.insert("doubted".to_owned(), json!(true));
    }
}

#[cfg(test)]
mod tests;
