//! A row as it was read under its lock, and what is to be written to it (protocol §3, §5, §6): facts merge, everything
//! else is fenced by the claim token, and the end of a claim is computed from the ledger that the write leaves behind.
//!
//! Invariant: nothing here does I/O. Whoever holds the lock carries a [`Change`] out before it lets go; were it lost,
//! nothing happened. Of the stored document only what a step changes is written, so that keys unknown to this version
//! survive.

mod ends;
mod facts;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub use ends::{Conclusion, Ending, Recorded};

use super::ledger::{Ledger, LedgerFault, VERSION};
use super::table::{Status, Submission};
use crate::kernel::Transition;

/// What is written to one row.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Change {
    /// To another status; absent where it stays.
    pub transition: Option<Transition<Submission>>,
    /// Whether `updated_at` moves: not by facts that come without their claim.
    pub touched: bool,
    /// `claim` and `next_attempt_at` go, before the keys are set.
    pub ends_claim: bool,
    /// Keys of the ledger to set, but for the deliveries.
    pub keys: Map<String, Value>,
    /// Deliveries to set, each as a whole.
    pub deliveries: Map<String, Value>,
    /// There are no other deliveries.
    pub all_deliveries: bool,
    /// New `happyfox_status`; absent where it stays.
    pub happyfox_status: Option<&'static str>,
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

/// See the module's header.
#[derive(Debug, Clone)]
pub struct Draft {
    status: Option<Status>,
    /// An object.
    document: Value,
    /// Why the stored document could not even be parsed.
    unreadable: Option<String>,
    now: Timestamp,
    /// But for what the document says already: see [`Self::into_change`].
    change: Change,
    /// Keys of the ledger that were set.
    keys: BTreeSet<&'static str>,
    /// Deliveries that were set.
    deliveries: BTreeSet<String>,
}

/// What can be read of a document that as a whole cannot.
#[derive(Debug, Clone, Default)]
pub struct Salvage {
    /// Deliveries, as they are stored.
    pub deliveries: Map<String, Value>,
    /// Generations of the actions.
    pub generations: Option<Value>,
    /// It says of which version it is.
    pub is_signed: bool,
}

/// Answer to a begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// The marks stand: the send may start.
    Marked,
    /// An attachment turned infected: finish as `failed(infected)`.
    Infected,
    /// An attachment is not clean any more: release with refund.
    NotClean,
    /// The claim is ours, but a delivery is not open any more (a late fact came in): read the ledger again.
    Changed,
    /// The claim is not ours any more: stop.
    Stale,
}

/// The attachments of a row, as they stand under its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attachments {
    /// Still to be scanned.
    pub pending: i64,
    /// One of them is infected.
    pub infected: bool,
}

impl Draft {
    /// Of a row read at `now`; `stored` is its ledger, or why it cannot be parsed. A status that this version does not
    /// know is none.
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

    /// The stored document cannot be parsed, so that nothing is known of its deliveries unless they are given by
    /// [`Self::salvage`].
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        self.unreadable.is_some()
    }

    /// Takes what can be read of an unreadable document, which it stays: facts must know those that are there, or each would
    /// be told once more.
    pub fn salvage(&mut self, salvage: Salvage) {
        let readable = [
            Some(("deliveries", Value::Object(salvage.deliveries))),
            salvage.generations.map(|generations| ("generations", generations)),
            salvage.is_signed.then_some(("v", Value::Null)),
        ];
        let readable = readable.into_iter().flatten().map(|(key, value)| (key.to_owned(), value));
        self.document = Value::Object(readable.collect());
    }

    /// Its status as it was read.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.status
    }

    /// The ledger with everything that was changed so far.
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

    /// What is to be written.
    #[must_use]
    pub fn into_change(mut self) -> Change {
        if let Some(Value::Object(all)) = self.document.get_mut("deliveries") {
            let set = self.deliveries.into_iter();
            self.change.deliveries = set.filter_map(|key| all.remove_entry(&key)).collect();
            // Of what cannot be read nobody knows what is in it.
            self.change.all_deliveries =
                all.is_empty() && !self.change.deliveries.is_empty() && self.unreadable.is_none();
        }
        if let Value::Object(document) = &mut self.document {
            self.change.keys = self.keys.into_iter().filter_map(|key| document.remove_entry(key)).collect();
        }
        self.change
    }

    /// Marks deliveries as begun, if the claim stands, all of them are open and every attachment is clean (P6); else nothing
    /// is to be written.
    pub fn begin(
        &mut self,
        token: &str,
        keys: &[String],
        log_mark: Option<&str>,
        attachments: Attachments,
    ) -> Begun {
        if !self.is_ours(token) {
            return Begun::Stale;
        }
        if attachments.infected {
            return Begun::Infected;
        }
        if attachments.pending > 0 {
            return Begun::NotClean;
        }
        let state = |key: &String| self.entry(key).and_then(|delivery| delivery.get("state")?.as_str());
        if !keys.iter().all(|key| state(key) == Some("open")) {
            return Begun::Changed;
        }
        for key in keys {
            let mut delivery = self.delivery(key);
            delivery.insert("begun".to_owned(), json!({"token": token, "at": self.now}));
            delivery.insert("log_mark".to_owned(), json!(log_mark));
            self.set(key, delivery);
        }
        self.change.touched = true;
        Begun::Marked
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

    /// A ledger of ours says of which version it is.
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
