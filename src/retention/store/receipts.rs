//! The chain of receipts, as it is read.

use uuid::Uuid;

use super::{RetentionStore, limit, sql};
use crate::db::DbError;

/// A receipt as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Its number.
    pub id: i64,
    /// Its text, a JSON document.
    pub body: String,
    /// Its digest, in hexadecimal digits.
    pub digest: String,
}

impl RetentionStore {
    /// Receipts behind a number, in their order.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn receipts(&self, behind: i64, most: usize) -> Result<Vec<Receipt>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(sql::CHAIN).await?, &[&behind, &limit(most)]).await?;
        rows.iter().map(receipt).collect()
    }

    /// The receipts of a submission or a blob.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn receipts_of(&self, subject: Uuid) -> Result<Vec<Receipt>, DbError> {
        let client = self.pool().get().await?;
        let statement = client.prepare_cached(sql::OF_SUBJECT).await?;
        client.query(&statement, &[&subject.to_string()]).await?.iter().map(receipt).collect()
    }
}

fn receipt(row: &tokio_postgres::Row) -> Result<Receipt, DbError> {
    Ok(Receipt { id: row.try_get("id")?, body: row.try_get("body")?, digest: row.try_get("digest")? })
}
