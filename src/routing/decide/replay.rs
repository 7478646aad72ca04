//! Replay: deliveries that an operator reopens, and refusals (protocol, "Crash, doubt, stop, replay").
//!
//! Invariant: no I/O here, and no fact is forgotten: an acceptance stays in the delivery's entry, or in its `history`
//! where another mail is asked for. Decisions are taken while the caller has the row locked.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::kernel::{Transition, Who};
use crate::routing::submission::expand;
use crate::routing::submission::ledger::{DeliveryState, ErrorClass, Ledger, LedgerFault, VERSION};
use crate::routing::submission::plan::PlannedAction;
use crate::routing::table::{Command, Status, Submission};

/// The operator's options of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplayOptions {
    /// Reopen the accepted deliveries of this action, as another mail.
    pub force_action: Option<i32>,
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
    /// Largest number of recipients of an action.
    pub max_recipients: usize,
}

/// Changes written by a replay.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// Transition back to `received`.
    pub transition: Transition<Submission>,
    /// Keys of the ledger to be set.
    pub keys: Value,
    /// Keys of the deliveries to send now.
    pub open: Vec<String>,
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
        "it is routed: say what shall be sent again with --force-action N, or take the form's current actions with \
         --replan"
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
    /// The form has no actions to plan.
    #[error("its form has no actions: add some and reload the YAML first")]
    NoActions,
    /// The form needs a newer version.
    #[error("its form has an action of a type this version does not know: upgrade maple-router on this host")]
    UnknownActionType,
}

/// Keys that a fact leaves in an entry, and those of a send without an outcome.
const OF_A_FACT: [&str; 13] = [
    "state",
    "at",
    "nonce",
    "token",
    "smtp",
    "queue_id",
    "message_id",
    "generation",
    "late",
    "doubted",
    "relay",
    "begun",
    "doubt",
];

/// Decides about one row. `now` is the database's time.
///
/// # Errors
/// The reason why the row stays as it is.
pub fn replay(
    view: &ReplayView<'_>,
    options: ReplayOptions,
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
        entries = planned_anew(entries, plan, view.max_recipients);
        keys["plan"] = json!(plan);
        note["replan"] = json!(true);
    }
    for entry in entries.values_mut() {
        reopen(entry, now);
    }
    if let Some(order) = options.force_action {
        let generation = force(&mut entries, plan, order, ledger, now)?;
        let mut generations = match view.stored.get("generations") {
            Some(Value::Object(generations)) => generations.clone(),
            Some(_) | None => Map::new(),
        };
        generations.insert(order.to_string(), json!(generation));
        keys["generations"] = Value::Object(generations);
        note["force_action"] = json!(order);
        note["generation"] = json!(generation);
    }
    let is_open = |entry: &Value| entry["state"] == DeliveryState::Open.label();
    let open: Vec<String> =
        entries.iter().filter(|(_, entry)| is_open(entry)).map(|(key, _)| key.clone()).collect();
    if view.status == Status::Routed && open.is_empty() {
        return Err(ReplayRefusal::NothingToSend);
    }
    note["deliveries"] = json!(open.len());
    keys["deliveries"] = Value::Object(entries);
    Ok(Replay { transition, keys, open, note })
}

/// Returns the deliveries of a new plan. Facts stay under their keys, also where the new plan has no such recipient:
/// history is kept. Every other delivery starts afresh, or is dropped.
fn planned_anew(
    stored: Map<String, Value>,
    plan: &[PlannedAction],
    max_recipients: usize,
) -> Map<String, Value> {
    let wanted: Vec<String> = plan.iter().flat_map(|action| expand::keys(action, max_recipients)).collect();
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

/// Reopens the accepted deliveries of an action, as another mail; returns the action's new generation.
fn force(
    entries: &mut Map<String, Value>,
    plan: &[PlannedAction],
    order: i32,
    ledger: &Ledger,
    now: Timestamp,
) -> Result<u32, ReplayRefusal> {
    let action =
        plan.iter().find(|action| action.action_order == order).ok_or(ReplayRefusal::NoSuchAction(order))?;
    let mut forced = 0;
    // Only recipients of the plan are forced; a fact of any other stays as it is.
    for key in expand::keys(action, usize::MAX) {
        let Some(Value::Object(entry)) = entries.get_mut(&key) else { continue };
        if entry.get("state") != Some(&json!(DeliveryState::Accepted.label())) {
            continue;
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
        forced += 1;
    }
    if forced == 0 {
        return Err(ReplayRefusal::NothingAccepted(order));
    }
    Ok(ledger.generation(order).saturating_add(1))
}

fn pair((name, value): (&String, &Value)) -> (String, Value) {
    (name.clone(), value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(destinations: &[&str]) -> Vec<PlannedAction> {
        let action = |(index, to): (usize, &&str)| json!({"action_order": index + 1, "action_type": "email_raw", "destination": to});
        let actions: Vec<Value> = destinations.iter().enumerate().map(action).collect();
        serde_json::from_value(json!(actions)).expect("a plan")
    }

    fn ask(
        status: Status,
        stored: &Value,
        current: &[PlannedAction],
        options: ReplayOptions,
    ) -> Result<Replay, ReplayRefusal> {
        let ledger = Ledger::read(stored);
        let view = ReplayView {
            status,
            stored,
            ledger: ledger.as_ref(),
            infected: false,
            current: Some(current),
            max_recipients: 50,
        };
        replay(&view, options, Timestamp::UNIX_EPOCH)
    }

    const PLAIN: ReplayOptions = ReplayOptions { force_action: None, replan: false };
    const REPLAN: ReplayOptions = ReplayOptions { force_action: None, replan: true };

    fn force_one(order: i32) -> ReplayOptions {
        ReplayOptions { force_action: Some(order), replan: false }
    }

    fn states(replay: &Replay) -> Vec<(String, String)> {
        let entries = replay.keys["deliveries"].as_object().expect("entries");
        let state = |(key, entry): (&String, &Value)| {
            (key.clone(), entry["state"].as_str().unwrap_or_default().to_owned())
        };
        entries.iter().map(state).collect()
    }

    fn partly() -> Value {
        json!({
            "v": 1, "attempts": 5, "resets": 3, "plan": plan(&["a@x.test, b@x.test", "c@x.test"]),
            "finished": {"token": "t", "at": "2026-11-01T10:00:00Z", "status": "failed", "reason": "refused"},
            "deliveries": {
                "1|a@x.test": {"state": "accepted", "nonce": "n", "queue_id": "4X", "theirs": 1},
                "1|b@x.test": {"state": "failed", "error": {"class": "refused", "stage": "RCPT", "reply": "no"}},
                "2|c@x.test": {"state": "not_implemented"},
            },
        })
    }

    #[test]
    fn what_has_not_ended_or_cannot_be_believed_stays_as_it_is() {
        use ReplayRefusal as R;
        let none = plan(&[]);
        let cases = [
            (Status::Received, json!({}), PLAIN, R::NotEnded(Status::Received)),
            (Status::Processing, json!({}), force_one(1), R::NotEnded(Status::Processing)),
            (Status::Purged, json!({}), REPLAN, R::Purged),
            (Status::Failed, json!({"v": 9}), PLAIN, R::Ledger(LedgerFault::Newer(9))),
            (Status::Routed, partly(), PLAIN, R::Routed),
            (Status::Failed, partly(), force_one(3), R::NoSuchAction(3)),
            (Status::Failed, partly(), force_one(2), R::NothingAccepted(2)),
            (Status::Failed, partly(), REPLAN, R::NoActions),
        ];
        for (status, stored, options, expected) in cases {
            assert_eq!(ask(status, &stored, &none, options), Err(expected), "{status} {options:?}");
        }
        let done = json!({"plan": plan(&["a@x.test"]), "deliveries": {"1|a@x.test": {"state": "accepted"}}});
        assert_eq!(ask(Status::Routed, &done, &plan(&["a@x.test"]), REPLAN), Err(R::NothingToSend));
        assert!(matches!(
            ask(Status::Failed, &json!([]), &none, PLAIN),
            Err(R::Ledger(LedgerFault::Damaged(_)))
        ));
    }

    #[test]
    fn a_plain_replay_opens_what_failed_and_keeps_what_was_accepted() {
        let stored = partly();
        let done = ask(Status::Failed, &stored, &[], PLAIN).expect("replayed");
        assert_eq!(done.open, ["1|b@x.test"]);
        assert_eq!(done.keys["deliveries"]["1|a@x.test"], stored["deliveries"]["1|a@x.test"]);
        assert_eq!(done.keys["deliveries"]["2|c@x.test"], stored["deliveries"]["2|c@x.test"]);
        assert_eq!(done.keys["deliveries"]["1|b@x.test"]["error"]["class"], "refused", "its history");
        assert_eq!((&done.keys["attempts"], &done.keys["resets"]), (&json!(0), &json!(0)));
        assert!(done.keys.get("plan").is_none() && done.keys.get("generations").is_none(), "{}", done.keys);
        assert_eq!(done.note["finished"]["token"], "t");
    }

    #[test]
    fn what_was_held_is_sent_and_other_doubt_is_left_to_the_policy() {
        let entry = |class: &str| json!({"state": "failed", "doubt": true, "error": {"class": class, "stage": "dot", "reply": "lost"}});
        let stored = json!({"plan": plan(&["a@x.test, b@x.test"]),
            "deliveries": {"1|a@x.test": entry("in_doubt"), "1|b@x.test": entry("unknown")}});
        let done = ask(Status::Failed, &stored, &[], PLAIN).expect("replayed");
        let entries = &done.keys["deliveries"];
        assert_eq!(
            (&entries["1|a@x.test"]["doubt"], &entries["1|a@x.test"]["doubted"]),
            (&Value::Null, &json!(true))
        );
        assert_eq!(entries["1|b@x.test"]["doubt"], true);
    }

    #[test]
    fn a_forced_action_is_another_mail_and_its_former_fact_is_history() {
        let stored = partly();
        let done = ask(Status::Failed, &stored, &[], force_one(1)).expect("replayed");
        assert_eq!(done.open, ["1|a@x.test", "1|b@x.test"]);
        let entry = &done.keys["deliveries"]["1|a@x.test"];
        assert_eq!(
            (&entry["nonce"], &entry["queue_id"], &entry["theirs"]),
            (&Value::Null, &Value::Null, &json!(1))
        );
        assert_eq!(
            entry["history"],
            json!([{"state": "accepted", "nonce": "n", "queue_id": "4X", "generation": 0}])
        );
        assert_eq!(done.keys["generations"], json!({"1": 1}));
        let mut lost = stored.clone();
        lost["deliveries"]["1|a@x.test"]["relay"] =
            json!({"status": "bounced", "at": "2026-11-01T10:00:00Z"});
        let gone = ask(Status::Failed, &lost, &[], force_one(1)).expect("replayed");
        let entry = &gone.keys["deliveries"]["1|a@x.test"];
        assert_eq!(
            (entry.get("relay"), &entry["history"][0]["relay"]["status"]),
            (None, &json!("bounced")),
            "what became of a mail goes with it"
        );
        let mut again = stored;
        again["deliveries"] = done.keys["deliveries"].clone();
        again["deliveries"]["1|a@x.test"]["state"] = json!("accepted");
        again["deliveries"]["1|a@x.test"]["generation"] = json!(1);
        again["generations"] = json!({"1": 1, "7": 3});
        let done = ask(Status::Failed, &again, &[], force_one(1)).expect("replayed");
        assert_eq!(done.keys["generations"], json!({"1": 2, "7": 3}));
        let history = done.keys["deliveries"]["1|a@x.test"]["history"].as_array().expect("history");
        assert_eq!(
            history.iter().map(|fact| &fact["generation"]).collect::<Vec<_>>(),
            [&json!(0), &json!(1)]
        );
    }

    #[test]
    fn a_new_plan_keeps_every_fact_and_asks_for_what_is_new() {
        let current = plan(&["b@x.test, z@x.test", "d@x.test"]);
        let done = ask(Status::Failed, &partly(), &current, REPLAN).expect("replayed");
        let kept = |key: &str, state: &str| (key.to_owned(), state.to_owned());
        assert_eq!(
            states(&done),
            [
                kept("1|a@x.test", "accepted"),
                kept("1|b@x.test", "open"),
                kept("1|z@x.test", "open"),
                kept("2|d@x.test", "open"),
            ],
            "a's fact is what happened; c was never sent to and is not wanted any more"
        );
        assert_eq!(done.keys["plan"], json!(current));
        // Forced before, then not wanted any more: the former fact is the entry's state again, and blocks nothing.
        let forced = ask(Status::Failed, &partly(), &[], force_one(1)).expect("replayed");
        let mut stored = partly();
        stored["deliveries"] = forced.keys["deliveries"].clone();
        stored["generations"] = json!({"1": 1});
        let done = ask(Status::Failed, &stored, &current, REPLAN).expect("replayed");
        let entry = &done.keys["deliveries"]["1|a@x.test"];
        assert_eq!(
            (&entry["state"], &entry["nonce"], &entry["history"]),
            (&json!("accepted"), &json!("n"), &json!([]))
        );
        // Both options at once: recipients that the new plan still names are forced.
        let both = ReplayOptions { force_action: Some(1), replan: true };
        let done = ask(Status::Failed, &partly(), &plan(&["a@x.test"]), both).expect("replayed");
        assert_eq!(states(&done), [kept("1|a@x.test", "open")]);
        assert_eq!(ask(Status::Failed, &partly(), &current, both), Err(ReplayRefusal::NothingAccepted(1)));
    }
}
