//! Which failures nobody was told of, and whose turn it is to tell: alerts in the rows (protocol, "Sweep"; P7).
//!
//! A lease stands in the ledger's `alert` (`for`, `lease`, `leased_until`), a confirmation replaces it (`for`,
//! `confirmed_at`). Both name the finish they belong to, so that a failure after a replay alerts again. If we die between
//! Slack's ok and the confirmation, the lease ends and the failure is told of again.
//!
//! Never here: a change of status; a change of `updated_at`, which says when a submission last moved (the sweep, `list
//! --older-than` and ages go by it, and being told of is no move); a cast of what was not tested; a wait for a row that
//! somebody else has locked.

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

/// Rows looked at to find the causes; the rest follows once these are told of.
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

/// Rows that are ours to tell of.
#[derive(Debug, Clone)]
pub struct Leased {
    /// In id order.
    pub rows: Vec<Uuid>,
    /// There may be more.
    pub more: bool,
    /// Rows that refuse the lease.
    pub refused: Vec<Refused<Uuid>>,
}

/// What is shown of leased rows: the one that waits longest, and how far it reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The one that waits longest.
    pub id: Uuid,
    /// Its form.
    pub form_id: String,
    /// How long ago it last moved, so failed.
    pub age: Duration,
    /// Forms among all of them.
    pub forms: i64,
    /// Key of its first delivery with an error, and what was said. Names a recipient: for [`anonymous`] only.
    ///
    /// [`anonymous`]: crate::routing::cause::anonymous
    pub said: Option<(String, String)>,
}

/// What became of rows that were to be marked.
#[derive(Debug, Clone, Default)]
pub struct Marked {
    /// So many were.
    pub marked: usize,
    /// Locked by somebody else: to be tried again.
    pub busy: Vec<Uuid>,
    /// Rows that refuse it: told of again when their lease ends.
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

    /// The causes of failures nobody was told of and nobody is telling of, the one that waits longest first. Bounded: of
    /// very many failures only the oldest are looked at.
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
    /// [`DbError`], where no row was leased; else what is leased is answered.
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

    /// What is shown of leased rows; `None` where they are gone.
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

    /// Confirms what is still leased under `token` for the finish that stands now. A row that was replayed meanwhile, or
    /// leased by another, is left alone.
    ///
    /// # Errors
    /// [`DbError`]; pages before it stand.
    pub async fn confirm(&self, token: Uuid, rows: &[Uuid]) -> Result<Marked, DbError> {
        self.mark("alert_confirm", sql::CONFIRM, token, rows).await
    }

    /// Gives back what is still leased under `token`.
    ///
    /// # Errors
    /// [`DbError`]; pages before it stand.
    pub async fn give_back(&self, token: Uuid, rows: &[Uuid]) -> Result<Marked, DbError> {
        self.mark("alert_release", sql::GIVE_BACK, token, rows).await
    }

    async fn mark(
        &self,
        name: &'static str,
        statement: &'static str,
        token: Uuid,
        rows: &[Uuid],
    ) -> Result<Marked, DbError> {
        let token = &token.to_string();
        let mut all = Marked::default();
        for page in rows.chunks(PAGE) {
            let mark = |page: Vec<Uuid>| async move {
                self.pool
                    .transaction(name, async |tx| {
                        let locked = locked(&tx, &page).await?;
                        let statement = tx.prepare_cached(statement).await?;
                        let marked = tx.execute(&statement, &[&locked, token]).await?;
                        let busy = page.iter().copied().filter(|id| locked.binary_search(id).is_err());
                        Ok((usize::try_from(marked).unwrap_or(page.len()), busy.collect::<Vec<Uuid>>()))
                    })
                    .await
            };
            let Batch { done, mut refused, fault } = divided(page, mark).await;
            for (marked, mut busy) in done {
                all.marked += marked;
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

/// Locks what nobody else has locked; answers it in id order.
async fn locked(tx: &crate::db::pool::Transaction, page: &[Uuid]) -> Result<Vec<Uuid>, DbError> {
    let lock = tx.prepare_cached(LOCK_MANY).await?;
    let mut locked: Vec<Uuid> = tx.query(&lock, &[&page]).await?.iter().map(|row| row.get("id")).collect();
    locked.sort_unstable();
    Ok(locked)
}
