//! Claim (protocol §2): one transaction for a batch. Lock, read, decide in Rust, write, commit.
//!
//! If we die before the commit nothing happened; after it the rows stay `processing` until the sweep takes them back. The
//! worker mints the token: a commit whose answer was lost is recognised when the claim is repeated.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio_postgres::Row;
use tokio_postgres::types::Json;
use uuid::Uuid;

use super::content::content;
use super::refusal::{Write, refusal};
use super::stored::Stored;
use super::sweep::all_took;
use super::{Store, seen, shown, sql, versions};
use crate::db::DbError;
use crate::db::batch::{Batch, divided};
use crate::db::pool::Transaction;
use crate::kernel::rows::word_in;
use crate::kernel::{Transition, Who};
use crate::routing::claims::TakenRow;
use crate::routing::decide::{self, ClaimDecision, DropReason, NackReason, RowView};
use crate::routing::submission::expand;
use crate::routing::submission::lag::Waiting;
use crate::routing::submission::ledger::{ClaimEntry, Delivery, DeliveryState, FailReason, Ledger, VERSION};
use crate::routing::submission::plan::PlannedAction;
use crate::routing::submission::version::FormVersion;
use crate::routing::table::{Command, Status};

/// One submission to be claimed, with the token the claim shall have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The submission.
    pub id: Uuid,
    /// The claim's token, minted by the worker; a claim repeated after a fault keeps it.
    pub token: String,
}

/// Submissions whose claim records an intent too: a permit is reserved, the relay fast (`routing::in_doubt_permits`).
#[derive(Debug, Clone, Default)]
pub struct Ahead {
    /// The submissions.
    pub ids: BTreeSet<Uuid>,
    /// Position up to which the relay's log was read by then.
    pub log_position: Option<String>,
}

/// The outcome of a request.
#[derive(Debug)]
pub enum Claimed {
    /// The submission is claimed, by this token.
    Taken(Box<TakenRow>),
    /// Nothing is to be done: ack the event.
    Dropped(DropReason),
    /// The submission is due at `due`, soon: defer the event and look again. `now` is the database's.
    NotDue {
        /// When the submission is due.
        due: Timestamp,
        /// When `due` was read.
        now: Timestamp,
    },
    /// Another transaction has locked the row at this moment: look again soon.
    Busy,
    /// The event is to be given back.
    Nacked(NackReason),
    /// The submission has just failed without being claimed; an alert follows from the row.
    Failed {
        /// The submission's form.
        form_id: String,
        /// Why the submission failed.
        reason: FailReason,
        /// Time for which the submission waited.
        waiting: Waiting,
        /// When the submission failed, by the database.
        at: Timestamp,
    },
}

impl Store {
    /// Claims what can be claimed and answers the outcome of every request.
    ///
    /// # Errors
    /// [`DbError`]: nothing is known; repeat with the same tokens. [`DbError::Hidden`]: nothing is claimed, or failed, as
    /// long as attachments may be hidden.
    pub async fn claim(&self, requests: &[ClaimRequest]) -> Result<HashMap<Uuid, Claimed>, DbError> {
        self.claim_and_begin(requests, &Ahead::default()).await
    }

    /// [`Self::claim_and_begin`], in parts: a row that refuses its claim keeps no other from its own.
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

    /// [`Self::claim`]; a submission in `ahead` has its first mail's intent recorded with the claim, unless the mail has
    /// attachments: links come first, and the attachments must be clean when the intent is recorded.
    ///
    /// # Errors
    /// The errors of [`Self::claim`].
    pub async fn claim_and_begin(
        &self,
        requests: &[ClaimRequest],
        ahead: &Ahead,
    ) -> Result<HashMap<Uuid, Claimed>, DbError> {
        // The schema of versions may have just gone; whether it is there is asked anew. What the database refuses all the
        // same may be of a schema that is not ours: routing does without.
        for _ in 0..2 {
            let named = AtomicBool::new(false);
            match self.claim_reading(requests, ahead, Some(&named)).await {
                Err(error) if named.load(Ordering::Relaxed) && versions::may_be_theirs(&error) => {
                    self.versions.set(false);
                    tracing::warn!("a claim that reads the versions of forms is repeated: {error}");
                }
                answered => return answered,
            }
        }
        self.claim_reading(requests, ahead, None).await
    }

    /// Claims. Reads the version of each plan where there are any, and notes in `named` that their tables were named; without
    /// `named` reads none.
    async fn claim_reading(
        &self,
        requests: &[ClaimRequest],
        ahead: &Ahead,
        named: Option<&AtomicBool>,
    ) -> Result<HashMap<Uuid, Claimed>, DbError> {
        let ids: Vec<Uuid> = requests.iter().map(|request| request.id).collect();
        let texts = &self.statements.claim_read;
        self.pool
            .keyed_transaction("claim", async |tx| {
                let versioned = named.filter(|_| self.versions.are_there());
                if let Some(named) = versioned {
                    named.store(true, Ordering::Relaxed);
                }
                let text = if versioned.is_some() { &texts.versioned } else { &texts.plain };
                let lock = tx.prepare_cached(sql::LOCK_MANY).await?;
                let read = tx.prepare_cached(text).await?;
                let (locked, mut rows) = futures::future::try_join(
                    tx.query(&lock, &[&ids]),
                    tx.query(&read, &[&ids, &self.settings.pin_bodies]),
                )
                .await?;
                let there = rows.first().map(|row| row.try_get("versions")).transpose()?.unwrap_or(false);
                if let (Some(named), None, true) = (named, versioned, there) {
                    // For the first time: the rows are locked, and are read once more.
                    named.store(true, Ordering::Relaxed);
                    let read = tx.prepare_cached(&texts.versioned).await?;
                    rows = tx.query(&read, &[&ids, &self.settings.pin_bodies]).await?;
                    self.versions.set(true);
                }
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
        // A time that cannot be read here is only not measured.
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
            let taken =
                TakenRow { form_id, ledger, token, lives, waiting, content: None, intents: Vec::new() };
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
            gate: word_in(row, "submissions", "gate")?,
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
            ClaimDecision::Defer(due) => (Claimed::NotDue { due, now }, None),
            ClaimDecision::Nack(why) => (Claimed::Nacked(why), None),
            ClaimDecision::Fail(reason) => {
                let failing = Transition::of(status, Command::Refuse, Who::WORKER)?;
                let write =
                    refusal(request.id, failing, &request.token, now, reason, &ledger, &stored.original());
                (Claimed::Failed { form_id, reason, waiting, at: now }, Some(write))
            }
            ClaimDecision::Take => {
                let ledger = ledger.unwrap_or_default();
                let (mut current, mut version) = (Vec::new(), None);
                if ledger.plan.is_empty() {
                    version = versions::version(row)?;
                    let configured: Value = row.try_get("plan")?;
                    match serde_json::from_value::<Vec<PlannedAction>>(configured) {
                        Ok(actions) => current = actions,
                        Err(_) => return Ok((Claimed::Nacked(NackReason::UnknownActionType), None)),
                    }
                }
                let (mut keys, ledger) =
                    self.take(request, now, &stored.original(), ledger, (current, version));
                let lives = self.settings.claim_deadline;
                let (token, content) = (request.token.clone(), content(row).ok());
                let mut intents = Vec::new();
                if ahead.ids.contains(&request.id)
                    && content.as_ref().is_some_and(|content| content.attachments.is_empty())
                {
                    intents = decide::first_mail(&ledger, &token);
                    intents.retain(|key| pauses.of_delivery(key).is_none());
                }
                for key in &intents {
                    keys["deliveries"][key]["begun"] = json!({"token": token, "at": now});
                    keys["deliveries"][key]["log_mark"] = json!(ahead.log_position);
                }
                let taken = TakenRow { form_id, ledger, token, lives, waiting, content, intents };
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
        let missing = expand::missing_deliveries(ledger, &plan, self.settings.expansion);
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
        (current, version): (Vec<PlannedAction>, Option<FormVersion>),
    ) -> (Value, Ledger) {
        let plan = if ledger.plan.is_empty() { current } else { ledger.plan.clone() };
        let missing = expand::missing_deliveries(&ledger, &plan, self.settings.expansion);
        ledger.plan = plan;
        let deadline = now.checked_add(self.settings.claim_deadline).unwrap_or(Timestamp::MAX);
        let claim = ClaimEntry {
            token: request.token.clone(),
            worker: self.settings.worker.clone(),
            at: now,
            deadline,
        };
        // A submission accepted but not finished may be claimed once more when no attempts are left (protocol §6).
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
            if let Some(version) = &version {
                keys["version"] = json!(version);
            }
            ledger.version = version.into();
        }
        ledger.claim = Some(claim);
        ledger.next_attempt_at = None;
        (keys, ledger)
    }

    /// Writes what was decided about `received` rows; answers the ids of the rows written.
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
