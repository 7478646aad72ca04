//! Consequences of a report ([`Seen`]) for its delivery: the relay entry, the need to notify people, and the end of a
//! doubt. Decided by the owner of the row's lock, on values read under it.
//!
//! A returned mail has a token that every recipient of that mail has read. Where an action has one recipient, the report
//! counts for that one; where it has several, each could have written it about the others: then it is *claimed*. A
//! claimed loss is shown and notified all the same, since silence would be worse; but it is not audited as a failure,
//! ends no doubt, never proves a delivery, and gives way to the log's proof.
//!
//! Invariant: no I/O here. An entry never goes back: a delivered mail does not wait again, a returned one stays lost,
//! unless another mail of the same delivery got through.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::Seen;
use super::tracker::normal;
use crate::ports::RelayStatus;
use crate::routing::submission::destination::recipient;
use crate::routing::submission::ledger::{Delivery, DeliveryState, Ledger, RelayEntry};
use crate::routing::table::Status;
use crate::scrub::scrub;

/// Changes that a report makes.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Key of the delivery.
    pub key: String,
    /// The delivery's relay entry from now on.
    pub entry: RelayEntry,
    /// Detail of the audit row `email_failed`, where the mail is lost and that was not proved before.
    pub lost: Option<Value>,
    /// Whether the mail is lost, or claimed to be, without a notification.
    pub unnotified: bool,
    /// Acceptance that the report proves of a delivery in doubt: `{key: {fact, audit}}`, as outcomes are recorded.
    pub found: Option<Map<String, Value>>,
}

/// Judgement of a report against a ledger.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// The report changes a delivery's relay entry.
    Changes(Box<Change>),
    /// Nothing new.
    Known {
        /// Key of a lost mail that its own reporter has not yet notified people of.
        unnotified: Option<String>,
    },
    /// The report concerns an action, a generation or a recipient that this ledger does not have.
    Foreign,
    /// The queue id in the log is not known to be ours: anyone who knows a Message-ID may have made it.
    Unproved,
}

/// Whether a delivery is perhaps sent, and no claim is sending it at this moment.
#[must_use]
pub fn is_doubtful(delivery: &Delivery, status: Status, live: Option<&str>) -> bool {
    let doubted_or_failed = match delivery.state {
        DeliveryState::Open => true,
        DeliveryState::Failed => delivery.doubt,
        DeliveryState::Accepted | DeliveryState::NotImplemented => false,
    };
    let intended_by_another = delivery
        .intent
        .as_ref()
        .is_some_and(|intent| status != Status::Processing || live != Some(intent.token.as_str()));
    doubted_or_failed && (delivery.doubt || intended_by_another)
}

/// Key of the delivery that a report concerns.
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

/// A later server may name a recipient in another case, or as it has forwarded the mail; the token names the action, and
/// where that has one recipient, the recipient.
fn of_returned<'k, 'a>(keys: &'k [(&'a str, String)], recipient: &str) -> Option<&'k (&'a str, String)> {
    let mut alike = keys.iter().filter(|(_, address)| address.eq_ignore_ascii_case(recipient));
    match (alike.next(), alike.next(), keys) {
        (Some(one), None, _) | (None, None, [one]) => Some(one),
        _ => None,
    }
}

/// Number of addresses an action is sent to: each of them reads the token.
fn recipients(ledger: &Ledger, action_order: i32) -> usize {
    let is_address = |key: &str| {
        key.split_once('|').is_some_and(|(_, address)| !address.is_empty() && !address.starts_with('!'))
    };
    ledger.deliveries_of(action_order).filter(|(key, _)| is_address(key)).count()
}

/// Decides about a report. `by` names the reporter.
#[must_use]
pub fn decide(ledger: &Ledger, status: Status, seen: &Seen, by: &str, now: Timestamp) -> Decision {
    let Some(key) = key_of(ledger, seen) else { return Decision::Foreign };
    if ledger.generation_of(key) != seen.origin.generation {
        return Decision::Foreign;
    }
    let Some(delivery) = ledger.deliveries.get(key) else { return Decision::Foreign };
    if seen.queue_id.is_some() && !seen.proved && !is_named(delivery, seen) {
        return Decision::Unproved;
    }
    let claimed = seen.queue_id.is_none() && recipients(ledger, seen.origin.action_order) > 1;
    if claimed && seen.status == RelayStatus::Delivered {
        return Decision::Known { unnotified: None };
    }
    let live = ledger.claim.as_ref().map(|claim| claim.token.as_str());
    let doubtful = !claimed && is_doubtful(delivery, status, live);
    let old = delivery.relay.as_ref().filter(|entry| entry.generation == seen.origin.generation);
    if !doubtful && old.is_some_and(|old| !supersedes(old, seen, claimed)) {
        let is_unnotified =
            |old: &RelayEntry| old.status.is_lost() && old.notified_at.is_none() && old.by == by;
        let unnotified = seen.status.is_lost() && old.is_some_and(is_unnotified);
        return Decision::Known { unnotified: unnotified.then(|| key.to_owned()) };
    }
    let entry = match old {
        Some(old) if !supersedes(old, seen, claimed) => old.clone(),
        Some(_) | None => RelayEntry { claimed, ..entry(seen, old, by, now) },
    };
    let was_lost = old.is_some_and(|old| old.status.is_lost() && (!old.claimed || entry.claimed));
    let lost = entry.status.is_lost() && !entry.claimed && !was_lost;
    Decision::Changes(Box::new(Change {
        key: key.to_owned(),
        lost: lost.then(|| lost_detail(ledger, key, seen, &entry)),
        unnotified: entry.status.is_lost() && !was_lost && entry.notified_at.is_none(),
        found: doubtful.then(|| fact(ledger, key, &(&entry).into())),
        entry,
    }))
}

/// Whether our own 250 has named the queue id, or an earlier report was believed under it.
fn is_named(delivery: &Delivery, seen: &Seen) -> bool {
    let dups = delivery.dups.iter().map(|fact| fact["queue_id"].as_str());
    let known = delivery.relay.as_ref().and_then(|entry| entry.queue_id.as_deref());
    dups.chain([delivery.queue_id.as_deref(), known]).flatten().any(|id| seen.queue_id.as_deref() == Some(id))
}

/// Whether a report replaces the known entry.
fn supersedes(old: &RelayEntry, seen: &Seen, claimed: bool) -> bool {
    if old.claimed && !claimed && old.status.is_lost() {
        return seen.status != RelayStatus::Deferred;
    }
    let same_mail = seen.queue_id.is_none() || old.queue_id.is_none() || seen.queue_id == old.queue_id;
    match (old.status, seen.status) {
        (RelayStatus::Deferred, RelayStatus::Deferred) => same_mail && old.dsn != seen.dsn,
        (RelayStatus::Deferred, RelayStatus::Delivered) => true,
        (RelayStatus::Deferred, RelayStatus::Bounced | RelayStatus::Expired) => same_mail,
        // A later server returned the mail.
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

fn entry(seen: &Seen, old: Option<&RelayEntry>, by: &str, now: Timestamp) -> RelayEntry {
    let since = old.and_then(|old| old.since);
    // A claimed loss that was notified is not notified once more when it is proved.
    let notified_at =
        old.filter(|old| old.status.is_lost() && seen.status.is_lost()).and_then(|old| old.notified_at);
    RelayEntry {
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
        notified_at,
        claimed: false,
    }
}

/// An acceptance not yet recorded, proved by the relay or a returned mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acceptance {
    /// Generation of the mail.
    pub generation: u32,
    /// The relay's queue id.
    pub queue_id: Option<String>,
    /// Message-ID of the mail.
    pub message_id: Option<String>,
}

impl From<&RelayEntry> for Acceptance {
    fn from(entry: &RelayEntry) -> Self {
        let (queue_id, message_id) = (entry.queue_id.clone(), entry.message_id.clone());
        Self { generation: entry.generation, queue_id, message_id }
    }
}

/// The fact that evidence proves. Its nonce is the queue id's, so that it is recorded once, whatever the source.
#[must_use]
pub fn fact(ledger: &Ledger, key: &str, entry: &Acceptance) -> Map<String, Value> {
    let evidence = entry.queue_id.as_deref().unwrap_or("a returned mail");
    let fact = json!({
        "state": DeliveryState::Accepted.label(), "nonce": format!("relay:{evidence}"), "token": null, "smtp": null,
        "queue_id": entry.queue_id, "message_id": entry.message_id, "generation": entry.generation, "found": true,
    });
    let mut audit = detail(ledger, key, entry.generation);
    if let Value::Object(audit) = &mut audit {
        audit.extend([
            ("message_id".to_owned(), json!(entry.message_id)),
            ("queue_id".to_owned(), json!(entry.queue_id)),
            ("smtp".to_owned(), Value::Null),
            ("found".to_owned(), Value::Bool(true)),
        ]);
    }
    Map::from_iter([(key.to_owned(), json!({"fact": fact, "audit": audit}))])
}

fn lost_detail(ledger: &Ledger, key: &str, seen: &Seen, entry: &RelayEntry) -> Value {
    let mut audit = detail(ledger, key, seen.origin.generation);
    if let Value::Object(audit) = &mut audit {
        let error = json!({
            "class": entry.status.label(), "stage": "delivery", "enhanced": entry.dsn, "reply": scrub(&entry.text),
        });
        audit.extend([
            ("message_id".to_owned(), json!(entry.message_id)),
            ("queue_id".to_owned(), json!(entry.queue_id)),
            ("smtp".to_owned(), Value::Null),
            ("error".to_owned(), error),
        ]);
    }
    audit
}

fn detail(ledger: &Ledger, key: &str, generation: u32) -> Value {
    let order = crate::routing::submission::ledger::order_of(key).unwrap_or_default();
    let action = ledger.plan.iter().find(|action| action.action_order == order);
    let destination = action.map_or("", |action| action.destination.as_str());
    json!({
        "v": 1, "attempt": ledger.attempts, "generation": generation, "action_order": order,
        "recipient": recipient(key, destination),
    })
}

#[cfg(test)]
mod tests;
