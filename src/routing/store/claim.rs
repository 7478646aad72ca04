//! Claim (protocol §2): one transaction for a batch. Lock, read, decide in Rust, write, commit.
//!
//! If we die before the commit nothing happened; after it the rows stay `processing` until the sweep takes them back.
//! The token is minted by the worker: a commit whose answer was lost is recognised when the claim is repeated.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio_postgres::Row;
use tokio_postgres::types::Json;
use uuid::Uuid;

use super::dossier::Dossier;
use super::refusal::{Write, refusal};
use super::stored::Stored;
use super::sweep::all_took;
use super::{Store, seen, shown, sql};
use crate::db::DbError;
use crate::db::batch::{Batch, divided};
use crate::db::pool::Transaction;
use crate::kernel::{Transition, Who};
use crate::routing::decide::{self, ClaimDecision, DropReason, NackReason, RowView};
use crate::routing::expand;
use crate::routing::lag::Waiting;
use crate::routing::ledger::{ClaimMark, Delivery, DeliveryState, FailReason, Ledger, VERSION};
use crate::routing::plan::PlannedAction;
use crate::routing::table::{Command, Status};

/// One submission to be claimed, with the token the claim shall have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The submission.
    pub id: Uuid,
    /// Minted by the worker; keep it when the claim is repeated after a fault.
    pub token: String,
}

/// Whose first mail is begun with the claim, because a place is kept for it and the relay is fast (`routing::unrecorded`).
#[derive(Debug, Clone, Default)]
pub struct Ahead {
    /// The submissions.
    pub ids: BTreeSet<Uuid>,
    /// What of the relay's log was read by then.
    pub log_mark: Option<String>,
}

/// What became of a request.
#[derive(Debug)]
pub enum Claimed {
    /// It is ours.
    Taken(Box<TakenRow>),
    /// Nothing to do: ack.
    Dropped(DropReason),
    /// Due at this instant, soon: hold the event and look again. `now` is the database's.
    Held {
        /// When it is due.
        due: Timestamp,
        /// When that was read.
        now: Timestamp,
    },
    /// Somebody else has the row locked at this moment: look again soon.
    Busy,
    /// Give the event back.
    Nacked(NackReason),
    /// It has just failed without being claimed; an alert follows from the row.
    Failed {
        /// Its form.
        form_id: String,
        /// Why.
        reason: FailReason,
        /// How long it waited.
        waiting: Waiting,
        /// When that ended.
        at: Timestamp,
    },
}

/// A row that is now claimed.
#[derive(Debug)]
pub struct TakenRow {
    /// Its form.
    pub form_id: String,
    /// The ledger as it was written, but for the marks of what is in `begun`.
    pub ledger: Ledger,
    /// The claim's token.
    pub token: String,
    /// How long the claim lives, by the database's clock, from the moment it was read.
    pub lives: Duration,
    /// Since when it waits.
    pub waiting: Waiting,
    /// What its mails are made from; absent where it could not be read, which whoever needs it hears.
    pub dossier: Option<Dossier>,
    /// Deliveries of its first mail that are begun with the claim; none: it is to be begun.
    pub begun: Vec<String>,
}

impl Store {
    /// Claims what can be claimed and says of every request what became of it.
    ///
    /// # Errors
    /// [`DbError`]: nothing is known; repeat with the same tokens. [`DbError::Hidden`]: nothing is claimed, or failed, as long
    /// as attachments may be hidden.
    pub async fn claim(&self, requests: &[ClaimRequest]) -> Result<HashMap<Uuid, Claimed>, DbError> {
        self.claim_and_begin(requests, &Ahead::default()).await
    }

    /// [`Self::claim_and_begin`], each but for those whose rows refuse their claims.
    pub async fn claim_each(
        &self,
        requests: &[ClaimRequest],
        ahead: &Ahead,
    ) -> Batch<usize, HashMap<Uuid, Claimed>> {
        let all: Vec<usize> = (0..requests.len()).collect();
        divided(&all, |part| async move {
            let part: Vec<ClaimRequest> = part.iter().filter_map(|at| requests.get(*at).cloned()).collect();
            self.claim_and_begin(&part, ahead).await
        })
        .await
    }

    /// [`Self::claim`]; of those in `ahead` the first mail is begun with the claim, if it has no attachment: those have to be
    /// linked first, and to be clean when it is begun.
    ///
    /// # Errors
    /// Those of [`Self::claim`].
    pub async fn claim_and_begin(
        &self,
        requests: &[ClaimRequest],
        ahead: &Ahead,
    ) -> Result<HashMap<Uuid, Claimed>, DbError> {
        let ids: Vec<Uuid> = requests.iter().map(|request| request.id).collect();
        self.pool
            .keyed_transaction("claim", async |tx| {
                let lock = tx.prepare_cached(sql::LOCK_MANY).await?;
                let read = tx.prepare_cached(&self.statements.claim_read).await?;
                let (locked, rows) = futures::future::try_join(
                    tx.query(&lock, &[&ids]),
                    tx.query(&read, &[&ids, &self.settings.pin_bodies]),
                )
                .await?;
                seen(&rows)?;
                if rows.len() < ids.len() {
                    shown(&tx).await?;
                }
                let locked: HashSet<Uuid> = locked.iter().map(|row| row.get("id")).collect();
                let found: HashMap<Uuid, &Row> = rows.iter().map(|row| (row.get("id"), row)).collect();
                let mut answers = HashMap::with_capacity(requests.len());
                let mut writes = Vec::new();
                for request in requests {
                    let (answer, write) = match found.get(&request.id) {
                        Some(row) if locked.contains(&request.id) => {
                            self.judge(request, row, ahead).unwrap_or_else(|error| {
                                tracing::error!(submission_id = %request.id, "{error}");
                                (Claimed::Nacked(NackReason::UnreadableRow), None)
                            })
                        }
                        Some(_) => (Claimed::Busy, None),
                        None => (Claimed::Nacked(NackReason::UnknownSubmission), None),
                    };
                    answers.insert(request.id, answer);
                    writes.extend(write);
                }
                if !writes.is_empty() {
                    let written = self.write_received(&tx, &writes).await?;
                    all_took(writes.len(), written.len())?;
                }
                Ok(answers)
            })
            .await
    }

    /// Decides about one locked row.
    fn judge(
        &self,
        request: &ClaimRequest,
        row: &Row,
        ahead: &Ahead,
    ) -> Result<(Claimed, Option<Write>), DbError> {
        let stored: Stored = row.try_get("routing_result")?;
        let now: Timestamp = row.try_get("now")?;
        let form_id: String = row.try_get::<_, Option<String>>("form_id")?.unwrap_or_default();
        let label: String = row.try_get("status")?;
        let Some(status) = Status::parse(&label) else {
            return Ok((Claimed::Nacked(NackReason::NewerLedger), None));
        };
        let ledger = stored.ledger();
        // What cannot be read here is only not measured.
        let time = |column| row.try_get::<_, Option<Timestamp>>(column).ok().flatten();
        let waiting = Waiting::of(time("ready_at"), time("created_at"), &ledger);
        if let Ok(own) = &ledger
            && status == Status::Processing
            && own.is_claimed_by(&request.token)
        {
            // Our own commit, whose answer was lost.
            let deadline = own.claim.as_ref().map_or(now, |claim| claim.deadline);
            let lives = Duration::try_from(deadline.duration_since(now)).unwrap_or_default();
            let (token, ledger) = (request.token.clone(), own.clone());
            let taken = TakenRow { form_id, ledger, token, lives, waiting, dossier: None, begun: Vec::new() };
            return Ok((Claimed::Taken(Box::new(taken)), None));
        }
        if let Ok(Ledger { finished: Some(finished), .. }) = &ledger
            && let Some(reason) = finished.reason
            && finished.token.as_ref() == Some(&request.token)
        {
            return Ok((Claimed::Failed { form_id, reason, waiting, at: finished.at }, None));
        }
        let view = RowView {
            status,
            ledger: &ledger,
            finalized: row.try_get("finalized")?,
            pending: row.try_get("pending")?,
            infected: row.try_get("infected")?,
            touched: row.try_get("touched")?,
            longest_pause: self.settings.longest_pause,
        };
        let pauses = self.pauses();
        let open = match &ledger {
            Ok(ledger) if pauses.iter().next().is_some() => self.open_keys(ledger, row)?,
            Ok(_) | Err(_) => Vec::new(),
        };
        let max = self.settings.max_attempts;
        Ok(match decide::claim_unless_paused(&view, now, max, &form_id, &open, &pauses) {
            ClaimDecision::Drop(why) => (Claimed::Dropped(why), None),
            ClaimDecision::Hold(due) => (Claimed::Held { due, now }, None),
            ClaimDecision::Nack(why) => (Claimed::Nacked(why), None),
            ClaimDecision::Fail(reason) => {
                let failing = Transition::of(status, Command::Refuse, Who::WORKER)?;
                let write =
                    refusal(request.id, failing, &request.token, now, reason, &ledger, &stored.original());
                (Claimed::Failed { form_id, reason, waiting, at: now }, Some(write))
            }
            ClaimDecision::Take => {
                let ledger = ledger.unwrap_or_default();
                let mut current = Vec::new();
                if ledger.plan.is_empty() {
                    let configured: Value = row.try_get("plan")?;
                    match serde_json::from_value::<Vec<PlannedAction>>(configured) {
                        Ok(actions) => current = actions,
                        Err(_) => return Ok((Claimed::Nacked(NackReason::UnknownActionType), None)),
                    }
                }
                let (mut keys, ledger) = self.take(request, now, &stored.original(), ledger, current);
                let lives = self.settings.claim_deadline;
                let (token, dossier) = (request.token.clone(), Dossier::of(row).ok());
                let mut begun = Vec::new();
                if ahead.ids.contains(&request.id)
                    && dossier.as_ref().is_some_and(|dossier| dossier.attachments.is_empty())
                {
                    begun = decide::first_mail(&ledger, &token);
                    begun.retain(|key| pauses.of_delivery(key).is_none());
                }
                for key in &begun {
                    keys["deliveries"][key]["begun"] = json!({"token": token, "at": now});
                    keys["deliveries"][key]["log_mark"] = json!(ahead.log_mark);
                }
                let taken = TakenRow { form_id, ledger, token, lives, waiting, dossier, begun };
                let write = Write {
                    id: request.id,
                    transition: Transition::of(status, Command::Claim, Who::WORKER)?,
                    keys,
                    anew: false,
                    audits: Vec::new(),
                };
                (Claimed::Taken(Box::new(taken)), Some(write))
            }
        })
    }

    /// Keys of the deliveries that are open, or would be after a claim.
    fn open_keys(&self, ledger: &Ledger, row: &Row) -> Result<Vec<String>, DbError> {
        let open = ledger.deliveries.iter().filter(|(_, delivery)| delivery.state == DeliveryState::Open);
        let mut keys: Vec<String> = open.map(|(key, _)| key.clone()).collect();
        let configured: Option<Value> = row.try_get("plan")?;
        let plan = match configured {
            Some(configured) if ledger.plan.is_empty() => {
                serde_json::from_value::<Vec<PlannedAction>>(configured).unwrap_or_default()
            }
            Some(_) | None => ledger.plan.clone(),
        };
        let missing = expand::missing_deliveries(ledger, &plan, self.settings.max_recipients);
        keys.extend(missing.into_iter().map(|(key, _)| key));
        Ok(keys)
    }

    /// The ledger keys of a claim, and the ledger as it will stand.
    fn take(
        &self,
        request: &ClaimRequest,
        now: Timestamp,
        stored: &Value,
        mut ledger: Ledger,
        current: Vec<PlannedAction>,
    ) -> (Value, Ledger) {
        let plan = if ledger.plan.is_empty() { current } else { ledger.plan.clone() };
        let missing = expand::missing_deliveries(&ledger, &plan, self.settings.max_recipients);
        ledger.plan = plan;
        let deadline = now.checked_add(self.settings.claim_deadline).unwrap_or(Timestamp::MAX);
        let claim = ClaimMark {
            token: request.token.clone(),
            worker: self.settings.worker.clone(),
            at: now,
            deadline,
        };
        // Everything accepted but not finished may be claimed once more when no attempts are left (protocol §6).
        ledger.attempts = (ledger.attempts + 1).min(self.settings.max_attempts);
        let mut deliveries = match stored.get("deliveries") {
            Some(Value::Object(known)) => known.clone(),
            Some(_) | None => Map::new(),
        };
        for (key, entry) in missing {
            ledger.deliveries.insert(key.clone(), Delivery::default());
            deliveries.insert(key, entry);
        }
        let mut keys = json!({
            "v": VERSION, "attempts": ledger.attempts, "resets": ledger.resets,
            "claim": claim, "deliveries": deliveries,
        });
        if !ledger.plan.is_empty() && stored.get("plan").is_none_or(|plan| plan == &json!([])) {
            keys["plan"] = json!(ledger.plan);
        }
        ledger.claim = Some(claim);
        ledger.next_attempt_at = None;
        (keys, ledger)
    }

    /// Writes what was decided about `received` rows; answers the ids it has written.
    pub(super) async fn write_received(
        &self,
        tx: &Transaction,
        writes: &[Write],
    ) -> Result<Vec<Uuid>, DbError> {
        let ids: Vec<Uuid> = writes.iter().map(|w| w.id).collect();
        let statuses: Vec<&str> = writes.iter().map(|w| w.transition.to().label()).collect();
        let keys: Vec<&Value> = writes.iter().map(|w| &w.keys).collect();
        let anew: Vec<bool> = writes.iter().map(|w| w.anew).collect();
        let sealed = |w: &Write| Json(self.settings.audit.sealed_rows(&w.audits));
        let audits: Vec<_> = writes.iter().map(sealed).collect();
        let statement = tx.prepare_cached(sql::CLAIM_WRITE).await?;
        let written =
            tx.query(&statement, &[&ids, &statuses, &keys, &anew, &audits, &self.settings.actor]).await?;
        Ok(written.iter().map(|row| row.get("id")).collect())
    }
}
