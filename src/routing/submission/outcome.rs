//! Records of an outcome: the ledger entry and the audit detail of one delivery (protocol, "Outcome of one delivery";
//! data contract, "Audit detail").
//!
//! Invariant: no I/O here. An audit detail names its recipient in full and is sealed by its writer, since the audit log
//! outlives the submission; replies are scrubbed here.

use serde_json::{Map, Value, json};

use super::destination::recipient;
use super::ledger::{Delivery, ErrorClass, FailReason, Ledger};
use super::plan::ActionType;
use crate::ports::{Fault, Outcome, Reply};
use crate::scrub::scrub;

/// The audit log's actions of deliveries that failed.
pub const EMAIL_FAILED: &str = "email_failed";
const TICKET_FAILED: &str = "happyfox_failure";

/// Values common to the entries of one send.
#[derive(Debug, Clone)]
pub struct SendContext<'a> {
    /// Claim under which the send happened.
    pub token: &'a str,
    /// Identifier of this send, by which a repeated record is recognised.
    pub nonce: &'a str,
    /// Attempt the claim cost.
    pub attempt: u32,
    /// Order of the action in the plan.
    pub action_order: i32,
    /// Type of the action.
    pub action_type: ActionType,
    /// Generation of the action.
    pub generation: u32,
    /// The pinned destination; read only for the digest of a text that is not an address.
    pub destination: &'a str,
    /// Message-ID of the mail; absent where none could be made.
    pub message_id: Option<&'a str>,
}

/// The outcomes of one send, as the store records them: facts are merged without a claim, the rest is fenced.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Entries {
    /// `{key: {fact, audit}}`
    pub facts: Map<String, Value>,
    /// `{key: {entry, audit}}`
    pub others: Map<String, Value>,
    /// New `happyfox_status`, where the send decided one that is no fact.
    pub happyfox_status: Option<&'static str>,
}

impl Entries {
    /// Adds one delivery's outcome.
    pub fn add(&mut self, context: &SendContext<'_>, key: &str, outcome: &Outcome) {
        match outcome {
            Outcome::Accepted { reply, queue_id } => {
                let fact = json!({
                    "state": "accepted", "nonce": context.nonce, "token": context.token, "smtp": reply,
                    "queue_id": queue_id, "message_id": context.message_id, "generation": context.generation,
                });
                let mut audit = audit(context.attempt, context.generation);
                extend(
                    &mut audit,
                    json!({
                        "action_order": context.action_order, "recipient": recipient(key, context.destination),
                        "message_id": context.message_id, "queue_id": queue_id, "smtp": scrubbed(reply),
                    }),
                );
                self.facts.insert(key.to_owned(), json!({"fact": fact, "audit": audit}));
            }
            Outcome::Created { ticket, also } => {
                let mut fact = json!({
                    "state": "accepted", "nonce": context.nonce, "token": context.token, "ticket": ticket,
                    "generation": context.generation,
                });
                let mut audit = audit(context.attempt, context.generation);
                extend(&mut audit, json!({"action_order": context.action_order, "ticket": ticket}));
                if !also.is_empty() {
                    extend(&mut fact, json!({"also": also}));
                    extend(&mut audit, json!({"also": also}));
                }
                self.facts.insert(key.to_owned(), json!({"fact": fact, "audit": audit}));
            }
            Outcome::Refused(fault) => self.fail(context, key, ErrorClass::Refused, fault),
            Outcome::Deferred(fault) => {
                let entry = json!({"state": "open", "error": error(ErrorClass::Deferred, fault)});
                self.others.insert(key.to_owned(), json!({"entry": entry, "audit": null}));
            }
            Outcome::Unknown(fault) => {
                let entry =
                    json!({"state": "open", "doubt": true, "error": error(ErrorClass::Unknown, fault)});
                self.others.insert(key.to_owned(), json!({"entry": entry, "audit": null}));
            }
            Outcome::NotImplemented => {
                self.others
                    .insert(key.to_owned(), json!({"entry": {"state": "not_implemented"}, "audit": null}));
                self.happyfox_status = Some("deferred");
            }
        }
    }

    /// Adds a delivery that fails for good.
    pub fn fail(&mut self, context: &SendContext<'_>, key: &str, class: ErrorClass, fault: &Fault) {
        let entry = json!({"state": "failed", "error": error(class, fault)});
        let mut audit = audit(context.attempt, context.generation);
        let mut scrubbed_error = error(class, fault);
        scrub_reply(&mut scrubbed_error);
        extend(&mut audit, json!({"action_order": context.action_order, "error": scrubbed_error}));
        if context.action_type.is_email() {
            let recipient = recipient(key, context.destination);
            let message_id = context.message_id;
            extend(
                &mut audit,
                json!({"recipient": recipient, "message_id": message_id, "queue_id": null, "smtp": null}),
            );
        }
        self.failed(context.action_type, key, &entry, &audit);
    }

    fn failed(&mut self, action_type: ActionType, key: &str, entry: &Value, audit: &Value) {
        let action = if action_type.is_email() { EMAIL_FAILED } else { TICKET_FAILED };
        if !action_type.is_email() {
            self.happyfox_status = Some("failed");
        }
        self.others.insert(key.to_owned(), json!({"entry": entry, "audit": audit, "action": action}));
    }

    /// Fails every delivery still open because attempts ran out; its last error stays beside it.
    #[must_use]
    pub fn exhausted(ledger: &Ledger) -> Self {
        let mut entries = Self::default();
        for (key, delivery) in &ledger.deliveries {
            if delivery.state != super::ledger::DeliveryState::Open {
                continue;
            }
            let order = super::ledger::order_of(key).unwrap_or_default();
            let action = ledger.plan.iter().find(|action| action.action_order == order);
            let destination = action.map_or("", |action| action.destination.as_str());
            let action_type = action.map_or(ActionType::EmailRaw, |action| action.action_type);
            let mut detail = audit(ledger.attempts, ledger.generation(order));
            let reason = FailReason::Exhausted.label();
            extend(
                &mut detail,
                json!({"action_order": order, "error": last_error(delivery), "reason": reason}),
            );
            if action_type.is_email() {
                let (recipient, message_id) = (recipient(key, destination), &delivery.message_id);
                extend(
                    &mut detail,
                    json!({"recipient": recipient, "message_id": message_id, "queue_id": null, "smtp": null}),
                );
            }
            entries.failed(action_type, key, &json!({"state": "failed"}), &detail);
        }
        entries
    }

    /// Whether there is nothing to record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty() && self.others.is_empty()
    }
}

/// Audit detail of a terminal transition.
#[must_use]
pub fn finish_detail(ledger: &Ledger, reason: Option<FailReason>) -> Value {
    let mut detail = audit(ledger.attempts, ledger.latest_generation());
    extend(&mut detail, json!({"reason": reason.map(FailReason::label), "deliveries": ledger.counts()}));
    detail
}

/// Audit detail of a refusal before any claim. `original` is the stored document where it could not be read.
#[must_use]
pub fn refusal_detail(ledger: Option<&Ledger>, reason: FailReason, original: Option<&Value>) -> Value {
    let mut detail = finish_detail(ledger.unwrap_or(&Ledger::default()), Some(reason));
    if let Some(original) = original {
        extend(&mut detail, json!({"original": original}));
    }
    detail
}

fn audit(attempt: u32, generation: u32) -> Value {
    json!({"v": 1, "attempt": attempt, "generation": generation})
}

fn error(class: ErrorClass, fault: &Fault) -> Value {
    let mut value = json!({"class": class, "stage": fault.stage});
    extend(&mut value, json!(fault.reply));
    value
}

fn last_error(delivery: &Delivery) -> Value {
    let mut value = json!(delivery.error);
    scrub_reply(&mut value);
    value
}

fn scrubbed(reply: &Reply) -> Value {
    let mut value = json!(reply);
    scrub_reply(&mut value);
    value
}

fn scrub_reply(value: &mut Value) {
    if let Some(Value::String(text)) = value.get_mut("reply") {
        *text = scrub(text);
    }
}

fn extend(object: &mut Value, with: Value) {
    if let (Value::Object(object), Value::Object(with)) = (object, with) {
        object.extend(with);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::Stage;
    use crate::routing::store::audit_key::AuditKey;

    const CONTEXT: SendContext<'_> = SendContext {
        token: "t",
        nonce: "n",
        attempt: 2,
        action_order: 1,
        action_type: ActionType::EmailRaw,
        generation: 0,
        destination: "",
        message_id: Some("<m@example.org>"),
    };

    fn fault(code: u16, text: &str) -> Fault {
        Fault {
            stage: Stage::Rcpt,
            reply: Reply { code: Some(code), enhanced: None, reply: text.to_owned() },
            about_us: false,
        }
    }

    /// Columns: state written, doubt, audited; the table of the protocol page.
    #[test]
    fn every_outcome_leaves_what_the_protocol_says() {
        let accepted = Outcome::Accepted { reply: Reply::default(), queue_id: Some("4X".to_owned()) };
        let cases = [
            (accepted, true, "accepted", false, true),
            (Outcome::Refused(fault(550, "no")), false, "failed", false, true),
            (Outcome::Deferred(fault(451, "later")), false, "open", false, false),
            (Outcome::Unknown(fault(0, "lost")), false, "open", true, false),
            (Outcome::NotImplemented, false, "not_implemented", false, false),
        ];
        for (outcome, is_fact, state, doubt, audited) in cases {
            let mut entries = Entries::default();
            entries.add(&CONTEXT, "1|a@example.org", &outcome);
            let (kept, inner) = if is_fact { (&entries.facts, "fact") } else { (&entries.others, "entry") };
            let recorded = &kept["1|a@example.org"];
            assert_eq!(recorded[inner]["state"], state, "{outcome:?}");
            assert_eq!(recorded[inner]["doubt"] == true, doubt, "{outcome:?}");
            assert_eq!(recorded["audit"].is_object(), audited, "{outcome:?}");
            assert_eq!(entries.happyfox_status.is_some(), outcome == Outcome::NotImplemented);
        }
    }

    #[test]
    fn no_address_reaches_the_audit_log() {
        let mut entries = Entries::default();
        let refused = Outcome::Refused(fault(550, "5.1.1 <secret@example.org>: no such user"));
        entries.add(&CONTEXT, "1|secret@example.org", &refused);
        let sent = Outcome::Accepted {
            reply: Reply { reply: "secret@example.org ok".to_owned(), ..Reply::default() },
            queue_id: None,
        };
        entries.add(&CONTEXT, "1|secret2@example.org", &sent);
        for recorded in [&entries.others["1|secret@example.org"], &entries.facts["1|secret2@example.org"]] {
            let sealed = AuditKey::default().sealed(&recorded["audit"]);
            assert!(!sealed.to_string().contains("secret"), "{sealed}");
            assert_eq!(sealed["recipient"]["domain"], "example.org");
        }
        let kept = entries.others["1|secret@example.org"]["entry"].to_string();
        assert!(kept.contains("secret@example.org"), "the ledger keeps the reply as it was: {kept}");
    }
}
