//! What a mail is made from, besides the plan: read with the claim, and by whoever wants to see the mail.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use super::{Store, seen};
use crate::db::DbError;

/// The submission as its readers will see it.
#[derive(Debug, Clone)]
pub struct Dossier {
    /// Its form.
    pub form_id: String,
    /// That form's name, where it has one.
    pub form_name: Option<String>,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When retention empties it.
    pub retention_expires_at: Option<Timestamp>,
    /// Fields in their order.
    pub fields: Vec<(String, String)>,
    /// Attachments in their order.
    pub attachments: Vec<Attachment>,
    /// Database time at which this was read.
    pub now: Timestamp,
}

/// One attachment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Attachment {
    /// Its id.
    pub id: Uuid,
    /// File name as uploaded.
    #[serde(default)]
    pub file_name: Option<String>,
    /// Content type as recorded.
    #[serde(default)]
    pub content_type: Option<String>,
    /// Size in bytes.
    #[serde(default)]
    pub size_bytes: Option<i64>,
    /// Bucket of the object.
    #[serde(default)]
    pub bucket: Option<String>,
    /// Name of the object.
    #[serde(default)]
    pub object: Option<String>,
}

impl Store {
    /// Reads what the mails of `id` are made from; `None` when there is no such row.
    ///
    /// # Errors
    /// [`DbError`]; [`DbError::Hidden`] where a mail could lack attachments that nobody sees.
    pub async fn dossier(&self, id: Uuid) -> Result<Option<Dossier>, DbError> {
        let row = self
            .pool
            .keyed_transaction("dossier", async |tx| {
                let statement = tx.prepare_cached(&self.statements.dossier).await?;
                let row = tx.query_opt(&statement, &[&id]).await?;
                seen(&row)?;
                Ok(row)
            })
            .await?;
        row.map(|row| Dossier::of(&row)).transpose()
    }
}

impl Dossier {
    /// Of a row with the columns of `dossier` in the statements.
    ///
    /// # Errors
    /// [`DbError`]: a column is not what it should be.
    pub(super) fn of(row: &Row) -> Result<Self, DbError> {
        let attachments: Value = row.try_get("attachments")?;
        let texts = |column| row.try_get::<_, Vec<Option<String>>>(column);
        let texts = |column| Ok::<_, DbError>(texts(column)?.into_iter().map(Option::unwrap_or_default));
        Ok(Self {
            form_id: row.try_get("form_id")?,
            form_name: row.try_get("form_name")?,
            created_at: row.try_get("created_at")?,
            retention_expires_at: row.try_get("retention_expires_at")?,
            fields: texts("field_keys")?.zip(texts("field_values")?).collect(),
            attachments: serde_json::from_value(attachments)
                .map_err(|e| DbError::Shape(format!("attachments: {e}")))?,
            now: row.try_get("now")?,
        })
    }
}
