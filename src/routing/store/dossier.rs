//! What a mail is made from, besides the plan: read once per claim, outside any lock.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::{Store, sql};
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
    /// [`DbError`].
    pub async fn dossier(&self, id: Uuid) -> Result<Option<Dossier>, DbError> {
        let client = self.pool.get().await?;
        let statement = client.prepare_cached(sql::DOSSIER).await?;
        let Some(row) = client.query_opt(&statement, &[&id]).await? else {
            return Ok(None);
        };
        let fields: Value = row.try_get("fields")?;
        let attachments: Value = row.try_get("attachments")?;
        let fields: Vec<(Option<String>, Option<String>)> =
            serde_json::from_value(fields).map_err(|e| DbError::Shape(format!("submission_fields: {e}")))?;
        Ok(Some(Dossier {
            form_id: row.try_get("form_id")?,
            form_name: row.try_get("form_name")?,
            created_at: row.try_get("created_at")?,
            retention_expires_at: row.try_get("retention_expires_at")?,
            fields: fields.into_iter().map(|(k, v)| (k.unwrap_or_default(), v.unwrap_or_default())).collect(),
            attachments: serde_json::from_value(attachments)
                .map_err(|e| DbError::Shape(format!("attachments: {e}")))?,
            now: row.try_get("now")?,
        }))
    }
}
