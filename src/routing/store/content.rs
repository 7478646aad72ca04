//! A submission's content: read with the claim, and for commands that show the mail.

use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use super::{Store, seen};
use crate::db::DbError;
use crate::routing::submission::content::SubmissionContent;
use crate::routing::submission::grading::Grade;

impl Store {
    /// Reads the content of the mails of `id`; `None` when there is no such row.
    ///
    /// # Errors
    /// [`DbError`]; [`DbError::Hidden`] where a mail could lack attachments that nobody sees.
    pub async fn content(&self, id: Uuid) -> Result<Option<SubmissionContent>, DbError> {
        let row = self
            .pool
            .keyed_transaction("content", async |tx| {
                let statement = tx.prepare_cached(&self.statements.content).await?;
                let row = tx.query_opt(&statement, &[&id]).await?;
                seen(&row)?;
                Ok(row)
            })
            .await?;
        row.map(|row| content(&row)).transpose()
    }
}

/// Reads the content from a row with the columns of `content` in the statements.
///
/// # Errors
/// [`DbError`]: a column is not what it should be.
pub(super) fn content(row: &Row) -> Result<SubmissionContent, DbError> {
    let attachments: Value = row.try_get("attachments")?;
    let texts = |column| row.try_get::<_, Vec<Option<String>>>(column);
    let texts = |column| Ok::<_, DbError>(texts(column)?.into_iter().map(Option::unwrap_or_default));
    Ok(SubmissionContent {
        form_id: row.try_get("form_id")?,
        form_name: row.try_get("form_name")?,
        created_at: row.try_get("created_at")?,
        retention_expires_at: row.try_get("retention_expires_at")?,
        fields: texts("field_keys")?.zip(texts("field_values")?).collect(),
        attachments: serde_json::from_value(attachments)
            .map_err(|e| DbError::Shape(format!("attachments: {e}")))?,
        grade: row.try_get::<_, Option<Value>>("grade")?.and_then(Grade::of),
        now: row.try_get("now")?,
    })
}
