//! The statements of grading's main side. The kernel ([`Rows`]) claims and writes attempts; what must hold whoever writes is the schema's own
//! (`migrations/grading/001_assessment.sql`).
//!
//! Each call without a transaction is one. If we die before a commit nothing happened.

pub mod callbacks;
pub mod content;
pub mod contract;
pub mod due;
pub(in crate::grading) mod examined;
pub mod learner;
pub mod people;
mod relation;
pub mod setup;
pub mod views;
pub mod watched;

use std::ops::Deref;

use super::table::Grading;
use crate::db::DbError;
use crate::db::pool::Pool;
use crate::kernel::rows::Rows;

/// The kind of outbox rows that tell of a grade whose mail did not wait for it; they name submission and attempt.
pub const RESULT: &str = "grading.result";

/// The attempts of one database. Cheap to clone.
#[derive(Debug, Clone)]
pub struct GradingStore {
    rows: Rows<Grading>,
    actor: std::sync::Arc<str>,
}

/// Gives access to the kernel's statements.
impl Deref for GradingStore {
    type Target = Rows<Grading>;

    fn deref(&self) -> &Rows<Grading> {
        &self.rows
    }
}

/// Naming a table of a schema without USAGE is an error, so the schema is asked first.
const THERE: &str = "-- grading_there
SELECT CASE WHEN COALESCE(has_schema_privilege(to_regnamespace('assessment'), 'USAGE'), false)
    AND COALESCE(has_schema_privilege(to_regnamespace('mq'), 'USAGE'), false)
  THEN COALESCE(has_table_privilege(to_regclass('assessment.submissions'), 'SELECT'), false)
    AND COALESCE(has_table_privilege(to_regclass('mq.grading_callback'), 'SELECT'), false) ELSE false END AS there";

const BIRTHS: &str = "-- grading_births
SELECT assessment.births($1) AS born";

impl GradingStore {
    /// The attempts over `pool`; transitions by workers and by time are recorded as made by `actor`.
    #[must_use]
    pub fn new(pool: Pool, actor: &str) -> Self {
        Self { rows: Rows::new(pool, actor), actor: actor.into() }
    }

    /// The actor of the transitions.
    #[must_use]
    pub fn actor(&self) -> &str {
        &self.actor
    }

    /// Whether this role can see schemas assessment and mq.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn is_there(&self) -> Result<bool, DbError> {
        let client = self.pool().get().await?;
        client
            .query_one(&client.prepare_cached(THERE).await?, &[])
            .await?
            .try_get("there")
            .map_err(DbError::from)
    }

    /// Opens the attempts that nobody has opened. Answers how many.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn births(&self, most: i32) -> Result<u64, DbError> {
        self.pool()
            .transaction("grading_births", async |tx| {
                let born: i64 =
                    tx.query_one(&tx.prepare_cached(BIRTHS).await?, &[&most]).await?.try_get("born")?;
                Ok(u64::try_from(born).unwrap_or_default())
            })
            .await
    }
}
