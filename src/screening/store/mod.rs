//! The statements of screening. The kernel ([`Rows`]) claims and writes runs; what must hold whoever writes is the schema's own
//! (`migrations/screening/001_screening.sql`).
//!
//! Each call without a transaction is one. If we die before a commit nothing happened.

pub mod contract;
pub mod people;
mod relation;
pub mod results;
pub mod setup;
pub mod views;
pub mod watched;

use std::ops::Deref;

use serde_json::Value;
use uuid::Uuid;

use super::table::Screening;
use crate::db::DbError;
use crate::db::pool::Pool;
use crate::kernel::rows::Rows;

/// The kind of outbox rows that tell registries of a publication; they name skill, version and commit.
pub const PUBLISHED: &str = "screening.published";

/// The runs of one database. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ScreeningStore {
    rows: Rows<Screening>,
}

/// Gives access to the kernel's statements.
impl Deref for ScreeningStore {
    type Target = Rows<Screening>;

    fn deref(&self) -> &Rows<Screening> {
        &self.rows
    }
}

/// What a run is about, as it stands now. Shown to nobody: it has what people entered.
#[derive(Clone, PartialEq, Eq)]
pub struct Submitted {
    /// Keys and values, in order.
    pub fields: Vec<(String, String)>,
    /// Names of files.
    pub files: Vec<String>,
    /// SHA-256 of both.
    pub digest: String,
    /// How often the same came within the last hour, this one not counted.
    pub seen: u32,
    /// The authenticated caller, where the form has a column that names it.
    pub origin: Option<String>,
}

impl std::fmt::Debug for Submitted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { fields, files, digest, seen, .. } = self;
        f.debug_struct("Submitted")
            .field("fields", &fields.len())
            .field("files", &files.len())
            .field("digest", digest)
            .field("seen", seen)
            .finish_non_exhaustive()
    }
}

/// Naming a table of a schema without USAGE is an error, so the schema is asked first.
const THERE: &str = "-- screening_there
SELECT CASE WHEN COALESCE(has_schema_privilege(to_regnamespace('screening'), 'USAGE'), false)
  THEN COALESCE(has_table_privilege(to_regclass('screening.submissions'), 'SELECT'), false) ELSE false END AS there";

const CONTENT: &str = "-- screening_content
SELECT c.fields, c.files, c.digest, c.seen, c.origin FROM screening.content($1, $2, $3, $4) AS c";

const BIRTHS: &str = "-- screening_births
SELECT screening.births($1) AS born";

impl ScreeningStore {
    /// The runs over `pool`; transitions by workers and timers are recorded as made by `actor`.
    #[must_use]
    pub fn new(pool: Pool, actor: &str) -> Self {
        Self { rows: Rows::new(pool, actor) }
    }

    /// Whether this role can see schema screening.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn is_there(&self) -> Result<bool, DbError> {
        let client = self.pool().get().await?;
        Ok(client.query_one(&client.prepare_cached(THERE).await?, &[]).await?.try_get("there")?)
    }

    /// What the leased run is about; `None` where the lease is another's.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn submitted(
        &self,
        run: Uuid,
        token: Uuid,
        origin_column: Option<&str>,
        most_seen: u32,
    ) -> Result<Option<Submitted>, DbError> {
        let most = i32::try_from(most_seen).unwrap_or(i32::MAX);
        let client = self.pool().get().await?;
        let statement = client.prepare_cached(CONTENT).await?;
        let Some(row) = client.query_opt(&statement, &[&run, &token, &origin_column, &most]).await? else {
            return Ok(None);
        };
        let (fields, files): (Value, Value) = (row.try_get("fields")?, row.try_get("files")?);
        let shape = |error: serde_json::Error| {
            DbError::Shape(format!("screening.content: {}", error.classify_label()))
        };
        Ok(Some(Submitted {
            fields: serde_json::from_value(fields).map_err(shape)?,
            files: serde_json::from_value(files).map_err(shape)?,
            digest: row.try_get("digest")?,
            seen: u32::try_from(row.try_get::<_, i32>("seen")?).unwrap_or_default(),
            origin: row.try_get("origin")?,
        }))
    }

    /// Makes the runs that nobody has made, `most` at most. Returns how many.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn births(&self, most: i32) -> Result<u64, DbError> {
        self.pool()
            .transaction("screening_births", async |tx| {
                let born: i64 =
                    tx.query_one(&tx.prepare_cached(BIRTHS).await?, &[&most]).await?.try_get("born")?;
                Ok(u64::try_from(born).unwrap_or_default())
            })
            .await
    }
}

/// What is wrong with a document, without a word of it.
trait ClassifyLabel {
    fn classify_label(&self) -> &'static str;
}

impl ClassifyLabel for serde_json::Error {
    fn classify_label(&self) -> &'static str {
        match self.classify() {
            serde_json::error::Category::Io => "is not read to its end",
            serde_json::error::Category::Syntax => "is no JSON",
            serde_json::error::Category::Data => "has another shape",
            serde_json::error::Category::Eof => "is cut",
        }
    }
}

fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}
