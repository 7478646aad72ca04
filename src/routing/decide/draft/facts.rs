//! Outcomes in a ledger: facts without regard to the claim, everything else under it.

use serde_json::{Map, Value, json};

use super::Draft;
use crate::routing::submission::outcome::{EMAIL_FAILED, Entries};
use crate::routing::table::Status;

/// Keys that a fact removes: state of the attempt that it closes.
const OVER: [&str; 4] = ["begun", "doubt", "error", "log_mark"];

/// Number of failed attempts kept by a delivery: more than a submission has, and few however often it is replayed.
const MOST_TRIES: usize = 10;

impl Draft {
    /// Merges facts, whoever owns the claim (protocol §5): the first wins, later ones are kept under `dups`, and a nonce
    /// already known changes nothing. A fact of a former generation is kept there too and closes nothing: an operator
    /// has asked for another mail since. `facts` is `{key: {fact, audit}}`; nothing is written to what retention has emptied.
    pub fn merge(&mut self, token: &str, facts: &Map<String, Value>) {
        if self.status == Some(Status::Purged) {
            return;
        }
        let mine = self.is_ours(token);
        for (key, recorded) in facts {
            let (Value::Object(fact), audit) = (&recorded["fact"], &recorded["audit"]) else { continue };
            if self.merge_one(token, key, fact, audit, mine) {
                self.sign();
                self.change.touched |= mine;
            }
        }
    }

    /// Returns whether the fact is new.
    fn merge_one(
        &mut self,
        token: &str,
        key: &str,
        fact: &Map<String, Value>,
        audit: &Value,
        mine: bool,
    ) -> bool {
        let mut delivery = self.delivery(key);
        let others: Vec<Value> = [list(&delivery, "dups"), list(&delivery, "history")].concat();
        let is_known = {
            let nonce = fact.get("nonce").unwrap_or(&Value::Null);
            delivery.get("nonce").unwrap_or(&Value::Null) == nonce
                || others.iter().any(|other| other.get("nonce") == Some(nonce))
        };
        // One queue id is one acceptance of one mail, whether from the relay's own answer or from its log. Another
        // relay, or this one at another time, may have given the id to the mail of another generation.
        let generation = text(fact.get("generation"));
        let is_same_mail = |id: &Value| {
            let mut known = others.iter().filter_map(Value::as_object).chain([&delivery]);
            known
                .any(|other| other.get("queue_id") == Some(id) && text(other.get("generation")) == generation)
        };
        if is_known || fact.get("queue_id").is_some_and(|id| !id.is_null() && is_same_mail(id)) {
            return false;
        }
        let late = matches!(self.status, Some(Status::Routed | Status::Failed));
        let is_accepted = delivery.get("state") == Some(&json!("accepted"));
        // What is accepted is of its mail's generation: the action's is higher where a neighbour was forced since.
        let present =
            if is_accepted { text(delivery.get("generation")) } else { self.generation_of_action(key) };
        let former = generation != present;
        let duplicate = if former {
            let generation = fact.get("generation").unwrap_or(&Value::Null);
            others.iter().any(|other| other.get("generation") == Some(generation))
        } else {
            is_accepted
        };
        let ticket =
            fact.get("ticket").and_then(|ticket| ticket.get("display_id")?.as_str()).map(str::to_owned);
        let mut fact = fact.clone();
        fact.insert("at".to_owned(), json!(self.now));
        if delivery.contains_key("state") && (former || is_accepted) {
            let mut dups = list(&delivery, "dups");
            dups.push(Value::Object(fact));
            delivery.insert("dups".to_owned(), Value::Array(dups));
        } else {
            let intended_by =
                delivery.get("begun").map(|intents| intents.get("token").and_then(Value::as_str));
            let doubted = delivery.get("doubt") == Some(&Value::Bool(true))
                || intended_by.is_some_and(|holder| holder != Some(token));
            delivery.retain(|name, _| !OVER.contains(&name.as_str()));
            delivery.extend(fact);
            delivery.insert("late".to_owned(), json!(late));
            if doubted {
                delivery.insert("doubted".to_owned(), json!(true));
            }
        }
        self.set(key, delivery);
        let action = if ticket.is_some() { "happyfox_success" } else { "email_sent" };
        if !former && let Some(id) = ticket {
            self.change.happyfox_status = Some("created");
            self.change.happyfox_ticket_id = Some(id);
        }
        let mut detail = audit.clone();
        if let Value::Object(detail) = &mut detail {
            detail.insert("duplicate".to_owned(), json!(duplicate));
            detail.insert("stale".to_owned(), json!(!mine));
            detail.insert("late".to_owned(), json!(late));
        }
        self.audit(action, detail);
        true
    }

    /// Records every other outcome, of a claim that is ours. A delivery that has a fact keeps it.
    pub fn note(&mut self, entries: &Entries) {
        if entries.others.is_empty() {
            return;
        }
        for (key, recorded) in &entries.others {
            let mut delivery = self.delivery(key);
            if !matches!(delivery.get("state").and_then(Value::as_str), None | Some("open")) {
                continue;
            }
            delivery.remove("begun");
            if let Value::Object(entry) = &recorded["entry"] {
                delivery.extend(entry.clone());
                if let Some(Value::Object(error)) = entry.get("error") {
                    let tries = self.tried(&delivery, error);
                    delivery.insert("tries".to_owned(), tries);
                }
            }
            delivery.insert("at".to_owned(), json!(self.now));
            self.set(key, delivery);
            if recorded["audit"].is_object() {
                let action = recorded["action"].as_str().unwrap_or(EMAIL_FAILED);
                self.audit(action, recorded["audit"].clone());
            }
        }
        self.change.touched = true;
        self.change.happyfox_status = entries.happyfox_status.or(self.change.happyfox_status);
    }

    /// The failed attempts at a delivery with one more: the error, its time and the number of the attempt.
    fn tried(&self, delivery: &Map<String, Value>, error: &Map<String, Value>) -> Value {
        let mut tries = list(delivery, "tries");
        let mut one = error.clone();
        one.insert("at".to_owned(), json!(self.now));
        one.insert("attempt".to_owned(), self.document.get("attempts").cloned().unwrap_or_default());
        tries.push(Value::Object(one));
        let old = tries.len().saturating_sub(MOST_TRIES);
        Value::Array(tries.split_off(old))
    }

    /// Generation of a delivery's action, as text.
    fn generation_of_action(&self, key: &str) -> String {
        let order = key.split('|').next().unwrap_or_default();
        text(self.document.get("generations").and_then(|all| all.get(order)))
    }
}

/// A generation as text; absent means 0.
fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "0".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn list(delivery: &Map<String, Value>, name: &str) -> Vec<Value> {
    delivery.get(name).and_then(Value::as_array).cloned().unwrap_or_default()
}
