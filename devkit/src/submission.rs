//! PostgreSQL's view of a submission, as tests read it: its row and its audit trail. To be read as superuser, from
//! whom no policy hides anything.

use anyhow::{Context, Result};
use serde_json::Value;
use tokio_postgres::Client;
use uuid::Uuid;

/// A row as it stands; equal only if not a byte was touched.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// `status`
    pub status: String,
    /// `routing_result`
    pub ledger: Value,
    /// The ledger as PostgreSQL prints it: to compare byte by byte.
    pub text: String,
    /// `happyfox_status`
    pub happyfox_status: Option<String>,
    /// `updated_at` as PostgreSQL prints it.
    pub updated_at: String,
}

impl Row {
    /// Reads it.
    ///
    /// # Errors
    /// The row is not there, its ledger is NULL, or the server is gone.
    pub async fn read(eyes: &Client, id: Uuid) -> Result<Self> {
        let sql =
            "SELECT status::text, routing_result, routing_result::text, happyfox_status, updated_at::text
                   FROM submissions WHERE id = $1";
        let row = eyes.query_one(sql, &[&id]).await.with_context(|| format!("reading submission {id}"))?;
        Ok(Self {
            status: row.try_get(0)?,
            ledger: row.try_get(1)?,
            text: row.try_get(2)?,
            happyfox_status: row.try_get(3)?,
            updated_at: row.try_get(4)?,
        })
    }

    /// One delivery's entry in the ledger; null where there is none.
    #[must_use]
    pub fn entry(&self, key: &str) -> &Value {
        &self.ledger["deliveries"][key]
    }

    /// Attempts so far.
    #[must_use]
    pub fn attempts(&self) -> u64 {
        self.ledger["attempts"].as_u64().unwrap_or_default()
    }

    /// Routed or failed.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.status.as_str(), "routed" | "failed")
    }

    /// Why it ended; `None` where no reason is given.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.ledger["finished"]["reason"].as_str()
    }
}

/// One row of the audit log.
#[derive(Debug, Clone)]
pub struct Audited {
    /// `action`
    pub action: String,
    /// `detail`
    pub detail: Value,
    /// `actor`
    pub actor: String,
}

impl Audited {
    /// The trail of a submission, in order.
    ///
    /// # Errors
    /// The server is gone.
    pub async fn trail(eyes: &Client, id: Uuid) -> Result<Vec<Self>> {
        let sql = "SELECT action::text, detail, actor FROM audit_log WHERE submission_id = $1 ORDER BY id";
        let rows = eyes.query(sql, &[&id]).await.with_context(|| format!("reading the trail of {id}"))?;
        let read = |row: &tokio_postgres::Row| {
            Ok(Self { action: row.try_get(0)?, detail: row.try_get(1)?, actor: row.try_get(2)? })
        };
        rows.iter().map(read).collect()
    }
}
