//! A submission that fails without a worker: before any claim (protocol §2), or when its claim is taken back (protocol,
//! "Sweep"). Only the write is made here; the caller, under the row's lock, carries it out.
//!
//! Nothing here does I/O: if we die, nothing happened.

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::kernel::Transition;
use crate::routing::submission::ledger::{DeliveryState, FailReason, Ledger, LedgerFault, VERSION};
use crate::routing::submission::outcome::{Entries, refusal_detail};
use crate::routing::table::Submission;

/// A decision turned into what is written.
pub(super) struct Write {
    pub(super) id: Uuid,
    pub(super) transition: Transition<Submission>,
    /// Keys to set.
    pub(super) keys: Value,
    /// Whether the old document is replaced rather than merged.
    pub(super) anew: bool,
    /// Audit rows as `[{action, detail}]`, to be sealed.
    pub(super) audits: Vec<Value>,
}

/// The write of a failure: `failing` leads to `failed`. `token` names this end for its alert. A ledger that cannot be read
/// is replaced; its original goes to the audit detail. Where attempts are spent, open deliveries fail with the submission.
pub(super) fn refusal(
    id: Uuid,
    failing: Transition<Submission>,
    token: &str,
    now: Timestamp,
    reason: FailReason,
    ledger: &Result<Ledger, LedgerFault>,
    stored: &Value,
) -> Write {
    let finished = json!({
        "token": token, "at": now, "status": failing.to().label(), "reason": reason.label(),
    });
    let mut keys = json!({"v": VERSION, "finished": finished});
    let mut audits = Vec::new();
    let (anew, detail) = match ledger {
        Err(_) => (true, refusal_detail(None, reason, Some(stored))),
        Ok(ledger) => {
            let mut ledger = ledger.clone();
            let open = Entries::exhausted(&ledger);
            if reason == FailReason::Exhausted && !open.is_empty() {
                let mut deliveries = stored["deliveries"].clone();
                for (key, failed) in open.others {
                    deliveries[&key]["state"] = failed["entry"]["state"].clone();
                    deliveries[&key]["at"] = json!(now);
                    ledger.deliveries.entry(key).or_default().state = DeliveryState::Failed;
                    audits.push(json!({"action": "email_failed", "detail": failed["audit"]}));
                }
                keys["deliveries"] = deliveries;
            }
            (false, refusal_detail(Some(&ledger), reason, None))
        }
    };
    audits.push(json!({"action": "submission_route_failed", "detail": detail}));
    Write { id, transition: failing, keys, anew, audits }
}
