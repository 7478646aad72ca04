//! Draft of a row's changes: the row as read under its lock, and the changes to write (protocol §3, §5, §6): facts merge,
//! everything else is fenced by the claim token, and the end of a claim is computed from the ledger that the write leaves.
//!
//! Invariant: no I/O here. The owner of the lock writes a [`Change`] before the lock is released; a lost one changes
//! nothing. Only changed parts of the stored document are written, so that keys unknown to this version survive.

mod ends;
mod facts;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub use self::ends::{Conclusion, Ending, GoesOn, Recorded};

use crate::kernel::Transition;
use crate::routing::submission::ledger::{Ledger, LedgerFault, VERSION};
use crate::routing::table::{Status, Submission};

/// Changes to one row.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Change {
    /// New status; absent where it stays.
    pub transition: Option<Transition<Submission>>,
    /// Whether `updated_at` moves: facts that come without their claim leave it.
    pub touched: bool,
    /// Whether `claim` and `next_attempt_at` are removed, before the keys are set.
    pub ends_claim: bool,
    /// Keys of the ledger to set, but for the deliveries.
    pub keys: Map<String, Value>,
    /// Deliveries to set, each as a whole.
    pub deliveries: Map<String, Value>,
    /// Whether the row has no other deliveries.
    pub all_deliveries: bool,
    /// New `happyfox_status`; absent where it stays.
    pub happyfox_status: Option<&'static str>,
    /// New `happyfox_ticket_id`; absent where it stays.
    pub happyfox_ticket_id: Option<String>,
    /// Audit rows as `{action, detail}`.
    pub audits: Vec<Value>,
}

impl Change {
    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Draft of a row's changes.
#[derive(Debug, Clone)]
pub struct Draft {
    status: Option<Status>,
    /// Always an object.
    document: Value,
    /// The parse error of an unreadable document.
    unreadable: Option<String>,
    now: Timestamp,
    /// Lacks the keys and deliveries set until [`Self::into_change`].
    change: Change,
    /// Keys of the ledger set so far.
    keys: BTreeSet<&'static str>,
    /// Deliveries set so far.
    deliveries: BTreeSet<String>,
}

/// Readable parts of a document that as a whole is unreadable.
#[derive(Debug, Clone, Default)]
pub struct Salvage {
    /// Deliveries, as they are stored.
    pub deliveries: Map<String, Value>,
    /// Generations of the actions.
    pub generations: Option<Value>,
    /// Whether the document names its version.
    pub is_signed: bool,
}

/// Answer to [`Draft::begin`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeginAnswer {
    /// The intents are recorded: the send may start.
    Stands,
    /// An attachment turned infected: finish as `failed(infected)`.
    Infected,
    /// An attachment is not clean any more: release with refund.
    NotClean,
    /// The claim is ours, but a delivery is no longer open (a late fact came in): read the ledger again.
    Changed,
    /// The claim is not ours any more: stop.
    Stale,
}

/// The attachments of a row, as read under its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attachments {
    /// Number still to be scanned.
    pub pending: i64,
    /// Whether one of them is infected.
    pub infected: bool,
}

impl Draft {
    /// Starts a draft of a row read at `now`; `stored` is its ledger, or the parse error. A status that this version
    /// does not know is `None`.
    #[must_use]
    pub fn of(status: Option<Status>, stored: Result<Value, String>, now: Timestamp) -> Self {
        let (document, unreadable) = match stored {
            Ok(document @ Value::Object(_)) => (document, None),
            Ok(_) => (json!({}), None),
            Err(why) => (json!({}), Some(why)),
        };
        let (keys, deliveries) = (BTreeSet::new(), BTreeSet::new());
        Self { status, document, unreadable, now, change: Change::default(), keys, deliveries }
    }

    /// Whether the stored document cannot be parsed, so that its deliveries are unknown unless [`Self::salvage`] gives
    /// them.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        self.unreadable.is_some()
    }

    /// Takes the readable parts of a document, which stays unreadable: merging must know the facts already there, or
    /// each would be reported once more.
    pub fn salvage(&mut self, salvage: Salvage) {
        let readable = [
            Some(("deliveries", Value::Object(salvage.deliveries))),
            salvage.generations.map(|generations| ("generations", generations)),
            salvage.is_signed.then_some(("v", Value::Null)),
        ];
        let readable = readable.into_iter().flatten().map(|(key, value)| (key.to_owned(), value));
        self.document = Value::Object(readable.collect());
    }

    /// The row's status as it was read.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.status
    }

    /// The ledger with all changes so far.
    ///
    /// # Errors
    /// [`LedgerFault`].
    pub fn ledger(&self) -> Result<Ledger, LedgerFault> {
        match &self.unreadable {
            Some(why) => Err(LedgerFault::Damaged(why.clone())),
            None => Ledger::read(&self.document),
        }
    }

    /// The fence: whether `token` is the live claim's.
    #[must_use]
    pub fn is_ours(&self, token: &str) -> bool {
        let holder = self.document.pointer("/claim/token").and_then(Value::as_str);
        self.status == Some(Status::Processing) && holder == Some(token)
    }

    /// Returns the changes to write.
    #[must_use]
    pub fn into_change(mut self) -> Change {
        if let Some(Value::Object(all)) = self.document.get_mut("deliveries") {
            let set = self.deliveries.into_iter();
            self.change.deliveries = set.filter_map(|key| all.remove_entry(&key)).collect();
            // An unreadable document may have other deliveries, unknown here.
            self.change.all_deliveries =
                all.is_empty() && !self.change.deliveries.is_empty() && self.unreadable.is_none();
        }
        if let Value::Object(document) = &mut self.document {
            self.change.keys = self.keys.into_iter().filter_map(|key| document.remove_entry(key)).collect();
        }
        self.change
    }

    /// Records the intent to send deliveries, if the claim stands, all of them are open and every attachment is clean
    /// (P6); else changes nothing.
    pub fn begin(
        &mut self,
        token: &str,
        keys: &[String],
        log_position: Option<&str>,
        attachments: Attachments,
    ) -> BeginAnswer {
        if !self.is_ours(token) {
            return BeginAnswer::Stale;
        }
        if attachments.infected {
            return BeginAnswer::Infected;
        }
        if attachments.pending > 0 {
            return BeginAnswer::NotClean;
        }
        let state = |key: &String| self.entry(key).and_then(|delivery| delivery.get("state")?.as_str());
        if !keys.iter().all(|key| state(key) == Some("open")) {
            return BeginAnswer::Changed;
        }
        for key in keys {
            let mut delivery = self.delivery(key);
            delivery.insert("begun".to_owned(), json!({"token": token, "at": self.now}));
            delivery.insert("log_mark".to_owned(), json!(log_position));
            self.set(key, delivery);
        }
        self.change.touched = true;
        BeginAnswer::Stands
    }

    fn entry(&self, key: &str) -> Option<&Map<String, Value>> {
        self.document.get("deliveries")?.get(key)?.as_object()
    }

    /// One delivery's entry; empty where there is none.
    fn delivery(&self, key: &str) -> Map<String, Value> {
        self.entry(key).cloned().unwrap_or_default()
    }

    fn set(&mut self, key: &str, delivery: Map<String, Value>) {
        if !self.document["deliveries"].is_object() {
            self.document["deliveries"] = json!({});
        }
        self.document["deliveries"][key] = Value::Object(delivery);
        self.deliveries.insert(key.to_owned());
    }

    fn set_key(&mut self, key: &'static str, value: Value) {
        self.document[key] = value;
        self.keys.insert(key);
    }

    /// Every ledger of ours names its version.
    fn sign(&mut self) {
        if self.document.get("v").is_none() {
            self.set_key("v", json!(VERSION));
        }
    }

    fn audit(&mut self, action: &str, detail: Value) {
        let row = [("action".to_owned(), json!(action)), ("detail".to_owned(), detail)];
        self.change.audits.push(Value::Object(Map::from_iter(row)));
    }
}
