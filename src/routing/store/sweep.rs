//! The sweep's statements (protocol, "Sweep"): what crashes, lost events and silent scans leave behind, page by page.
//!
//! Each page is one transaction: the advisory lock, the rows' locks, a read, a decision in Rust, one write. Rows that
//! somebody else has locked are skipped and found again. If we die before the commit nothing happened; after it the
//! rows are what their statuses say, and what was not handed on is found again when its time has come. Nothing here
//! touches a claim that is alive, or a row that this version cannot read.

mod sql;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

pub(super) use sql::Statements;

use super::refusal::{Write, refusal};
use super::seams::Override;
use super::stored::Stored;
use super::{Store, sql as mission, view};
use crate::config::Config;
use crate::db::DbError;
use crate::db::pool::Transaction;
use crate::lifecycle::submission::Status;
use crate::routing::decide::{self, ClaimDecision, RowView, StuckDecision};
use crate::routing::ledger::{FailReason, Ledger, VERSION};

/// When the sweep finds what (protocol, "Defaults").
#[derive(Debug, Clone, PartialEq)]
pub struct SweepBounds {
    /// `processing` untouched for this long is taken back.
    pub stuck_after: Duration,
    /// A due retry is left to its event for this long.
    pub due_grace: Duration,
    /// A ready row without an event is an orphan after this long.
    pub orphan_after: Duration,
    /// A row not ready for this long is counted.
    pub unready_alert_after: Duration,
    /// What was created before is left alone.
    pub not_before: Option<Timestamp>,
}

impl From<&Config> for SweepBounds {
    fn from(config: &Config) -> Self {
        let routing = &config.routing;
        Self {
            stuck_after: routing.stuck_after,
            due_grace: routing.due_grace,
            orphan_after: routing.orphan_after,
            unready_alert_after: routing.unready_alert_after,
            not_before: routing.not_before,
        }
    }
}

/// One page of a pass.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// What was done, row by row.
    pub rows: Vec<T>,
    /// Where the next page begins; absent after the last.
    pub next: Option<Uuid>,
}

/// A claim that nobody ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retaken {
    /// The submission.
    pub id: Uuid,
    /// Its form.
    pub form_id: String,
    /// `host/pid` of the worker that had it, where the ledger says so.
    pub worker: Option<String>,
    /// What became of it.
    pub end: RetakenEnd,
}

/// What became of a claim that nobody ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetakenEnd {
    /// `received` again, and due.
    Reset {
        /// Attempts spent now.
        attempts: u32,
        /// The attempt was given back.
        refunded: bool,
        /// Deliveries that are in doubt by this.
        in_doubt: usize,
    },
    /// Failed for good.
    Failed(FailReason),
    /// Left as it is: a newer version wrote it.
    Left,
}

/// A submission found lying, to be claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The submission.
    pub id: Uuid,
    /// Its form.
    pub form_id: String,
}

/// A submission that failed before any claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The submission.
    pub id: Uuid,
    /// Its form.
    pub form_id: String,
    /// Why.
    pub reason: FailReason,
}

/// Submissions that do not become ready.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unready {
    /// How many.
    pub count: u64,
    /// Age of the oldest.
    pub oldest: Duration,
    /// The oldest.
    pub sample: Option<Uuid>,
}

/// What a status holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Depth {
    /// `submissions.status`.
    pub status: Status,
    /// Rows in it.
    pub count: u64,
    /// Age of the oldest: since it was created while it is open, since it was last changed once it has ended.
    pub oldest: Duration,
}

/// What a pass would find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SweepCount {
    /// Claims that nobody ends.
    pub stuck: u64,
    /// Ready submissions that no event has brought back.
    pub orphans: u64,
    /// Submissions waiting with an infected attachment.
    pub infected: u64,
}

/// What an operator's release came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// Taken back, as the sweep would.
    Done(Retaken),
    /// Nobody holds a claim of it.
    NotProcessing(Status),
    /// No such row.
    Unknown,
}

/// A row as the sweep reads it, under its lock.
struct Locked {
    id: Uuid,
    form_id: String,
    status: Status,
    stored: Stored,
    token: Option<String>,
    now: Timestamp,
    finalized: bool,
    pending: i64,
    infected: bool,
}

/// A claim to be taken back, with the token it is fenced by.
struct Takeback {
    token: Option<String>,
    write: Write,
}

impl Store {
    /// Takes back one page of stuck claims, the ids behind `after`; `None` while another sweep is at it. `token` names
    /// the ends among them.
    ///
    /// # Errors
    /// [`DbError`]: nothing is known; what is still stuck is found again.
    pub async fn sweep_stuck(
        &self,
        bounds: &SweepBounds,
        after: Option<Uuid>,
        page: usize,
        token: &str,
    ) -> Result<Option<Page<Retaken>>, DbError> {
        let (untouched, limit) = (bounds.stuck_after.as_secs_f64(), limit(page));
        self.pool
            .transaction("sweep_stuck", async |tx| {
                if !alone(&tx).await? {
                    return Ok(None);
                }
                let lock = tx.prepare_cached(&self.statements.sweep.stuck).await?;
                let locked = tx.query(&lock, &[&untouched, &bounds.not_before, &after, &limit]).await?;
                let ids: Vec<Uuid> = locked.iter().map(|row| row.get("id")).collect();
                let rows = self.take_back(&tx, &ids, token, &self.settings.actor, None).await?;
                Ok(Some(Page { rows, next: next(&ids, page) }))
            })
            .await
    }

    /// Touches and answers up to `room` ready submissions that no event has brought back in time; `None` while another
    /// sweep is at it.
    ///
    /// # Errors
    /// [`DbError`]: what was touched by a commit whose answer was lost is found again in its time.
    pub async fn sweep_orphans(
        &self,
        bounds: &SweepBounds,
        room: usize,
    ) -> Result<Option<Vec<Found>>, DbError> {
        let (grace, orphan) = (bounds.due_grace.as_secs_f64(), bounds.orphan_after.as_secs_f64());
        let limit = limit(room);
        self.pool
            .transaction("sweep_orphans", async |tx| {
                if !alone(&tx).await? {
                    return Ok(None);
                }
                let lock = tx.prepare_cached(&self.statements.sweep.orphans).await?;
                let locked = tx.query(&lock, &[&grace, &orphan, &bounds.not_before, &limit]).await?;
                let ids: Vec<Uuid> = locked.iter().map(|row| row.get("id")).collect();
                let touch = tx.prepare_cached(&self.statements.sweep.touch).await?;
                let touched = tx.query(&touch, &[&ids]).await?;
                let found =
                    |row: &Row| Ok(Found { id: row.try_get("id")?, form_id: row.try_get("form_id")? });
                Ok(Some(touched.iter().map(found).collect::<Result<_, DbError>>()?))
            })
            .await
    }

    /// Fails one page of waiting submissions with an infected attachment, as their claim would; `None` while another
    /// sweep is at it.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn sweep_infected(
        &self,
        bounds: &SweepBounds,
        after: Option<Uuid>,
        page: usize,
        token: &str,
    ) -> Result<Option<Page<Refused>>, DbError> {
        let limit = limit(page);
        self.pool
            .transaction("sweep_infected", async |tx| {
                if !alone(&tx).await? {
                    return Ok(None);
                }
                let lock = tx.prepare_cached(&self.statements.sweep.infected).await?;
                let locked = tx.query(&lock, &[&bounds.not_before, &after, &limit]).await?;
                let ids: Vec<Uuid> = locked.iter().map(|row| row.get("id")).collect();
                let mut rows = Vec::new();
                let mut writes = Vec::new();
                for row in self.read_locked(&tx, &ids).await? {
                    let ledger = row.stored.ledger();
                    let view = RowView {
                        status: row.status,
                        ledger: &ledger,
                        finalized: row.finalized,
                        pending: row.pending,
                        infected: row.infected,
                    };
                    // The claim's own decision; what it would not fail has just been scanned anew.
                    if let ClaimDecision::Fail(reason) =
                        decide::claim(&view, row.now, self.settings.max_attempts)
                    {
                        writes.push(refusal(row.id, token, row.now, reason, &ledger, &row.stored.original()));
                        rows.push(Refused { id: row.id, form_id: row.form_id, reason });
                    }
                }
                if !writes.is_empty() {
                    let written = self.write_received(&tx, &writes).await?;
                    rows.retain(|row| written.contains(&row.id));
                }
                Ok(Some(Page { rows, next: next(&ids, page) }))
            })
            .await
    }

    /// Submissions that are not ready although they should long be. Reads only.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn unready(&self, bounds: &SweepBounds) -> Result<Unready, DbError> {
        let client = self.pool.get().await?;
        let statement = client.prepare_cached(&self.statements.sweep.unready).await?;
        let age = bounds.unready_alert_after.as_secs_f64();
        let row = client.query_one(&statement, &[&age, &bounds.not_before]).await?;
        Ok(Unready {
            count: count(&row, "n")?,
            oldest: age_of(row.try_get("oldest")?),
            sample: row.try_get("sample")?,
        })
    }

    /// How much is where, for the gauges. Reads only.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn depths(&self) -> Result<Vec<Depth>, DbError> {
        let client = self.pool.get().await?;
        let statement = client.prepare_cached(view::COUNTS).await?;
        let mut depths = Vec::new();
        for row in client.query(&statement, &[]).await? {
            if let Some(status) = Status::from_label(row.try_get("status")?) {
                depths.push(Depth {
                    status,
                    count: count(&row, "n")?,
                    oldest: age_of(row.try_get("oldest")?),
                });
            }
        }
        Ok(depths)
    }

    /// What a pass would find now. Reads only.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn sweep_count(&self, bounds: &SweepBounds) -> Result<SweepCount, DbError> {
        let client = self.pool.get().await?;
        let statement = client.prepare_cached(&self.statements.sweep.count).await?;
        let (grace, orphan) = (bounds.due_grace.as_secs_f64(), bounds.orphan_after.as_secs_f64());
        let stuck = bounds.stuck_after.as_secs_f64();
        let row = client.query_one(&statement, &[&grace, &orphan, &bounds.not_before, &stuck]).await?;
        Ok(SweepCount {
            stuck: count(&row, "stuck")?,
            orphans: count(&row, "orphans")?,
            infected: count(&row, "infected")?,
        })
    }

    /// Takes one claim back, however young, because a person says so: the same transition as the sweep's, and the
    /// override stands in the ledger.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn reset(&self, id: Uuid, token: &str, note: Override<'_>) -> Result<Released, DbError> {
        self.pool
            .transaction("reset", async |tx| {
                let lock = tx.prepare_cached(mission::LOCK_ONE).await?;
                tx.query(&lock, &[&id]).await?;
                let Some(row) = self.read_locked(&tx, &[id]).await?.pop() else {
                    return Ok(Released::Unknown);
                };
                if row.status != Status::Processing {
                    return Ok(Released::NotProcessing(row.status));
                }
                let retaken = self.take_back(&tx, &[id], token, note.actor, Some(&note.entry())).await?.pop();
                Ok(retaken.map_or(Released::Unknown, Released::Done))
            })
            .await
    }

    /// Decides about locked rows in `processing` and writes what follows.
    async fn take_back(
        &self,
        tx: &Transaction,
        ids: &[Uuid],
        token: &str,
        actor: &str,
        note: Option<&Value>,
    ) -> Result<Vec<Retaken>, DbError> {
        let (mut retaken, mut writes) = (Vec::new(), Vec::new());
        for row in self.read_locked(tx, ids).await? {
            let (end, write) = self.judge_stuck(&row, token);
            writes.extend(write.map(|write| Takeback { token: row.token.clone(), write }));
            let worker = row.stored.ledger().ok().and_then(|ledger| ledger.claim).map(|claim| claim.worker);
            retaken.push(Retaken { id: row.id, form_id: row.form_id, worker, end });
        }
        let written = write_back(tx, &writes, actor, note).await?;
        retaken.retain(|row| row.end == RetakenEnd::Left || written.contains(&row.id));
        Ok(retaken)
    }

    fn judge_stuck(&self, row: &Locked, token: &str) -> (RetakenEnd, Option<Write>) {
        let ledger = row.stored.ledger();
        let stored = doubted(&ledger, row.stored.original());
        match (decide::stuck(&ledger, row.infected, self.settings.max_attempts), &ledger) {
            (StuckDecision::Leave, _) => (RetakenEnd::Left, None),
            (StuckDecision::Fail(reason), _) => {
                let mut write = refusal(row.id, token, row.now, reason, &ledger, &stored);
                if ledger.is_ok() && write.keys.get("deliveries").is_none() {
                    keep_deliveries(&mut write.keys, &stored);
                }
                (RetakenEnd::Failed(reason), Some(write))
            }
            // What cannot be read is never reset; said for the sake of the compiler.
            (StuckDecision::Reset { .. }, Err(_)) => (RetakenEnd::Left, None),
            (StuckDecision::Reset { refund }, Ok(ledger)) => {
                let attempts = ledger.attempts.saturating_sub(u32::from(refund));
                let in_doubt = decide::perhaps_sent(ledger).count();
                let mut keys = json!({
                    "v": VERSION, "attempts": attempts, "resets": ledger.resets.saturating_add(1),
                    "next_attempt_at": row.now,
                });
                keep_deliveries(&mut keys, &stored);
                let write =
                    Write { id: row.id, status: Status::Received, keys, anew: false, audits: json!([]) };
                (RetakenEnd::Reset { attempts, refunded: refund, in_doubt }, Some(write))
            }
        }
    }

    /// Reads rows that are locked. One that is not as the contract says is left out, and said.
    async fn read_locked(&self, tx: &Transaction, ids: &[Uuid]) -> Result<Vec<Locked>, DbError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let read = tx.prepare_cached(&self.statements.sweep.read).await?;
        let rows = tx.query(&read, &[&ids]).await?;
        let locked = rows.iter().filter_map(|row| match Locked::of(row) {
            Ok(locked) => Some(locked),
            Err(error) => {
                tracing::error!("the sweep leaves a row alone that it cannot read: {error}");
                None
            }
        });
        Ok(locked.collect())
    }
}

impl Locked {
    fn of(row: &Row) -> Result<Self, DbError> {
        let label: String = row.try_get("status")?;
        let status = Status::from_label(&label)
            .ok_or_else(|| DbError::Shape(format!("submissions.status {label:?} is not known here")))?;
        Ok(Self {
            id: row.try_get("id")?,
            form_id: row.try_get::<_, Option<String>>("form_id")?.unwrap_or_default(),
            status,
            stored: row.try_get("routing_result")?,
            token: row.try_get("token")?,
            now: row.try_get("now")?,
            finalized: row.try_get("finalized")?,
            pending: row.try_get("pending")?,
            infected: row.try_get("infected")?,
        })
    }
}

/// The document with every delivery that is perhaps sent marked as such: its begin mark becomes doubt.
fn doubted(ledger: &Result<Ledger, crate::routing::ledger::LedgerFault>, mut stored: Value) -> Value {
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
    actor: &str,
    note: Option<&Value>,
) -> Result<Vec<Uuid>, DbError> {
    if writes.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Uuid> = writes.iter().map(|w| w.write.id).collect();
    let tokens: Vec<Option<&str>> = writes.iter().map(|w| w.token.as_deref()).collect();
    let statuses: Vec<&str> = writes.iter().map(|w| w.write.status.label()).collect();
    let keys: Vec<&Value> = writes.iter().map(|w| &w.write.keys).collect();
    let anew: Vec<bool> = writes.iter().map(|w| w.write.anew).collect();
    let audits: Vec<&Value> = writes.iter().map(|w| &w.write.audits).collect();
    let statement = tx.prepare_cached(sql::WRITE).await?;
    let written =
        tx.query(&statement, &[&ids, &tokens, &statuses, &keys, &anew, &audits, &actor, &note]).await?;
    Ok(written.iter().map(|row| row.get("id")).collect())
}

async fn alone(tx: &Transaction) -> Result<bool, DbError> {
    let statement = tx.prepare_cached(sql::ALONE).await?;
    Ok(tx.query_one(&statement, &[]).await?.try_get("alone")?)
}

/// Where the next page begins: nowhere, when this one was not full.
fn next(ids: &[Uuid], page: usize) -> Option<Uuid> {
    ids.last().copied().filter(|_| ids.len() >= page)
}

fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

fn count(row: &Row, column: &str) -> Result<u64, DbError> {
    Ok(u64::try_from(row.try_get::<_, i64>(column)?).unwrap_or_default())
}

/// An age in seconds; one that lies in the future, or none, is zero.
fn age_of(seconds: Option<f64>) -> Duration {
    Duration::try_from_secs_f64(seconds.unwrap_or_default().max(0.0)).unwrap_or_default()
}
