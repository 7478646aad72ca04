//! Taking a claim back from a worker that is gone: the sweep's reset, and the operator's (protocol, "Crash, doubt, stop,
//! replay").
//!
//! Every write here happens under the row's lock and is fenced by the token that was read under it; the end of a claim and
//! its audit rows are one statement. If we die before the commit nothing happened.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_postgres::types::Json;
use uuid::Uuid;

use super::super::overrides::Override;
use super::super::refusal::{Write, refusal};
use super::super::{MISSING, Store};
use super::{Locked, all_took, sql};
use crate::db::DbError;
use crate::db::pool::Transaction;
use crate::kernel::{NotPossible, Transition, Who};
use crate::routing::decide::{self, StuckDecision};
use crate::routing::store::audit_key::AuditKey;
use crate::routing::submission::ledger::{FailReason, Ledger, LedgerFault, VERSION};
use crate::routing::table::{Command, Status};

/// A claim that no worker ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retaken {
    /// The submission.
    pub id: Uuid,
    /// The submission's form.
    pub form_id: String,
    /// `host/pid` of the worker that had the claim, where the ledger says so.
    pub worker: Option<String>,
    /// The outcome of the takeback.
    pub end: RetakenEnd,
    /// Time for which people waited for a submission that has failed by this, where that is known.
    pub waited: Option<Duration>,
}

/// The outcome of taking a claim back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetakenEnd {
    /// `received` again, and due.
    Reset {
        /// Attempts spent now.
        attempts: u32,
        /// Whether the attempt was given back.
        refunded: bool,
        /// Deliveries that are in doubt by this.
        in_doubt: usize,
    },
    /// The submission failed for good.
    Failed(FailReason),
    /// The row is left as it is: a newer version wrote it.
    Left,
}

/// The outcome of an operator's release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// The claim is taken back, as by the sweep.
    Done(Retaken),
    /// The submission has no claim to take back.
    NotProcessing(Status),
    /// No row has this id.
    Unknown,
}

impl Released {
    /// Why the claim stays as it is, in words for people.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        match self {
            Self::Unknown => Some(MISSING.to_owned()),
            Self::NotProcessing(status) => Some(not_processing(*status)),
            Self::Done(Retaken { end: RetakenEnd::Left, .. }) => Some(
                "a newer version of this program wrote its ledger: upgrade this host, or release it there"
                    .to_owned(),
            ),
            Self::Done(_) => None,
        }
    }
}

fn not_processing(status: Status) -> String {
    let follows = match status {
        Status::Received => "nobody holds a claim of it; `maple-router publish ID` has it looked at",
        Status::Routed | Status::Failed => {
            "it has ended; `maple-router replay ID --reason TEXT` routes it again"
        }
        Status::Purged => "retention has emptied it",
        Status::Processing => "its claim has just changed hands",
    };
    format!("it is {status}, not processing: {follows}")
}

/// A claim to be taken back, with the token it is fenced by.
struct Takeback {
    token: Option<String>,
    write: Write,
}

impl Store {
    /// Takes one claim back, however young, because a person says so: the same transition as the sweep's, and the override
    /// stands in the ledger.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn reset(&self, id: Uuid, token: &str, note: Override<'_>) -> Result<Released, DbError> {
        self.pool.transaction("reset", async |tx| self.reset_in(&tx, id, token, note).await).await
    }

    /// [`Self::reset`] in the caller's transaction: its commit decides whether it stands.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn reset_in(
        &self,
        tx: &Transaction,
        id: Uuid,
        token: &str,
        note: Override<'_>,
    ) -> Result<Released, DbError> {
        self.lock_in(tx, id).await?;
        let Some(row) = self.read_locked(tx, &[id]).await?.pop() else {
            return Ok(Released::Unknown);
        };
        if row.status != Status::Processing {
            return Ok(Released::NotProcessing(row.status));
        }
        let by = (Who::OPERATOR, note.actor);
        let retaken = self.take_back(tx, &[id], token, by, Some(&note.entry())).await?.pop();
        Ok(retaken.map_or(Released::Unknown, Released::Done))
    }

    /// Decides about locked rows in `processing` and writes what follows.
    pub(super) async fn take_back(
        &self,
        tx: &Transaction,
        ids: &[Uuid],
        token: &str,
        (by, actor): (Who, &str),
        note: Option<&Value>,
    ) -> Result<Vec<Retaken>, DbError> {
        let (mut retaken, mut writes) = (Vec::new(), Vec::new());
        for row in self.read_locked(tx, ids).await? {
            let (end, write) = self.judge_stuck(&row, token, by)?;
            writes.extend(write.map(|write| Takeback { token: row.token.clone(), write }));
            let worker = row.stored.ledger().ok().and_then(|ledger| ledger.claim).map(|claim| claim.worker);
            // An infected submission was never ready.
            let waited = match &end {
                RetakenEnd::Failed(FailReason::Infected) | RetakenEnd::Reset { .. } | RetakenEnd::Left => {
                    None
                }
                RetakenEnd::Failed(_) => row.waiting.until(row.now, None),
            };
            retaken.push(Retaken { id: row.id, form_id: row.form_id, worker, end, waited });
        }
        let written = write_back(tx, &writes, &self.settings.audit, actor, note).await?;
        all_took(writes.len(), written)?;
        Ok(retaken)
    }

    fn judge_stuck(
        &self,
        row: &Locked,
        token: &str,
        by: Who,
    ) -> Result<(RetakenEnd, Option<Write>), NotPossible> {
        let ledger = row.stored.ledger();
        let stored = doubted(&ledger, row.stored.original());
        let transition = |command| Transition::of(row.status, command, by);
        Ok(match (decide::stuck(&ledger, row.infected, self.settings.max_attempts), &ledger) {
            (StuckDecision::Leave, _) => (RetakenEnd::Left, None),
            (StuckDecision::Fail(reason), _) => {
                let failing = transition(Command::FinishFailed)?;
                let mut write = refusal(row.id, failing, token, row.now, reason, &ledger, &stored);
                if ledger.is_ok() && write.keys.get("deliveries").is_none() {
                    keep_deliveries(&mut write.keys, &stored);
                }
                (RetakenEnd::Failed(reason), Some(write))
            }
            // A ledger that cannot be read is never reset; the arm is for the compiler.
            (StuckDecision::Reset { .. }, Err(_)) => (RetakenEnd::Left, None),
            (StuckDecision::Reset { refund }, Ok(ledger)) => {
                let attempts = ledger.attempts.saturating_sub(u32::from(refund));
                let in_doubt = decide::perhaps_sent(ledger).count();
                let mut keys = json!({
                    "v": VERSION, "attempts": attempts, "resets": ledger.resets.saturating_add(1),
                    "next_attempt_at": row.now,
                });
                keep_deliveries(&mut keys, &stored);
                let transition = transition(Command::Reset)?;
                let write = Write { id: row.id, transition, keys, anew: false, audits: Vec::new() };
                (RetakenEnd::Reset { attempts, refunded: refund, in_doubt }, Some(write))
            }
        })
    }
}

/// The document, with doubt in place of the intent of every delivery that is perhaps sent.
fn doubted(ledger: &Result<Ledger, LedgerFault>, mut stored: Value) -> Value {
    let Ok(ledger) = ledger else { return stored };
    for key in decide::perhaps_sent(ledger) {
        if let Some(Value::Object(delivery)) = stored["deliveries"].get_mut(key) {
            delivery.remove("begun");
            delivery.insert("doubt".to_owned(), Value::Bool(true));
        }
    }
    stored
}

fn keep_deliveries(keys: &mut Value, stored: &Value) {
    if let Some(deliveries) = stored.get("deliveries") {
        keys["deliveries"] = deliveries.clone();
    }
}

async fn write_back(
    tx: &Transaction,
    writes: &[Takeback],
    key: &AuditKey,
    actor: &str,
    note: Option<&Value>,
) -> Result<usize, DbError> {
    if writes.is_empty() {
        return Ok(0);
    }
    let ids: Vec<Uuid> = writes.iter().map(|w| w.write.id).collect();
    let tokens: Vec<Option<&str>> = writes.iter().map(|w| w.token.as_deref()).collect();
    let statuses: Vec<&str> = writes.iter().map(|w| w.write.transition.to().label()).collect();
    let keys: Vec<&Value> = writes.iter().map(|w| &w.write.keys).collect();
    let anew: Vec<bool> = writes.iter().map(|w| w.write.anew).collect();
    let audits: Vec<_> = writes.iter().map(|w| Json(key.sealed_rows(&w.write.audits))).collect();
    let statement = tx.prepare_cached(sql::WRITE).await?;
    let written =
        tx.query(&statement, &[&ids, &tokens, &statuses, &keys, &anew, &audits, &actor, &note]).await?;
    Ok(written.len())
}
