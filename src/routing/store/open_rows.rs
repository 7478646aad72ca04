//! Looks for submissions that are open and could be claimed, oldest first, for a database that announces nothing.
//!
//! Only reads, and locks nothing: the claim decides. Dying in the middle loses nothing. Shapes are tested before
//! anything is cast, so that one damaged ledger never hides the others.

use std::collections::HashMap;

use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::Store;
use super::sql::{TIME, TOUCHED, has_come};
use crate::db::readiness::Readiness;
use crate::db::{DbError, router};

/// A row that could be claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRow {
    /// The submission.
    pub id: Uuid,
    /// Its form.
    pub form_id: String,
    /// When it was last changed; absent where that is no time at all.
    pub touched: Option<Timestamp>,
}

impl OpenRow {
    /// Where it stands among the others.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        self.touched.map(|at| (at, self.id))
    }
}

/// A place in the order in which rows are looked for.
pub type Place = (Timestamp, Uuid);

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenQuestion {
    /// Of these it is asked how they stand.
    pub answered: Vec<Uuid>,
    /// These are not wanted.
    pub but: Vec<Uuid>,
    /// Only what stands behind this.
    pub after: Option<Place>,
    /// So many at most.
    pub most: usize,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenAnswer {
    /// Those of `answered` that are still open, and when each was last changed.
    pub open: HashMap<Uuid, Option<Timestamp>>,
    /// What could be claimed.
    pub rows: Vec<OpenRow>,
}

/// The texts that depend on the configuration, made once.
#[derive(Debug)]
pub(super) struct Statements {
    find: String,
    standing: String,
}

impl Statements {
    pub(super) fn new(readiness: &Readiness) -> Self {
        let (ready, infected) = (readiness.is_ready("s"), readiness.any_infected("s"));
        Self {
            // What is infected fails whether or not its form is paused, or its next attempt due.
            find: format!(
                "-- open_rows
SELECT s.id, s.form_id, {TOUCHED} AS touched FROM submissions s
WHERE s.status = 'received' AND ($1::timestamptz IS NULL OR s.created_at >= $1)
  AND ($2::timestamptz IS NULL OR (s.updated_at, s.id) > ($2, $3::uuid)) AND s.id <> ALL($4::uuid[])
  AND ({infected} OR (
    CASE WHEN s.routing_result->>'next_attempt_at' ~ '{TIME}' THEN {due} ELSE true END
    AND (s.form_id = ANY($5::text[])) IS NOT TRUE AND {ready}))
ORDER BY s.updated_at, s.id LIMIT $6",
                due = has_come("<= now()", "$7"),
            ),
            standing: format!(
                "-- open_rows_standing
SELECT s.id, {TOUCHED} AS touched FROM submissions s WHERE s.id = ANY($1::uuid[]) AND s.status = 'received'"
            ),
        }
    }
}

impl Store {
    /// What could be claimed now, created after `not_before` and not paused, oldest change first.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn open_rows(
        &self,
        question: &OpenQuestion,
        not_before: Option<Timestamp>,
    ) -> Result<OpenAnswer, DbError> {
        let OpenQuestion { answered, but, after, most } = question;
        let (time, id) = after.unzip();
        let limit = i64::try_from(*most).unwrap_or(i64::MAX);
        let (paused, longest) = (self.pauses().form_ids(), self.settings.longest_pause.as_secs_f64());
        self.pool
            .seeking_transaction("open_rows", async |tx| {
                let mut open = HashMap::new();
                if !answered.is_empty() {
                    let statement = tx.prepare_cached(&self.statements.open_rows.standing).await?;
                    for row in tx.query(&statement, &[answered]).await? {
                        open.insert(row.try_get("id")?, row.try_get("touched")?);
                    }
                }
                let find = tx.prepare_cached(&self.statements.open_rows.find).await?;
                let rows =
                    tx.query(&find, &[&not_before, &time, &id, but, &paused, &limit, &longest]).await?;
                let rows = rows.iter().map(open_row).collect::<Result<_, DbError>>()?;
                Ok(OpenAnswer { open, rows })
            })
            .await
    }

    /// Whether this database announces by itself what is to be routed.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn outbox_is_there(&self) -> Result<bool, DbError> {
        router::outbox_is_there(&self.pool).await
    }
}

fn open_row(row: &Row) -> Result<OpenRow, DbError> {
    Ok(OpenRow { id: row.try_get("id")?, form_id: row.try_get("form_id")?, touched: row.try_get("touched")? })
}
