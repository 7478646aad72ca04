//! What `router.transitions` has of a row, for whoever shows it. Reads only.

use jiff::Timestamp;
use serde::Serialize;

use super::{Rows, Stored};
use crate::db::DbError;

/// Records that are read of a row.
const MOST: i64 = 500;

/// One record of a row's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Recorded {
    /// The state before; `-` at its birth.
    pub from: String,
    /// The state after.
    pub to: String,
    /// The command.
    pub command: String,
    /// Whoever gave it.
    pub actor: String,
    /// The role.
    pub actor_type: String,
    /// Why.
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
}

impl<L: Stored> Rows<L> {
    /// The latest 500 records of a row, the latest first; none where the lifecycle has a log of its own.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn history(&self, id: L::Id) -> Result<Vec<Recorded>, DbError> {
        let client = self.pool.get().await?;
        let statement = client.prepare_cached(&self.statements.history).await?;
        let rows = client.query(&statement, &[&id.to_string(), &MOST]).await?;
        rows.iter()
            .map(|row| {
                Ok(Recorded {
                    from: row.try_get("from_state")?,
                    to: row.try_get("to_state")?,
                    command: row.try_get("command")?,
                    actor: row.try_get("actor")?,
                    actor_type: row.try_get("actor_type")?,
                    reason: row.try_get("reason")?,
                    at: row.try_get("at")?,
                })
            })
            .collect()
    }
}
