//! The audit log as people read it: the trail of a submission, and the digests that name recipients. Reads only.
//!
//! Not every role may read the log: an answer is absent then, because an empty one would prove something.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use super::{View, sql};
use crate::db::DbError;
use crate::db::pool::Client;
use crate::routing::store::stored::Stored;

/// One row of the audit log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AuditRow {
    /// When the row was written.
    pub occurred_at: Timestamp,
    /// The actor.
    pub actor: Option<String>,
    /// The audit action.
    pub action: String,
    /// Detail of the action (data contract, "Audit detail").
    pub detail: Option<Value>,
}

/// Rows of the audit log that name a recipient in the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditDigests {
    /// Name of the key; absent where there is none.
    pub key: Option<String>,
    /// Digests without a key, from which a list of addresses recovers the recipients.
    pub unkeyed: bool,
    /// Number of these rows.
    pub rows: i64,
    /// Time of the first row.
    pub first: Timestamp,
    /// Time of the last row.
    pub last: Timestamp,
}

impl View {
    /// The audit trail of a submission, oldest first; `None` where this role may not read it: an empty trail would then
    /// prove nothing.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn audit(&self, id: Uuid) -> Result<Option<Vec<AuditRow>>, DbError> {
        let client = self.pool.get().await?;
        if !audit_is_readable(&client).await? {
            return Ok(None);
        }
        let mut trail = Vec::new();
        for row in client.query(sql::AUDIT, &[&id]).await? {
            trail.push(AuditRow {
                occurred_at: row.try_get("occurred_at")?,
                actor: row.try_get("actor")?,
                action: row.try_get("action")?,
                // The detail may contain what once was an unreadable ledger.
                detail: row.try_get::<_, Option<Stored>>("detail")?.map(|detail| detail.original()),
            });
        }
        Ok(Some(trail))
    }

    /// The digests by which the audit log names recipients; `None` where this role may not read it. Reads the whole log.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn audit_digests(&self) -> Result<Option<Vec<AuditDigests>>, DbError> {
        let client = self.pool.get().await?;
        if !audit_is_readable(&client).await? {
            return Ok(None);
        }
        let rows = client.query(sql::AUDIT_DIGESTS, &[]).await?;
        let digests = |row: &Row| {
            Ok(AuditDigests {
                key: row.try_get("key")?,
                unkeyed: row.try_get("unkeyed")?,
                rows: row.try_get("n")?,
                first: row.try_get("first")?,
                last: row.try_get("last")?,
            })
        };
        rows.iter().map(digests).collect::<Result<_, DbError>>().map(Some)
    }
}

async fn audit_is_readable(client: &Client) -> Result<bool, DbError> {
    let readable = client.query_opt(sql::AUDIT_READABLE, &[]).await?;
    Ok(readable.is_some_and(|row| row.get("readable")))
}
