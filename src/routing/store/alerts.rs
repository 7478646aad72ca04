//! Alerts in the rows: failures without a confirmed alert, and the leases for alerting (protocol, "Sweep"; P7).
//!
//! A lease stands in the ledger's `alert` (`for`, `lease`, `leased_until`), a confirmation replaces it (`for`,
//! `confirmed_at`). Both name the finish they belong to, so that a failure after a replay alerts again. If we die between
//! Slack's ok and the confirmation, the lease ends and the failure is alerted again.
//!
//! Never here: a change of status; a change of `updated_at`, the time of a submission's last move (the sweep, `list
//! --older-than` and ages go by it, and an alert is no move); a cast of an untested value; a wait for a row that another
//! transaction has locked.

mod late;
mod sql;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::sql::LOCK_MANY;
use crate::config::Config;
use crate::db::batch::{Batch, Refused, divided};
use crate::db::pool::Pool;
use crate::db::readiness::Readiness;
use crate::db::{DbError, Parameter};
use crate::ports::Unalerted;

/// Rows read to find the causes; the rest follows once these are alerted.
const LOOKED_AT: i64 = 10_000;
/// Causes answered at once.
const CAUSES: i64 = 50;
/// Rows of one lease, so of one message.
const LEASED: i64 = 10_000;
/// Rows locked by one transaction.
const PAGE: usize = 500;

pub use late::{Late, LatePage};
pub(super) use sql::{is_late, is_unalerted};

/// The alerts' side of the mission's rows. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AlertStore {
    pool: Pool,
    statements: Arc<sql::Statements>,
    not_before: Option<Timestamp>,
    lease: Duration,
}

/// Rows whose alert this daemon has leased.
#[derive(Debug, Clone)]
pub struct Leased {
    /// Ids of the rows, in order.
    pub rows: Vec<Uuid>,
    /// Whether there may be more.
    pub more: bool,
    /// Rows that refuse the lease.
    pub refused: Vec<Refused<Uuid>>,
}

/// A sample of leased rows: the one that waits longest, and how many forms are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The row that waits longest.
    pub id: Uuid,
    /// The row's form.
    pub form_id: String,
    /// Time since the row's last move, its failure.
    pub age: Duration,
    /// Number of forms among all the leased rows.
    pub forms: i64,
    /// Key of the row's first delivery with an error, and the reply. Names a recipient: for [`anonymous`] only.
    ///
    /// [`anonymous`]: crate::routing::submission::cause::anonymous
    pub said: Option<(String, String)>,
}

/// The outcome of a confirmation or of giving leases back.
#[derive(Debug, Clone, Default)]
pub struct Confirmed {
    /// Number of rows written.
    pub recorded: usize,
    /// Rows locked by another transaction: to be tried again.
    pub busy: Vec<Uuid>,
    /// Rows that refuse the write: alerted again when their lease ends.
    pub refused: Vec<Refused<Uuid>>,
}

impl AlertStore {
    /// A store over `pool`.
    #[must_use]
    pub fn new(pool: Pool, readiness: &Readiness, config: &Config) -> Self {
        Self {
            pool,
            statements: Arc::new(sql::Statements::new(readiness)),
            not_before: config.routing.not_before,
            lease: config.slack.lease,
        }
    }

    /// The causes of failures without a confirmed alert or a live lease, the one that waits longest first. Bounded: of very
    /// many failures only the oldest are read.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn unalerted(&self) -> Result<Vec<Unalerted>, DbError> {
        let rows = self
            .pool
            .seeking_transaction("alert_look", async |tx| {
                let statement = tx.prepare_cached(&self.statements.causes).await?;
                let parameters: [&dyn Parameter; 4] =
                    [&self.not_before, &self.lease_seconds(), &LOOKED_AT, &CAUSES];
                tx.query(&statement, &parameters).await
            })
            .await?;
        let count = |row: &tokio_postgres::Row| {
            let count: i64 = row.try_get("n")?;
            Ok(Unalerted { cause: row.try_get("cause")?, count: count.unsigned_abs() })
        };
        rows.iter().map(count).collect()
    }

    /// Leases the failures of a cause under `token`, page by page in id order, but for `resting` (in order); rows that are
    /// leased or locked are left to others.
    ///
    /// # Errors
    /// [`DbError`], where no row was leased; else the rows leased so far are answered.
    pub async fn lease(&self, cause: &str, token: Uuid, resting: &[Uuid]) -> Result<Leased, DbError> {
        let mut candidates: Vec<Uuid> = self
            .pool
            .seeking_transaction("alert_look", async |tx| {
                let statement = tx.prepare_cached(&self.statements.candidates).await?;
                let parameters: [&dyn Parameter; 4] =
                    [&self.not_before, &self.lease_seconds(), &cause, &LEASED];
                tx.query(&statement, &parameters).await
            })
            .await?
            .iter()
            .map(|row| row.get("id"))
            .collect();
        let full = i64::try_from(candidates.len()).is_ok_and(|found| found >= LEASED);
        candidates.retain(|id| resting.binary_search(id).is_err());
        candidates.sort_unstable();
        let mut leased = Leased { rows: Vec::new(), more: full, refused: Vec::new() };
        for page in candidates.chunks(PAGE) {
            let Batch { done, mut refused, fault } =
                divided(page, |page| self.lease_page(page, cause, token)).await;
            leased.rows.extend(done.into_iter().flatten());
            leased.refused.append(&mut refused);
            match fault {
                None => {}
                Some(error) if leased.rows.is_empty() && leased.refused.is_empty() => return Err(error),
                Some(_) => {
                    leased.more = true;
                    break;
                }
            }
        }
        Ok(leased)
    }

    async fn lease_page(&self, page: Vec<Uuid>, cause: &str, token: Uuid) -> Result<Vec<Uuid>, DbError> {
        let token = token.to_string();
        self.pool
            .transaction("alert_lease", async |tx| {
                let locked = locked(&tx, &page).await?;
                let statement = tx.prepare_cached(&self.statements.lease).await?;
                let parameters: [&dyn Parameter; 5] =
                    [&self.not_before, &self.lease_seconds(), &cause, &locked, &token];
                let mut leased: Vec<Uuid> =
                    tx.query(&statement, &parameters).await?.iter().map(|row| row.get("id")).collect();
                leased.sort_unstable();
                Ok(leased)
            })
            .await
    }

    /// A sample of leased rows; `None` where they are gone.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn sample(&self, rows: &[Uuid]) -> Result<Option<Sample>, DbError> {
        let found = self
            .pool
            .seeking_transaction("alert_look", async |tx| {
                let statement = tx.prepare_cached(sql::SAMPLE).await?;
                tx.query_opt(&statement, &[&rows]).await
            })
            .await?;
        let Some(row) = found else { return Ok(None) };
        let age: f64 = row.try_get("age")?;
        let (key, reply): (Option<String>, Option<String>) = (row.try_get("key")?, row.try_get("reply")?);
        Ok(Some(Sample {
            id: row.try_get("id")?,
            form_id: row.try_get("form_id")?,
            age: Duration::try_from_secs_f64(age.max(0.0)).unwrap_or_default(),
            forms: row.try_get("forms")?,
            said: key.zip(reply),
        }))
    }

    /// Confirms the rows still leased under `token` for the finish that stands now. A row that was replayed meanwhile, or
    /// leased by another, is left alone.
    ///
    /// # Errors
    /// [`DbError`]; pages before it stand.
    pub async fn confirm(&self, token: Uuid, rows: &[Uuid]) -> Result<Confirmed, DbError> {
        self.record("alert_confirm", sql::CONFIRM, token, rows).await
    }

    /// Gives back the rows still leased under `token`.
    ///
    /// # Errors
    /// [`DbError`]; pages before it stand.
    pub async fn give_back(&self, token: Uuid, rows: &[Uuid]) -> Result<Confirmed, DbError> {
        self.record("alert_release", sql::GIVE_BACK, token, rows).await
    }

    async fn record(
        &self,
        name: &'static str,
        statement: &'static str,
        token: Uuid,
        rows: &[Uuid],
    ) -> Result<Confirmed, DbError> {
        let token = &token.to_string();
        let mut all = Confirmed::default();
        for page in rows.chunks(PAGE) {
            let record = |page: Vec<Uuid>| async move {
                self.pool
                    .transaction(name, async |tx| {
                        let locked = locked(&tx, &page).await?;
                        let statement = tx.prepare_cached(statement).await?;
                        let recorded = tx.execute(&statement, &[&locked, token]).await?;
                        let busy = page.iter().copied().filter(|id| locked.binary_search(id).is_err());
                        Ok((usize::try_from(recorded).unwrap_or(page.len()), busy.collect::<Vec<Uuid>>()))
                    })
                    .await
            };
            let Batch { done, mut refused, fault } = divided(page, record).await;
            for (recorded, mut busy) in done {
                all.recorded += recorded;
                all.busy.append(&mut busy);
            }
            all.refused.append(&mut refused);
            fault.map_or(Ok(()), Err)?;
        }
        Ok(all)
    }

    fn lease_seconds(&self) -> f64 {
        self.lease.as_secs_f64()
    }
}

/// Locks the rows that no other transaction has locked; answers them in id order.
async fn locked(tx: &crate::db::pool::Transaction, page: &[Uuid]) -> Result<Vec<Uuid>, DbError> {
    let lock = tx.prepare_cached(LOCK_MANY).await?;
    let mut locked: Vec<Uuid> = tx.query(&lock, &[&page]).await?.iter().map(|row| row.get("id")).collect();
    locked.sort_unstable();
    Ok(locked)
}
