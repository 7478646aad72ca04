//! What the daemon's look reads: decisions since the last one, and whether managed forms are what they follow.

use super::{VersionStore, sql};
use crate::db::DbError;

/// A decision, as the journal tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// The form.
    pub form_id: String,
    /// The version.
    pub number: i32,
    /// The command that was judged.
    pub command: String,
    /// Whether it was allowed.
    pub allowed: bool,
    /// Number of reasons against it.
    pub reasons: i64,
    /// Whoever asked.
    pub actor: String,
}

/// How managed forms stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Managed forms.
    pub managed: u64,
    /// Those whose rows are not their version's.
    pub drifted: u64,
    /// One of them.
    pub sample: Option<String>,
}

impl VersionStore {
    /// The transaction before which every decision is there that ever will be.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn over(&self) -> Result<i64, DbError> {
        let client = self.pool().get().await?;
        Ok(client.query_one(&client.prepare_cached(sql::OVER).await?, &[]).await?.try_get("upto")?)
    }

    /// Decisions of the transactions from one on and before another, in their order. People make them, a few at a time.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn decided(&self, from: i64, before: i64) -> Result<Vec<Decided>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(sql::DECIDED).await?, &[&from, &before]).await?;
        rows.iter()
            .map(|row| {
                Ok(Decided {
                    form_id: row.try_get("form_id")?,
                    number: row.try_get("number")?,
                    command: row.try_get("command")?,
                    allowed: row.try_get("allowed")?,
                    reasons: row.try_get("reasons")?,
                    actor: row.try_get("actor")?,
                })
            })
            .collect()
    }

    /// How managed forms stand.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn standing(&self) -> Result<Standing, DbError> {
        let client = self.pool().get().await?;
        let row = client.query_one(&client.prepare_cached(sql::STANDING).await?, &[]).await?;
        let count = |column| -> Result<u64, DbError> {
            Ok(u64::try_from(row.try_get::<_, i64>(column)?).unwrap_or_default())
        };
        Ok(Standing {
            managed: count("managed")?,
            drifted: count("drifted")?,
            sample: row.try_get("sample")?,
        })
    }
}
