//! What follows from something [`Seen`] beyond the relay for the delivery it is about: the mark, whether people are to be
//! told, and whether it resolves a doubt. Decided by whoever holds the row's lock, on what was read under it.
//!
//! A returned mail carries a token that every recipient of that mail has read. So where an action has one recipient, it speaks for
//! that one; where it has several, each could have written what it says of the others: then it is *claimed*. That a mail is
//! lost is shown and told all the same, since silence would be worse; but it is not audited as a failure, ends no doubt, never
//! says that anything was delivered, and gives way to what the log proves.
//!
//! Invariant: nothing here does I/O. A mark never goes back: what is delivered does not wait again, what came back stays lost,
//! unless another mail of the same delivery got through.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::Seen;
use super::tracker::normal;
use crate::ports::RelayStatus;
use crate::routing::destination::recipient;
use crate::routing::ledger::{Delivery, DeliveryState, Ledger, RelayMark};
use crate::routing::table::Status;
use crate::scrub::scrub;

/// What something seen changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Key of the delivery.
    pub key: String,
    /// Its mark from now on.
    pub mark: RelayMark,
    /// The mail is lost, and that was not proved before: detail of the audit row `email_failed`.
    pub lost: Option<Value>,
    /// The mail is lost or said to be, and nobody was told of it.
    pub untold: bool,
    /// The delivery was in doubt, and this proves an acceptance: `{key: {fact, audit}}`, as outcomes are recorded.
    pub found: Option<Map<String, Value>>,
}

/// What something seen is to a ledger.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// It changes a delivery's mark.
    Changes(Box<Change>),
    /// Nothing new; `untold`: the key of a mail that is lost, and that nobody was told of yet by the teller itself.
    Known {
        /// See above.
        untold: Option<String>,
    },
    /// It is about an action, a generation or a recipient that this ledger does not have.
    Foreign,
    /// The log tells it of a queue id that is not known to be ours: whoever knows a Message-ID may have made it.
    Unproved,
}

/// Whether a delivery is perhaps sent, and nobody is sending it at this moment.
#[must_use]
pub fn is_doubtful(delivery: &Delivery, status: Status, live: Option<&str>) -> bool {
    let doubted_or_failed = match delivery.state {
        DeliveryState::Open => true,
        DeliveryState::Failed => delivery.doubt,
        DeliveryState::Accepted | DeliveryState::NotImplemented => false,
    };
    let begun_by_another = delivery
        .begun
        .as_ref()
        .is_some_and(|begun| status != Status::Processing || live != Some(begun.token.as_str()));
    doubted_or_failed && (delivery.doubt || begun_by_another)
}

/// The delivery that something seen is about.
#[must_use]
pub fn key_of<'a>(ledger: &'a Ledger, seen: &Seen) -> Option<&'a str> {
    let recipient = normal(&seen.recipient);
    let sent_to = |(key, _)| -> Option<(&'a str, String)> {
        let (_, address) = str::split_once(key, '|')?;
        (!address.starts_with('!')).then(|| (key, normal(address)))
    };
    let keys: Vec<(&str, String)> =
        ledger.deliveries_of(seen.origin.action_order).filter_map(sent_to).collect();
    let exact = keys.iter().find(|(_, address)| *address == recipient);
    let found = exact.or_else(|| if seen.queue_id.is_none() { of_returned(&keys, &recipient) } else { None });
    found.map(|(key, _)| *key)
}

/// A server further on may name a recipient in another case, or as it has forwarded the mail; its token says which action it
/// was, and where that has one recipient, which one.
fn of_returned<'k, 'a>(keys: &'k [(&'a str, String)], recipient: &str) -> Option<&'k (&'a str, String)> {
    let mut alike = keys.iter().filter(|(_, address)| address.eq_ignore_ascii_case(recipient));
    match (alike.next(), alike.next(), keys) {
        (Some(one), None, _) | (None, None, [one]) => Some(one),
        _ => None,
    }
}

/// How many addresses an action is sent to: each of them reads the token.
fn recipients(ledger: &Ledger, action_order: i32) -> usize {
    let is_address = |key: &str| {
        key.split_once('|').is_some_and(|(_, address)| !address.is_empty() && !address.starts_with('!'))
    };
    ledger.deliveries_of(action_order).filter(|(key, _)| is_address(key)).count()
}

/// Decides about something seen. `by` names the teller.
#[must_use]
pub fn decide(ledger: &Ledger, status: Status, seen: &Seen, by: &str, now: Timestamp) -> Decision {
    let Some(key) = key_of(ledger, seen) else { return Decision::Foreign };
    if ledger.generation(seen.origin.action_order) != seen.origin.generation {
        return Decision::Foreign;
    }
    let Some(delivery) = ledger.deliveries.get(key) else { return Decision::Foreign };
    if seen.queue_id.is_some() && !seen.proved && !is_named(delivery, seen) {
        return Decision::Unproved;
    }
    let claimed = seen.queue_id.is_none() && recipients(ledger, seen.origin.action_order) > 1;
    if claimed && seen.status == RelayStatus::Delivered {
        return Decision::Known { untold: None };
    }
    let live = ledger.claim.as_ref().map(|claim| claim.token.as_str());
    let doubtful = !claimed && is_doubtful(delivery, status, live);
    let old = delivery.relay.as_ref().filter(|mark| mark.generation == seen.origin.generation);
    if !doubtful && old.is_some_and(|old| !supersedes(old, seen, claimed)) {
        let is_untold = |old: &RelayMark| old.status.is_lost() && old.told_at.is_none() && old.by == by;
        let untold = seen.status.is_lost() && old.is_some_and(is_untold);
        return Decision::Known { untold: untold.then(|| key.to_owned()) };
    }
    let mark = match old {
        Some(old) if !supersedes(old, seen, claimed) => old.clone(),
        Some(_) | None => RelayMark { claimed, ..mark(seen, old, by, now) },
    };
    let was_lost = old.is_some_and(|old| old.status.is_lost() && (!old.claimed || mark.claimed));
    let lost = mark.status.is_lost() && !mark.claimed && !was_lost;
    Decision::Changes(Box::new(Change {
        key: key.to_owned(),
        lost: lost.then(|| lost_detail(ledger, key, seen, &mark)),
        untold: mark.status.is_lost() && !was_lost && mark.told_at.is_none(),
        found: doubtful.then(|| fact(ledger, key, &(&mark).into())),
        mark,
    }))
}

/// Whether the queue id is one that our own 250 has named, or that was believed before.
fn is_named(delivery: &Delivery, seen: &Seen) -> bool {
    let dups = delivery.dups.iter().map(|fact| fact["queue_id"].as_str());
    let known = delivery.relay.as_ref().and_then(|mark| mark.queue_id.as_deref());
    dups.chain([delivery.queue_id.as_deref(), known]).flatten().any(|id| seen.queue_id.as_deref() == Some(id))
}

/// Whether what is seen takes the place of what is known.
fn supersedes(old: &RelayMark, seen: &Seen, claimed: bool) -> bool {
    if old.claimed && !claimed && old.status.is_lost() {
        return seen.status != RelayStatus::Deferred;
    }
    let same_mail = seen.queue_id.is_none() || old.queue_id.is_none() || seen.queue_id == old.queue_id;
    match (old.status, seen.status) {
        (RelayStatus::Deferred, RelayStatus::Deferred) => same_mail && old.dsn != seen.dsn,
        (RelayStatus::Deferred, RelayStatus::Delivered) => true,
        (RelayStatus::Deferred, RelayStatus::Bounced | RelayStatus::Expired) => same_mail,
        // It came back from further on.
        (RelayStatus::Delivered, RelayStatus::Bounced | RelayStatus::Expired) => same_mail,
        // Another mail of the same delivery got through.
        (RelayStatus::Bounced | RelayStatus::Expired, RelayStatus::Delivered) => !same_mail,
        (RelayStatus::Delivered, RelayStatus::Deferred | RelayStatus::Delivered)
        | (
            RelayStatus::Bounced | RelayStatus::Expired,
            RelayStatus::Deferred | RelayStatus::Bounced | RelayStatus::Expired,
        ) => false,
    }
}

fn mark(seen: &Seen, old: Option<&RelayMark>, by: &str, now: Timestamp) -> RelayMark {
    let since = old.and_then(|old| old.since);
    // What was claimed and told is not told once more when it is proved.
    let told_at = old.filter(|old| old.status.is_lost() && seen.status.is_lost()).and_then(|old| old.told_at);
    RelayMark {
        status: seen.status,
        at: now,
        since: if seen.status == RelayStatus::Deferred { since.or(Some(now)) } else { since },
        generation: seen.origin.generation,
        queue_id: seen.queue_id.clone().or_else(|| old.and_then(|old| old.queue_id.clone())),
        message_id: seen.message_id.clone().or_else(|| old.and_then(|old| old.message_id.clone())),
        dsn: seen.dsn.clone(),
        relay: seen.relay.clone(),
        text: seen.text.clone(),
        by: by.to_owned(),
        told_at,
        claimed: false,
    }
}

/// An acceptance that nobody has recorded, as the relay or a returned mail tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acceptance {
    /// Generation of the mail.
    pub generation: u32,
    /// The relay's queue id.
    pub queue_id: Option<String>,
    /// Message-ID of the mail.
    pub message_id: Option<String>,
}

impl From<&RelayMark> for Acceptance {
    fn from(mark: &RelayMark) -> Self {
        let (queue_id, message_id) = (mark.queue_id.clone(), mark.message_id.clone());
        Self { generation: mark.generation, queue_id, message_id }
    }
}

/// The fact that evidence proves. Its nonce is the queue id's, so that it is recorded once, whoever finds it.
#[must_use]
pub fn fact(ledger: &Ledger, key: &str, mark: &Acceptance) -> Map<String, Value> {
    let evidence = mark.queue_id.as_deref().unwrap_or("a returned mail");
    let fact = json!({
        "state": DeliveryState::Accepted.label(), "nonce": format!("relay:{evidence}"), "token": null, "smtp": null,
        "queue_id": mark.queue_id, "message_id": mark.message_id, "generation": mark.generation, "found": true,
    });
    let mut audit = detail(ledger, key, mark.generation);
    if let Value::Object(audit) = &mut audit {
        audit.extend([
            ("message_id".to_owned(), json!(mark.message_id)),
            ("queue_id".to_owned(), json!(mark.queue_id)),
            ("smtp".to_owned(), Value::Null),
            ("found".to_owned(), Value::Bool(true)),
        ]);
    }
    Map::from_iter([(key.to_owned(), json!({"fact": fact, "audit": audit}))])
}

fn lost_detail(ledger: &Ledger, key: &str, seen: &Seen, mark: &RelayMark) -> Value {
    let mut audit = detail(ledger, key, seen.origin.generation);
    if let Value::Object(audit) = &mut audit {
        let error = json!({
            "class": mark.status.label(), "stage": "delivery", "enhanced": mark.dsn, "reply": scrub(&mark.text),
        });
        audit.extend([
            ("message_id".to_owned(), json!(mark.message_id)),
            ("queue_id".to_owned(), json!(mark.queue_id)),
            ("smtp".to_owned(), Value::Null),
            ("error".to_owned(), error),
        ]);
    }
    audit
}

fn detail(ledger: &Ledger, key: &str, generation: u32) -> Value {
    let order = crate::routing::ledger::order_of(key).unwrap_or_default();
    let action = ledger.plan.iter().find(|action| action.action_order == order);
    let destination = action.map_or("", |action| action.destination.as_str());
    json!({
        "v": 1, "attempt": ledger.attempts, "generation": generation, "action_order": order,
        "recipient": recipient(key, destination),
    })
}

#[cfg(test)]
mod tests;
