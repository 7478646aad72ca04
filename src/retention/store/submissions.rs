//! Submissions whose time has come, or that a person asks to erase. Their rows are emptied by schema content's own function.

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use super::{Page, Place, RetentionStore, limit, page, sql};
use crate::db::{DbError, Parameter};
use crate::words;

words! {
    /// On whose authority a submission is emptied.
    Authority {
        /// Its time has come.
        Retention = "retention",
        /// A person's data is erased: the time does not count, everything else does.
        Erasure = "erasure",
        /// It was never claimed, and never will be.
        Abandonment = "abandonment",
    }
}

/// What became of a submission that was to be emptied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Purged {
    /// The submission.
    pub id: Uuid,
    /// Why it is kept; nothing: it is emptied.
    pub why: Option<String>,
}

/// What an erasure would remove of a submission, and what is not ours to remove.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Erasable {
    /// The submission.
    pub id: Uuid,
    /// Its form.
    pub form_id: String,
    /// Its status.
    pub status: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// Why it is kept.
    pub why: Option<String>,
    /// Fields.
    pub fields: i64,
    /// Attachments.
    pub files: i64,
    /// Objects of them that other submissions have as well: those stay.
    pub shared: i64,
    /// Mails that left this host.
    pub mails: i64,
    /// The ticket.
    pub ticket: Option<String>,
    /// Entries of the review about it, with what people wrote there.
    pub reviews: i64,
}

/// Until when a submission is kept, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// Why; nothing: the next run empties it.
    pub why: Option<String>,
    /// Its end, where it has one.
    pub ends_at: Option<Timestamp>,
}

impl RetentionStore {
    /// Submissions whose time may have come: by an end of their own, or by their form's.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn due(&self, own: bool, behind: &Place, most: usize) -> Result<Page, DbError> {
        let (most, Place(at, id)) = (limit(most), behind);
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(sql::DUE).await?, &[&own, at, id, &most]).await?;
        page(&rows, most)
    }

    /// Empties submissions, or says of each why it is kept: in one transaction.
    ///
    /// # Errors
    /// [`DbError`]: none of them is emptied.
    pub async fn purge(
        &self,
        ids: &[Uuid],
        authority: Authority,
        actor: &str,
        run: Option<i64>,
    ) -> Result<Vec<Purged>, DbError> {
        let authority = authority.label();
        let parameters: [&dyn Parameter; 4] = [&ids, &authority, &actor, &run];
        self.pool()
            .keyed_transaction("gc_purge", async |tx| {
                let rows = tx.query(&tx.prepare_cached(sql::PURGE).await?, &parameters).await?;
                rows.iter()
                    .map(|row| Ok(Purged { id: row.try_get("id")?, why: row.try_get("why")? }))
                    .collect()
            })
            .await
    }

    /// What an erasure would remove of a submission; nothing: there is none.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn erasable(&self, id: Uuid, authority: Authority) -> Result<Option<Erasable>, DbError> {
        let client = self.pool().get().await?;
        let statement = client.prepare_cached(sql::ERASABLE).await?;
        let Some(row) = client.query_opt(&statement, &[&id, &authority.label()]).await? else {
            return Ok(None);
        };
        Ok(Some(Erasable {
            id,
            form_id: row.try_get("form_id")?,
            status: row.try_get("status")?,
            created_at: row.try_get("created_at")?,
            why: row.try_get("why")?,
            fields: row.try_get("fields")?,
            files: row.try_get("files")?,
            shared: row.try_get("shared")?,
            mails: row.try_get("mails")?,
            ticket: row.try_get("ticket")?,
            reviews: row.try_get("reviews")?,
        }))
    }

    /// Submissions with this value in a field, by id.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn with_field(
        &self,
        field: &str,
        value: &str,
        behind: Uuid,
        most: usize,
    ) -> Result<Vec<Uuid>, DbError> {
        let parameters: [&dyn Parameter; 4] = [&field, &value, &behind, &limit(most)];
        self.pool()
            .transaction("gc_with_field", async |tx| {
                let rows = tx.query(&tx.prepare_cached(sql::WITH_FIELD).await?, &parameters).await?;
                rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
            })
            .await
    }

    /// Until when a submission is kept, and why; nothing: it is emptied, or there is none.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn kept(&self, id: Uuid) -> Result<Option<Kept>, DbError> {
        let client = self.pool().get().await?;
        let row = client.query_opt(&client.prepare_cached(sql::KEPT).await?, &[&id]).await?;
        row.map(|row| Ok(Kept { why: row.try_get("why")?, ends_at: row.try_get("ends_at")? })).transpose()
    }

    /// Forgets versions of forms whose deadline has passed, up to `most`. Returns how many.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn forget_versions(&self, most: i32, actor: &str) -> Result<u64, DbError> {
        self.pool()
            .transaction("gc_forget", async |tx| {
                let rows = tx.query(&tx.prepare_cached(sql::FORGET).await?, &[&most, &actor]).await?;
                Ok(u64::try_from(rows.len()).unwrap_or_default())
            })
            .await
    }

    /// Ends references that operators made and whose time has passed, up to `most`. Returns how many.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn release_kept(&self, most: i32) -> Result<u64, DbError> {
        self.pool()
            .transaction("gc_release", async |tx| {
                let row = tx.query_one(&tx.prepare_cached(sql::RELEASE_KEPT).await?, &[&most]).await?;
                Ok(u64::try_from(row.try_get::<_, i64>("n")?).unwrap_or_default())
            })
            .await
    }
}
