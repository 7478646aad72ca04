//! The ledger: what `submissions.routing_result` says about one submission (data contract, "The ledger").
//!
//! Invariant: no I/O here, and no writing back of the stored document. Writers set single keys of it
//! ([`crate::routing::decide::draft`]), so that keys unknown to this version survive. Shapes are tested before anything
//! is believed: a damaged ledger is a value ([`LedgerFault`]), never a panic and never an aborted batch.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::plan::PlannedAction;
use super::version::PlanVersion;
use crate::kernel::words;
use crate::ports::{RelayStatus, Reply, Stage, TicketRef};

/// Format version that this code writes.
pub const VERSION: u64 = 1;

/// State of a submission's routing. `{}` is a submission never claimed.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// Claims that cost an attempt so far.
    pub attempts: u32,
    /// Times the sweep took the submission back.
    pub resets: u32,
    /// The live claim, while `processing`.
    pub claim: Option<ClaimEntry>,
    /// Earliest instant of the next attempt (database time).
    pub next_attempt_at: Option<Timestamp>,
    /// The pinned plan; empty until the first claim of a form that has actions.
    pub plan: Vec<PlannedAction>,
    /// The version of the form that the plan is of. A damaged one damages nothing else.
    pub version: PlanVersion,
    /// Generation by action order; absent means 0.
    pub generations: BTreeMap<i32, u32>,
    /// Entry by delivery key.
    pub deliveries: BTreeMap<String, Delivery>,
    /// The submission's end, once there is one.
    pub finished: Option<Finished>,
    /// The alert of that end.
    pub alert: Option<Alert>,
    /// The alert of an attachment that turned out infected after that end, where the submission was routed.
    pub late_infection: Option<Alert>,
    /// Operators' overrides, as stored.
    pub overrides: Vec<Value>,
}

/// The live claim: its owner, and its time limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimEntry {
    /// Fence of every transition.
    pub token: String,
    /// `host/pid` of the owner.
    pub worker: String,
    /// Time of the claim.
    pub at: Timestamp,
    /// Latest end of the claim.
    pub deadline: Timestamp,
}

words! {
    /// State of a delivery.
    #[derive(Default)]
    DeliveryState {
        /// Still to be sent, or sent without a known outcome.
        #[default]
        Open = "open",
        /// Accepted by the relay: a fact.
        Accepted = "accepted",
        /// Failed for good.
        Failed = "failed",
        /// Without a client for its action type yet.
        NotImplemented = "not_implemented",
    }
}

/// One delivery's entry.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Delivery {
    /// State of the delivery.
    pub state: DeliveryState,
    /// Time at which the state was last recorded.
    pub at: Option<Timestamp>,
    /// Identifier of the recorded fact, by which a retried record is recognised.
    pub nonce: Option<String>,
    /// Claim under which the mail was accepted.
    pub token: Option<String>,
    /// The relay's reply at acceptance.
    pub smtp: Option<Reply>,
    /// The relay's queue id.
    pub queue_id: Option<String>,
    /// RFC 5322 Message-ID of the accepted mail.
    pub message_id: Option<String>,
    /// The ticket that was made.
    pub ticket: Option<TicketRef>,
    /// Further tickets of the same tag, found while the first was in doubt.
    pub also: Vec<TicketRef>,
    /// Generation of the action under which the mail was accepted; absent means 0.
    pub generation: u32,
    /// Whether the fact was recorded after the submission had ended.
    pub late: bool,
    /// Further acceptances of the same delivery, of this generation and of former ones.
    pub dups: Vec<Value>,
    /// The facts of former generations, oldest first: what a forced replay reopened.
    pub history: Vec<Value>,
    /// The write-ahead intent to send.
    #[serde(rename = "begun")]
    pub intent: Option<Intent>,
    /// Position in the relay's log when the last intent was recorded: what is logged later is about that send.
    #[serde(rename = "log_mark")]
    pub log_position: Option<String>,
    /// Whether the mail was sent, or perhaps sent, without a known outcome.
    pub doubt: bool,
    /// Whether the delivery was in doubt before its acceptance.
    pub doubted: bool,
    /// The latest failure.
    pub error: Option<DeliveryError>,
    /// The latest failed attempts, oldest first, each as `error` with its time and the number of the attempt.
    pub tries: Vec<Value>,
    /// Delivery status after the relay's acceptance, as far as the relay's log or a returned mail shows it.
    pub relay: Option<RelayEntry>,
}

/// Delivery status of a mail after the relay's acceptance. An entry proves that the relay has accepted the mail,
/// whatever `state` says; unless the entry is only [`claimed`](Self::claimed).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayEntry {
    /// Latest status.
    pub status: RelayStatus,
    /// Time at which this status was recorded.
    pub at: Timestamp,
    /// Time of the first deferral; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Generation of the mail.
    #[serde(default)]
    pub generation: u32,
    /// The relay's queue id; absent where a returned mail is the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_id: Option<String>,
    /// Message-ID of the mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// RFC 3463 status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dsn: Option<String>,
    /// Host that reported the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<String>,
    /// Text of the report; may contain addresses.
    #[serde(default)]
    pub text: String,
    /// Follower of the relay that recorded this, so that of several hosts one notifies people.
    #[serde(default)]
    pub by: String,
    /// Time at which people were notified that the mail is lost.
    #[serde(rename = "told_at", default, skip_serializing_if = "Option::is_none")]
    pub notified_at: Option<Timestamp>,
    /// Whether a returned mail is the source, which any recipient of ours could have written: notified and shown, no fact.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub claimed: bool,
}

/// The intent to send, recorded before the send.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Intent {
    /// Claim under which the send was to start.
    pub token: String,
    /// Time of the record.
    pub at: Timestamp,
}

words! {
    /// Class of a delivery's failure.
    ErrorClass {
        /// Permanent.
        Refused = "refused",
        /// Transient.
        Deferred = "deferred",
        /// Lost after the final dot.
        Unknown = "unknown",
        /// In doubt, and on hold by policy.
        InDoubt = "in_doubt",
    }
}

/// The latest failure of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryError {
    /// Class of the failure.
    pub class: ErrorClass,
    /// Stage at which the failure was decided.
    pub stage: Stage,
    /// The relay's reply, or our own message.
    #[serde(flatten)]
    pub reply: Reply,
}

words! {
    /// Reason of a failed submission; the ledger's and the audit log's `reason`.
    FailReason {
        /// A delivery was refused for good.
        Refused = "refused",
        /// Attempts are spent while something was open.
        Exhausted = "exhausted",
        /// An attachment is infected.
        Infected = "infected",
        /// The form has no actions.
        NoActions = "no_actions",
        /// The ledger could not be read.
        LedgerDamaged = "ledger_damaged",
        /// Its screening keeps it out.
        ScreenedOut = "screened_out",
        /// A delivery in doubt is on hold by policy.
        InDoubt = "in_doubt",
    }
}

impl FailReason {
    /// Meaning of the reason, for people.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Refused => "a delivery was refused for good",
            Self::Exhausted => "its attempts are spent and something is still open",
            Self::Infected => "an attachment is infected (rb-008)",
            Self::NoActions => "its form has no actions",
            Self::ScreenedOut => "its screening keeps it out (rb-014)",
            Self::LedgerDamaged => "its ledger could not be read; the original is in the audit log",
            Self::InDoubt => "a delivery in doubt is on hold by policy",
        }
    }
}

/// End of a submission.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Finished {
    /// Token of the claim (or the refusal) that ended the submission; an alert names the one it is for.
    pub token: Option<String>,
    /// Time of the end.
    pub at: Timestamp,
    /// `routed` or `failed`.
    pub status: String,
    /// Reason of a failure.
    #[serde(default)]
    pub reason: Option<FailReason>,
}

/// The alert of a submission that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct Alert {
    /// Finish token the alert is for.
    #[serde(rename = "for")]
    pub finish: Option<String>,
    /// End of the lease under which the alert is being sent.
    pub leased_until: Option<Timestamp>,
    /// Time of Slack's confirmation.
    pub confirmed_at: Option<Timestamp>,
}

/// Reason why a stored ledger is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerFault {
    /// Not of the shape of any known version.
    #[error("the ledger is damaged: {0}")]
    Damaged(String),
    /// Written by a newer version: left untouched.
    #[error(
        "the ledger is of version {0}, this program knows up to {VERSION}: upgrade, or stop the newer one"
    )]
    Newer(u64),
}

impl Ledger {
    /// Reads a stored ledger.
    ///
    /// # Errors
    /// [`LedgerFault`]; the caller decides what becomes of the row (protocol §2).
    pub fn read(stored: &Value) -> Result<Self, LedgerFault> {
        let Value::Object(map) = stored else {
            return Err(LedgerFault::Damaged(format!("expected an object, found {}", shape(stored))));
        };
        match map.get("v") {
            None => {}
            Some(v) => match v.as_u64() {
                Some(VERSION) => {}
                Some(newer) if newer > VERSION => return Err(LedgerFault::Newer(newer)),
                Some(_) | None => {
                    return Err(LedgerFault::Damaged(format!("v: not a version: {}", shape(v))));
                }
            },
        }
        let ledger: Self = Self::deserialize(stored).map_err(|e| LedgerFault::Damaged(format!("{e}")))?;
        for key in ledger.deliveries.keys() {
            if order_of(key).is_none() {
                return Err(LedgerFault::Damaged("deliveries: a key without an action order".to_owned()));
            }
            if stored["deliveries"][key].get("state").is_none() {
                return Err(LedgerFault::Damaged("deliveries: an entry without a state".to_owned()));
            }
        }
        Ok(ledger)
    }

    /// The ledger once the relay's proofs are recorded: open deliveries in doubt with a relay entry of their generation
    /// are accepted. A [`claimed`](RelayEntry::claimed) entry proves nothing.
    #[must_use]
    pub fn with_proofs(&self) -> Self {
        let mut proved = self.clone();
        for (key, delivery) in &mut proved.deliveries {
            let generation = self.generation_of(key);
            let doubtful = delivery.doubt || delivery.intent.is_some();
            let proves = |entry: &RelayEntry| entry.generation == generation && !entry.claimed;
            let is_proved = delivery.relay.as_ref().is_some_and(proves);
            if delivery.state == DeliveryState::Open && doubtful && is_proved {
                delivery.state = DeliveryState::Accepted;
                delivery.generation = generation;
            }
        }
        proved
    }

    /// Generation of a delivery's mail: the one that was accepted, else its action's, under which it is sent. The two differ
    /// where a neighbour was forced since.
    #[must_use]
    pub fn generation_of(&self, key: &str) -> u32 {
        match self.deliveries.get(key) {
            Some(delivery) if delivery.state == DeliveryState::Accepted => delivery.generation,
            Some(_) | None => order_of(key).map_or(0, |order| self.generation(order)),
        }
    }

    /// Generation of an action, under which its open deliveries are sent; 0 until an operator forces it again.
    #[must_use]
    pub fn generation(&self, action_order: i32) -> u32 {
        self.generations.get(&action_order).copied().unwrap_or(0)
    }

    /// The highest generation of any action.
    #[must_use]
    pub fn latest_generation(&self) -> u32 {
        self.generations.values().copied().max().unwrap_or(0)
    }

    /// Delivery status of a mail after the relay's acceptance, where the entry is of the delivery's present generation: an
    /// entry of a former mail is history.
    #[must_use]
    pub fn relay_entry<'a>(&self, key: &str, delivery: &'a Delivery) -> Option<&'a RelayEntry> {
        let generation = self.generation_of(key);
        delivery.relay.as_ref().filter(|entry| entry.generation == generation)
    }

    /// Number of deliveries by status after the relay's acceptance, only statuses that occur.
    #[must_use]
    pub fn delivery_statuses(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for entry in self.deliveries.iter().filter_map(|(key, delivery)| self.relay_entry(key, delivery)) {
            *counts.entry(entry.status.label()).or_insert(0) += 1;
        }
        counts
    }

    /// The deliveries of one action, in key order.
    pub fn deliveries_of(&self, action_order: i32) -> impl Iterator<Item = (&str, &Delivery)> {
        self.deliveries
            .iter()
            .filter(move |(key, _)| order_of(key) == Some(action_order))
            .map(|(key, delivery)| (key.as_str(), delivery))
    }

    /// Number of deliveries by state, only states that occur.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for delivery in self.deliveries.values() {
            *counts.entry(delivery.state.label()).or_insert(0) += 1;
        }
        counts
    }

    /// Whether `token` is the live claim's.
    #[must_use]
    pub fn is_claimed_by(&self, token: &str) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.token == token)
    }
}

impl Delivery {
    /// Whether the delivery is in doubt: with an intent of another claim than `token`, or recorded as unknown.
    #[must_use]
    pub fn in_doubt(&self, token: &str) -> bool {
        self.state == DeliveryState::Open
            && (self.doubt || self.intent.as_ref().is_some_and(|intent| intent.token != token))
    }

    /// Number of repeated acceptances under one Message-ID: all of a generation but the first.
    #[must_use]
    pub fn repeats(&self) -> usize {
        let recorded = |fact: &Value| fact.get("generation").and_then(Value::as_u64).unwrap_or(0);
        let own = (self.state == DeliveryState::Accepted).then_some(u64::from(self.generation));
        let beside = self.history.iter().chain(&self.dups).map(recorded);
        let generations: Vec<u64> = own.into_iter().chain(beside).collect();
        generations.len() - generations.iter().collect::<BTreeSet<_>>().len()
    }
}

/// The action order of a delivery key (`order|…`).
#[must_use]
pub fn order_of(key: &str) -> Option<i32> {
    key.split_once('|').and_then(|(order, _)| order.parse().ok())
}

/// Place of a delivery among `keys`, those of its action, as `2/3`: its name without its address.
#[must_use]
pub fn place<'a>(keys: impl IntoIterator<Item = &'a str>, key: &str) -> Option<String> {
    let mut keys: Vec<&str> = keys.into_iter().collect();
    keys.sort_unstable();
    let place = keys.iter().position(|other| *other == key)?;
    Some(format!("{}/{}", place + 1, keys.len()))
}

fn shape(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
