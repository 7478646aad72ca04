//! The sweep's statements (protocol, "Sweep"): what crashes, lost events and silent scans leave behind, page by page.
//!
//! A page is found, then written by one transaction: the advisory lock, the rows' locks, a read, a decision in Rust, one
//! write; where a row refuses it, by halves. Rows that another transaction has locked are skipped and found again. If we die
//! before the commit nothing happened; after it the rows are what their statuses say, and a row not handed on is found again
//! when its time has come. Nothing here touches a claim that is alive, or a row that this version cannot read.

mod depths;
mod sql;
mod takeback;

use std::sync::PoisonError;
use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

pub use depths::{Depth, SweepCount, Unready};
pub(super) use sql::Statements;
pub use takeback::{Released, Retaken, RetakenEnd};

use super::refusal::refusal;
use super::stored::Stored;
use super::{Store, seen, sql as mission};
use crate::config::Config;
use crate::db::DbError;
use crate::db::batch::{Batch, Refused, divided};
use crate::db::pool::Transaction;
use crate::kernel::rows::word_in;
use crate::kernel::{Transition, Who};
use crate::routing::decide::{self, ClaimDecision, RowView};
use crate::routing::submission::lag::Waiting;
use crate::routing::submission::ledger::FailReason;
use crate::routing::submission::screening::Gate;
use crate::routing::table::{Command, Status};

/// When the sweep finds what (protocol, "Defaults").
#[derive(Debug, Clone, PartialEq)]
pub struct SweepBounds {
    /// A `processing` row untouched for this long is taken back.
    pub stuck_after: Duration,
    /// A due retry is left to its event for this long.
    pub due_grace: Duration,
    /// A ready row without an event is an orphan after this long.
    pub orphan_after: Duration,
    /// A row not ready for this long is counted.
    pub unready_alert_after: Duration,
    /// Rows created before this time are left alone.
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
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// The outcome, row by row.
    pub rows: Vec<T>,
    /// Rows that refuse the write.
    pub refused: Vec<Refused<Uuid>>,
    /// The fault that ended the page early; the rest of the page is found again.
    pub fault: Option<DbError>,
    /// Id behind which the next page begins; absent after the last.
    pub next: Option<Uuid>,
}

/// A ready submission that no event has brought back, to be claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// The submission.
    pub id: Uuid,
    /// The submission's form.
    pub form_id: String,
}

/// A submission that failed before any claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRow {
    /// The submission.
    pub id: Uuid,
    /// The submission's form.
    pub form_id: String,
    /// Why the submission failed.
    pub reason: FailReason,
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
    gate: Gate,
    touched: Option<Timestamp>,
    waiting: Waiting,
}

impl Store {
    /// Takes back one page of stuck claims, the ids behind `after` but for `resting`; `None` while another sweep runs.
    /// `token` names the ends among them.
    ///
    /// # Errors
    /// [`DbError`]: nothing is known; claims that are still stuck are found again.
    pub async fn sweep_stuck(
        &self,
        bounds: &SweepBounds,
        after: Option<Uuid>,
        page: usize,
        token: &str,
        resting: &[Uuid],
    ) -> Result<Option<Page<Retaken>>, DbError> {
        let (untouched, limit) = (bounds.stuck_after.as_secs_f64(), limit(page));
        let found = self
            .pool
            .seeking_transaction("sweep_stuck", async |tx| {
                if !alone(&tx).await? {
                    return Ok(None);
                }
                let find = tx.prepare_cached(&self.statements.sweep.stuck).await?;
                let found = tx.query(&find, &[&untouched, &bounds.not_before, &after, &limit]).await?;
                Ok(Some(found.iter().map(|row| row.get("id")).collect::<Vec<Uuid>>()))
            })
            .await?;
        let Some(found) = found else { return Ok(None) };
        let take_back = |ids: Vec<Uuid>| async move {
            self.pool
                .seeking_transaction("sweep_stuck", async |tx| {
                    if !alone(&tx).await? {
                        return Ok(Vec::new());
                    }
                    let lock = tx.prepare_cached(&self.statements.sweep.stuck_lock).await?;
                    let locked = tx.query(&lock, &[&untouched, &bounds.not_before, &ids]).await?;
                    let locked: Vec<Uuid> = locked.iter().map(|row| row.get("id")).collect();
                    self.take_back(&tx, &locked, token, (Who::SYSTEM, &self.settings.actor), None).await
                })
                .await
        };
        page_of(&found, page, divided(&without(&found, resting), take_back).await).map(Some)
    }

    /// Touches and answers up to `room` ready submissions that no event has brought back in time, but for `resting`; `None`
    /// while another sweep runs.
    ///
    /// # Errors
    /// [`DbError`]: rows touched by a commit whose answer was lost are found again in their time.
    pub async fn sweep_orphans(
        &self,
        bounds: &SweepBounds,
        room: usize,
        resting: &[Uuid],
    ) -> Result<Option<Page<Orphan>>, DbError> {
        let (grace, orphan) = (bounds.due_grace.as_secs_f64(), bounds.orphan_after.as_secs_f64());
        let limit = limit(room);
        // Paused submissions would be found, handed on and dropped at every pass.
        let (paused, longest) = (self.pauses().form_ids(), self.settings.longest_pause.as_secs_f64());
        let (found, mut batch) = (std::sync::Mutex::new(Vec::new()), None);
        let at_once = self
            .pool
            .seeking_transaction("sweep_orphans", async |tx| {
                if !alone(&tx).await? {
                    return Ok(None);
                }
                let lock = tx.prepare_cached(&self.statements.sweep.orphans).await?;
                let locked = tx
                    .query(&lock, &[&grace, &orphan, &bounds.not_before, &limit, &paused, &resting, &longest])
                    .await?;
                let ids: Vec<Uuid> = locked.iter().map(|row| row.get("id")).collect();
                found.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&ids);
                self.touch(&tx, &ids).await.map(Some)
            })
            .await;
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        match at_once {
            Ok(None) => return Ok(None),
            Ok(Some(rows)) => batch = Some(Batch { done: vec![rows], refused: Vec::new(), fault: None }),
            Err(error) if !error.may_be_of_a_row() || found.is_empty() => return Err(error),
            // The rows' locks are gone: a row claimed meanwhile is not touched.
            Err(_) => {}
        }
        let batch = match batch {
            Some(batch) => batch,
            None => divided(&found, |ids| self.touch_again(ids)).await,
        };
        page_of(&found, room, batch).map(Some)
    }

    async fn touch_again(&self, ids: Vec<Uuid>) -> Result<Vec<Orphan>, DbError> {
        self.pool
            .keyed_transaction("sweep_orphans", async |tx| {
                let lock = tx.prepare_cached(mission::LOCK_MANY).await?;
                let locked = tx.query(&lock, &[&ids]).await?;
                let ids: Vec<Uuid> = locked.iter().map(|row| row.get("id")).collect();
                self.touch(&tx, &ids).await
            })
            .await
    }

    async fn touch(&self, tx: &Transaction, ids: &[Uuid]) -> Result<Vec<Orphan>, DbError> {
        let touch = tx.prepare_cached(&self.statements.sweep.touch).await?;
        let touched = tx.query(&touch, &[&ids, &self.settings.longest_pause.as_secs_f64()]).await?;
        let found = |row: &Row| Ok(Orphan { id: row.try_get("id")?, form_id: row.try_get("form_id")? });
        let found: Vec<Orphan> = touched.iter().map(found).collect::<Result<_, DbError>>()?;
        let missing: Vec<Uuid> =
            ids.iter().copied().filter(|id| !found.iter().any(|found| found.id == *id)).collect();
        // Rows that a scan has just made unready are not touched, and rightly.
        let is_ready = |row: &Locked| {
            row.status == Status::Received
                && row.finalized
                && row.pending == 0
                && !row.infected
                && row.gate == Gate::Passed
        };
        let kept_away = self.read_locked(tx, &missing).await?.into_iter().filter(is_ready).count();
        all_took(found.len() + kept_away, found.len())?;
        Ok(found)
    }

    /// Fails one page of waiting submissions that are infected or screened out, as their claim would, but for `resting`; `None`
    /// while another sweep runs.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn sweep_infected(
        &self,
        bounds: &SweepBounds,
        after: Option<Uuid>,
        page: usize,
        token: &str,
        resting: &[Uuid],
    ) -> Result<Option<Page<RefusedRow>>, DbError> {
        let limit = limit(page);
        let found = self
            .pool
            .seeking_transaction("sweep_infected", async |tx| {
                if !alone(&tx).await? {
                    return Ok(None);
                }
                let find = tx.prepare_cached(&self.statements.sweep.infected).await?;
                let found = tx.query(&find, &[&bounds.not_before, &after, &limit]).await?;
                Ok(Some(found.iter().map(|row| row.get("id")).collect::<Vec<Uuid>>()))
            })
            .await?;
        let Some(found) = found else { return Ok(None) };
        let fail = |ids: Vec<Uuid>| self.fail_infected(ids, token);
        page_of(&found, page, divided(&without(&found, resting), fail).await).map(Some)
    }

    /// Fails the submissions of `ids` that still have to be.
    async fn fail_infected(&self, ids: Vec<Uuid>, token: &str) -> Result<Vec<RefusedRow>, DbError> {
        self.pool
            .keyed_transaction("sweep_infected", async |tx| {
                let lock = tx.prepare_cached(mission::LOCK_MANY).await?;
                let locked = tx.query(&lock, &[&ids]).await?;
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
                        gate: row.gate,
                        touched: row.touched,
                        longest_pause: self.settings.longest_pause,
                    };
                    // The claim's own decision; a row that the claim would not fail has just been scanned anew.
                    if let ClaimDecision::Fail(reason) =
                        decide::claim(&view, row.now, self.settings.max_attempts)
                    {
                        let failing = Transition::of(row.status, Command::Refuse, Who::SYSTEM)?;
                        let stored = row.stored.original();
                        writes.push(refusal(row.id, failing, token, row.now, reason, &ledger, &stored));
                        rows.push(RefusedRow { id: row.id, form_id: row.form_id, reason });
                    }
                }
                if !writes.is_empty() {
                    let written = self.write_received(&tx, &writes).await?;
                    all_took(writes.len(), written.len())?;
                }
                Ok(rows)
            })
            .await
    }

    /// Reads locked rows. A row that breaks the contract is left out and logged.
    async fn read_locked(&self, tx: &Transaction, ids: &[Uuid]) -> Result<Vec<Locked>, DbError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let read = tx.prepare_cached(&self.statements.sweep.read).await?;
        let rows = tx.query(&read, &[&ids]).await?;
        seen(&rows)?;
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
        let status = word_in(row, "submissions", "status")?;
        let stored: Stored = row.try_get("routing_result")?;
        // A time that cannot be read here is only not measured.
        let time = |column| row.try_get::<_, Option<Timestamp>>(column).ok().flatten();
        Ok(Self {
            waiting: Waiting::of(time("ready_at"), time("created_at"), &stored.ledger()),
            id: row.try_get("id")?,
            form_id: row.try_get::<_, Option<String>>("form_id")?.unwrap_or_default(),
            status,
            stored,
            token: row.try_get("token")?,
            now: row.try_get("now")?,
            finalized: row.try_get("finalized")?,
            pending: row.try_get("pending")?,
            infected: row.try_get("infected")?,
            gate: word_in(row, "submissions", "gate")?,
            touched: time("touched"),
        })
    }
}

/// The ids of `found` to be tried; `resting` is in order.
fn without(found: &[Uuid], resting: &[Uuid]) -> Vec<Uuid> {
    found.iter().copied().filter(|id| resting.binary_search(id).is_err()).collect()
}

/// A batch's outcome as a page of `page` rows at most.
fn page_of<T>(found: &[Uuid], page: usize, batch: Batch<Uuid, Vec<T>>) -> Result<Page<T>, DbError> {
    let Batch { done, refused, fault } = batch.unless_nothing()?;
    Ok(Page { rows: done.into_iter().flatten().collect(), refused, fault, next: next(found, page) })
}

/// An error where locked rows took no write, which only a policy or a trigger in the database can bring about.
pub(super) fn all_took(decided: usize, written: usize) -> Result<(), DbError> {
    if written == decided {
        return Ok(());
    }
    Err(DbError::Shape(format!(
        "{} of {decided} locked submissions took no write: a policy or a trigger keeps forms_app from them",
        decided - written
    )))
}

async fn alone(tx: &Transaction) -> Result<bool, DbError> {
    let statement = tx.prepare_cached(sql::ALONE).await?;
    Ok(tx.query_one(&statement, &[]).await?.try_get("alone")?)
}

/// Id behind which the next page begins; none when this page was not full.
fn next(ids: &[Uuid], page: usize) -> Option<Uuid> {
    ids.last().copied().filter(|_| ids.len() >= page)
}

fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}
