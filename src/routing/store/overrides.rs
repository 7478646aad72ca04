//! Readiness overrides of an operator (`finalize`, `mark-attachment`), and the record of what operators do.
//!
//! Each override locks the submission before it writes, so that an intent being recorded sees either the old attachments or
//! the new ones (P6). If we die before the commit nothing happened; after it the row is ready or not, and the sweep finds it
//! even when no event follows. Nothing here touches `status`, `updated_at` (a liveness clock) or a purged row.

use serde_json::{Value, json};
use uuid::Uuid;

use super::stored::Stored;
use super::{Store, sql};
use crate::db::DbError;
use crate::db::pool::{Pool, Transaction};
use crate::db::readiness::Readiness;
use crate::kernel::rows::word_in;
use crate::kernel::words;
use crate::routing::table::Status;

/// The store of readiness overrides. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ReadinessOverrides {
    pool: Pool,
    /// Quoted column, where `[readiness] finalized_column` names one.
    finalized_column: Option<String>,
    standing: String,
}

/// The submission's state after a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The submission.
    pub id: Uuid,
    /// The submission's form.
    pub form_id: String,
    /// The submission's status.
    pub status: Status,
    /// Finalized, as the database contract defines it.
    pub finalized: bool,
    /// Attachments still to be scanned.
    pub pending: i64,
    /// An attachment is infected.
    pub infected: bool,
    /// Whether the write changed something.
    pub changed: bool,
}

impl Standing {
    /// Finalized, and every attachment clean.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.finalized && self.pending == 0 && !self.infected
    }
}

words! {
    /// The result of a scan.
    ScanResult {
        /// No malware.
        Clean = "clean",
        /// Malware.
        Infected = "infected",
    }
}

/// The outcome of a readiness override.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Touched {
    /// The override stands, or stood already.
    Done(Standing),
    /// No row has this id.
    Unknown,
    /// Retention has emptied the submission: nothing is written to it.
    Purged,
    /// The scan had found malware: overruling it needs a reason.
    NeedsReason,
}

/// One entry of the ledger's `overrides` (data contract, "The ledger").
#[derive(Debug, Clone, Copy)]
pub struct Override<'a> {
    /// `operator:<unix user>`
    pub actor: &'a str,
    /// The command's verb.
    pub verb: &'a str,
    /// Why the operator did it.
    pub reason: Option<&'a str>,
    /// Further facts worth knowing; an object.
    pub more: &'a Value,
}

impl Override<'_> {
    /// The entry, but for its time.
    pub(super) fn entry(&self) -> Value {
        let mut entry = json!({"actor": self.actor, "verb": self.verb, "reason": self.reason});
        if let (Value::Object(entry), Value::Object(more)) = (&mut entry, self.more) {
            entry.extend(more.clone());
        }
        entry
    }
}

/// Whether an override stands in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noted {
    /// The override stands.
    InLedger,
    /// The ledger cannot take the override: damaged, of a newer version, purged or gone.
    Nowhere,
}

const OVERRIDE: &str = "-- override
UPDATE submissions s SET routing_result = s.routing_result || jsonb_build_object('overrides',
  COALESCE(s.routing_result->'overrides', '[]') || jsonb_build_array($2::jsonb || jsonb_build_object('at', clock_timestamp())))
WHERE s.id = $1 AND s.status <> 'purged'";

const LEDGER: &str = "-- override_ledger
SELECT s.routing_result FROM submissions s WHERE s.id = $1 AND s.status <> 'purged'";

const ATTACHMENT: &str = "-- override_attachment
SELECT x.submission_id, x.clamav_status::text AS clamav_status FROM attachments x WHERE x.id = $1";

const SCAN_STATUS: &str = "-- override_scan
UPDATE attachments x SET clamav_status = $2::text::clamav_status WHERE x.id = $1";

impl ReadinessOverrides {
    /// A store over `pool`. `readiness` was made from `finalized_column`.
    #[must_use]
    pub fn new(pool: Pool, readiness: &Readiness, finalized_column: Option<&str>) -> Self {
        Self {
            pool,
            // A plain name: `Readiness::new` has refused every other.
            finalized_column: finalized_column.map(|name| format!("\"{name}\"")),
            standing: format!(
                "-- override_standing
SELECT s.form_id, s.status::text AS status, {} AS finalized, {} AS pending, {} AS infected
FROM submissions s WHERE s.id = $1",
                readiness.is_finalized("s"),
                readiness.pending_count("s"),
                readiness.any_infected("s"),
            ),
        }
    }

    /// Sets the finalized column, where one is configured and not set yet.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn finalize(&self, id: Uuid, note: Override<'_>) -> Result<Touched, DbError> {
        self.pool
            .transaction("finalize", async |tx| {
                tx.query(sql::LOCK_ONE, &[&id]).await?;
                let mut changed = false;
                if let Some(column) = &self.finalized_column {
                    let set = format!(
                        "-- override_finalize
UPDATE submissions s SET {column} = clock_timestamp() WHERE s.id = $1 AND s.{column} IS NULL AND s.status <> 'purged'"
                    );
                    changed = tx.execute(&set, &[&id]).await? > 0;
                }
                if changed {
                    append(&tx, id, note).await?;
                }
                self.standing(&tx, id, changed).await
            })
            .await
    }

    /// Records a scan's result for an attachment.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn set_scan_status(
        &self,
        attachment: Uuid,
        verdict: ScanResult,
        note: Override<'_>,
    ) -> Result<Touched, DbError> {
        self.pool
            .transaction("mark_attachment", async |tx| {
                let Some(found) = tx.query_opt(ATTACHMENT, &[&attachment]).await? else {
                    return Ok(Touched::Unknown);
                };
                let id: Uuid = found.try_get("submission_id")?;
                tx.query(sql::LOCK_ONE, &[&id]).await?;
                // The attachment is read again, under the lock.
                let Some(found) = tx.query_opt(ATTACHMENT, &[&attachment]).await? else {
                    return Ok(Touched::Unknown);
                };
                let before: Option<String> = found.try_get("clamav_status")?;
                let changed = before.as_deref() != Some(verdict.label());
                let standing = self.standing(&tx, id, changed).await?;
                if !changed || !matches!(standing, Touched::Done(_)) {
                    return Ok(standing);
                }
                if before.as_deref() == Some(ScanResult::Infected.label()) && note.reason.is_none() {
                    return Ok(Touched::NeedsReason);
                }
                tx.execute(SCAN_STATUS, &[&attachment, &verdict.label()]).await?;
                append(&tx, id, note).await?;
                self.standing(&tx, id, true).await
            })
            .await
    }

    /// Appends to the ledger's `overrides`, fenced by nothing and merged under the row's lock.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn note(&self, id: Uuid, note: Override<'_>) -> Result<Noted, DbError> {
        self.pool
            .transaction("override", async |tx| {
                tx.query(sql::LOCK_ONE, &[&id]).await?;
                append(&tx, id, note).await
            })
            .await
    }

    async fn standing(&self, tx: &Transaction, id: Uuid, changed: bool) -> Result<Touched, DbError> {
        let Some(row) = tx.query_opt(&self.standing, &[&id]).await? else {
            return Ok(Touched::Unknown);
        };
        let status = word_in(&row, "submissions", "status")?;
        if status == Status::Purged {
            return Ok(Touched::Purged);
        }
        Ok(Touched::Done(Standing {
            id,
            form_id: row.try_get("form_id")?,
            status,
            finalized: row.try_get("finalized")?,
            pending: row.try_get("pending")?,
            infected: row.try_get("infected")?,
            changed,
        }))
    }
}

impl Store {
    /// Locks a submission's row in the caller's transaction and answers whether an override with this fact stands in its
    /// ledger; of a ledger that cannot be read: no.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn is_noted_in(
        &self,
        tx: &Transaction,
        id: Uuid,
        (name, fact): (&str, &str),
    ) -> Result<bool, DbError> {
        self.lock_in(tx, id).await?;
        let Some(row) = tx.query_opt(LEDGER, &[&id]).await? else { return Ok(false) };
        let Ok(ledger) = row.try_get::<_, Stored>("routing_result")?.ledger() else { return Ok(false) };
        Ok(ledger.overrides.iter().any(|noted| noted[name] == fact))
    }
}

/// Appends under the caller's lock. A ledger that cannot be read is left as it is: its original is evidence.
async fn append(tx: &Transaction, id: Uuid, note: Override<'_>) -> Result<Noted, DbError> {
    let Some(row) = tx.query_opt(LEDGER, &[&id]).await? else { return Ok(Noted::Nowhere) };
    if row.try_get::<_, Stored>("routing_result")?.ledger().is_err() {
        return Ok(Noted::Nowhere);
    }
    let changed = tx.execute(OVERRIDE, &[&id, &note.entry()]).await?;
    Ok(if changed == 1 { Noted::InLedger } else { Noted::Nowhere })
}
