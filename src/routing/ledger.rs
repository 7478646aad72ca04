//! The ledger: what `submissions.routing_result` says about one submission (data contract, "The ledger").
//!
//! Invariant: nothing here does I/O, and nothing here writes the stored document back. Writers set single keys of it
//! ([`super::draft`]), so that keys unknown to this version survive. Shapes are tested before anything is believed: a damaged ledger
//! is a value ([`LedgerFault`]), never a panic and never an aborted batch.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::plan::PlannedAction;
use crate::ports::{RelayStatus, Reply, Stage};

/// The version this code writes.
pub const VERSION: u64 = 1;

/// What is known of a submission's routing. `{}` is a submission never claimed.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// Claims that cost an attempt so far.
    pub attempts: u32,
    /// Times the sweep took it back.
    pub resets: u32,
    /// The live claim, while `processing`.
    pub claim: Option<ClaimMark>,
    /// Not before this instant (database time).
    pub next_attempt_at: Option<Timestamp>,
    /// The pinned plan; empty until the first claim of a form that has actions.
    pub plan: Vec<PlannedAction>,
    /// Generation by action order; absent means 0.
    pub generations: BTreeMap<i32, u32>,
    /// Entry by delivery key.
    pub deliveries: BTreeMap<String, Delivery>,
    /// How it ended.
    pub finished: Option<Finished>,
    /// The alert of that end.
    pub alert: Option<Alert>,
    /// The alert of an attachment that was found infected after that end, where it was routed.
    pub late_infection: Option<Alert>,
    /// What people overrode.
    pub overrides: Vec<Value>,
}

/// Who holds the submission, and until when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimMark {
    /// Fences every transition.
    pub token: String,
    /// `host/pid` of the holder.
    pub worker: String,
    /// When it was taken.
    pub at: Timestamp,
    /// When it ends at the latest.
    pub deadline: Timestamp,
}

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// To be sent, or sent without a known outcome.
    #[default]
    Open,
    /// A fact.
    Accepted,
    /// Failed for good.
    Failed,
    /// Its action type has no client yet.
    NotImplemented,
}

impl DeliveryState {
    /// The label used in the ledger and in counts.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Accepted => "accepted",
            Self::Failed => "failed",
            Self::NotImplemented => "not_implemented",
        }
    }
}

/// One delivery's entry.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Delivery {
    /// See [`DeliveryState`].
    pub state: DeliveryState,
    /// When its state was last recorded.
    pub at: Option<Timestamp>,
    /// Identifies the recorded fact, so that a retried record is recognised.
    pub nonce: Option<String>,
    /// Claim under which it was accepted.
    pub token: Option<String>,
    /// The relay's words at acceptance.
    pub smtp: Option<Reply>,
    /// The relay's queue id.
    pub queue_id: Option<String>,
    /// RFC 5322 Message-ID of the accepted mail.
    pub message_id: Option<String>,
    /// Generation of the action under which it was accepted; absent means 0.
    pub generation: u32,
    /// Recorded after the submission had ended.
    pub late: bool,
    /// Further acceptances of the same delivery, of this generation and of former ones.
    pub dups: Vec<Value>,
    /// The facts of former generations, oldest first: what a forced replay reopened.
    pub history: Vec<Value>,
    /// Write-ahead mark "about to send".
    pub begun: Option<Begun>,
    /// What of the relay's log was read when it was begun last: what is logged later is about that send.
    pub log_mark: Option<String>,
    /// Sent, or perhaps sent, without a known outcome.
    pub doubt: bool,
    /// Was in doubt before it was accepted.
    pub doubted: bool,
    /// The latest failure.
    pub error: Option<DeliveryError>,
    /// The latest failed attempts, oldest first, each as `error` with its time and the attempt it was.
    pub tries: Vec<Value>,
    /// What became of it beyond the relay, as far as the relay's log or a returned mail tells.
    pub relay: Option<RelayMark>,
}

/// What became of a mail once the relay had accepted it. Its being there proves that the relay has accepted it, whatever
/// `state` says; unless it is only [`claimed`](Self::claimed).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayMark {
    /// See [`RelayStatus`].
    pub status: RelayStatus,
    /// When this status was recorded.
    pub at: Timestamp,
    /// When it was first deferred; absent where it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Generation of the mail.
    #[serde(default)]
    pub generation: u32,
    /// The relay's queue id; absent where a returned mail told of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_id: Option<String>,
    /// Message-ID of the mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// RFC 3463 status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dsn: Option<String>,
    /// The host that said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<String>,
    /// What was said; may contain addresses.
    #[serde(default)]
    pub text: String,
    /// Who follows the relay this was told by, so that of several hosts one tells people.
    #[serde(default)]
    pub by: String,
    /// When people were told that the mail is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_at: Option<Timestamp>,
    /// A returned mail says so, and any recipient of ours could have written that: told and shown, and no fact.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub claimed: bool,
}

/// "About to send", written before the send.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Begun {
    /// Claim that was about to send.
    pub token: String,
    /// When.
    pub at: Timestamp,
}

/// Class of a delivery's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// Permanent.
    Refused,
    /// Transient.
    Deferred,
    /// Lost after the final dot.
    Unknown,
    /// In doubt, and the policy is to hold.
    InDoubt,
}

/// The latest failure of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryError {
    /// See [`ErrorClass`].
    pub class: ErrorClass,
    /// Where it was decided.
    pub stage: Stage,
    /// What was said.
    #[serde(flatten)]
    pub reply: Reply,
}

/// Why a submission failed; the ledger's and the audit log's `reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailReason {
    /// A delivery was refused for good.
    Refused,
    /// Attempts are spent while something was open.
    Exhausted,
    /// An attachment is infected.
    Infected,
    /// The form has no actions.
    NoActions,
    /// The ledger could not be read.
    LedgerDamaged,
    /// A delivery in doubt is held by policy.
    InDoubt,
}

impl FailReason {
    /// Every reason.
    pub const ALL: [Self; 6] =
        [Self::Refused, Self::Exhausted, Self::Infected, Self::NoActions, Self::LedgerDamaged, Self::InDoubt];

    /// The label used in ledger, audit, journal and filters.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Exhausted => "exhausted",
            Self::Infected => "infected",
            Self::NoActions => "no_actions",
            Self::LedgerDamaged => "ledger_damaged",
            Self::InDoubt => "in_doubt",
        }
    }

    /// What it means, for people.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Refused => "a delivery was refused for good",
            Self::Exhausted => "its attempts are spent and something is still open",
            Self::Infected => "an attachment is infected (rb-008)",
            Self::NoActions => "its form has no actions",
            Self::LedgerDamaged => "its ledger could not be read; the original is in the audit log",
            Self::InDoubt => "a delivery in doubt is held by policy",
        }
    }
}

/// How a submission ended.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Finished {
    /// The claim (or the refusal) that ended it; an alert names the one it is for.
    pub token: Option<String>,
    /// When.
    pub at: Timestamp,
    /// `routed` or `failed`.
    pub status: String,
    /// Why it failed.
    #[serde(default)]
    pub reason: Option<FailReason>,
}

/// The alert of a submission that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct Alert {
    /// Finish token it is for.
    #[serde(rename = "for")]
    pub finish: Option<String>,
    /// Being sent until.
    pub leased_until: Option<Timestamp>,
    /// Confirmed by Slack at.
    pub confirmed_at: Option<Timestamp>,
}

/// Why a stored ledger is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerFault {
    /// Not of the shape of any version we know.
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

    /// The ledger as it is once what the relay proves is recorded: open deliveries in doubt with a mark of their generation
    /// are accepted.
    #[must_use]
    pub fn with_proofs(&self) -> Self {
        let mut proved = self.clone();
        for (key, delivery) in &mut proved.deliveries {
            let generation = order_of(key).map_or(0, |order| self.generation(order));
            let doubtful = delivery.doubt || delivery.begun.is_some();
            let marked = delivery.relay.as_ref().is_some_and(|mark| mark.generation == generation);
            if delivery.state == DeliveryState::Open && doubtful && marked {
                delivery.state = DeliveryState::Accepted;
            }
        }
        proved
    }

    /// Generation of an action; 0 until an operator forces it again.
    #[must_use]
    pub fn generation(&self, action_order: i32) -> u32 {
        self.generations.get(&action_order).copied().unwrap_or(0)
    }

    /// The highest generation of any action.
    #[must_use]
    pub fn latest_generation(&self) -> u32 {
        self.generations.values().copied().max().unwrap_or(0)
    }

    /// What became of a delivery's mail beyond the relay, where that is of its present generation: what a former mail
    /// met is history.
    #[must_use]
    pub fn mark_of<'a>(&self, key: &str, delivery: &'a Delivery) -> Option<&'a RelayMark> {
        let generation = self.generation(order_of(key)?);
        delivery.relay.as_ref().filter(|mark| mark.generation == generation)
    }

    /// Number of deliveries by what became of their mails beyond the relay, only what occurs.
    #[must_use]
    pub fn beyond(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for mark in self.deliveries.iter().filter_map(|(key, delivery)| self.mark_of(key, delivery)) {
            *counts.entry(mark.status.label()).or_insert(0) += 1;
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
    /// In doubt: begun by a claim other than `token` without a committed outcome, or recorded as unknown.
    #[must_use]
    pub fn in_doubt(&self, token: &str) -> bool {
        self.state == DeliveryState::Open
            && (self.doubt || self.begun.as_ref().is_some_and(|begun| begun.token != token))
    }

    /// How often the relay accepted it again under a Message-ID it had accepted before: acceptances of a generation
    /// beyond the first.
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
