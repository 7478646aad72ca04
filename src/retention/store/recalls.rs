//! Recalls: objects that get another name, so that every link to the old one answers 404.

use uuid::Uuid;

use super::{RetentionStore, limit, sql};
use crate::db::{DbError, Parameter};
use crate::kernel::rows::word_in;
use crate::words;
use serde_json::json;

words! {
    /// `content.recalls.state`.
    RecallState {
        /// Written before the store is asked.
        Planned = "planned",
        /// Everybody goes by the new name; the old object is to be deleted.
        Moved = "moved",
        /// The old object is gone.
        Done = "done",
        /// There was nothing to copy.
        Void = "void",
    }
}

/// A recall. Names may say what people wrote.
#[derive(Clone, PartialEq, Eq)]
pub struct Recall {
    /// Its id.
    pub id: Uuid,
    /// The blob whose object it is.
    pub blob: Uuid,
    /// The submission that was named.
    pub submission: Uuid,
    /// Where it stands.
    pub state: RecallState,
    /// The bucket.
    pub bucket: String,
    /// The name that was mailed.
    pub old_object: String,
    /// The generation that is copied, once it was looked at.
    pub old_generation: Option<i64>,
    /// The name from then on.
    pub new_object: String,
}

impl RetentionStore {
    /// Plans the recall of a submission's objects; answers every one of it that is not done.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn plan_recalls(
        &self,
        submission: Uuid,
        reason: &str,
        actor: &str,
    ) -> Result<Vec<Recall>, DbError> {
        self.pool()
            .transaction("gc_recall", async |tx| {
                let plan = tx.prepare_cached(sql::PLAN_RECALLS).await?;
                tx.query(&plan, &[&submission, &reason, &actor]).await?.iter().map(recall).collect()
            })
            .await
    }

    /// Recalls that are not done.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn open_recalls(&self, most: usize) -> Result<Vec<Recall>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(sql::OPEN_RECALLS).await?, &[&limit(most)]).await?;
        rows.iter().map(recall).collect()
    }

    /// Writes down which generation is copied, unless that is written down. Returns it; nothing: somebody else has gone on.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn recall_seen(&self, id: Uuid, generation: i64) -> Result<Option<i64>, DbError> {
        self.pool()
            .transaction("gc_recall", async |tx| {
                let row =
                    tx.query_opt(&tx.prepare_cached(sql::RECALL_SEEN).await?, &[&id, &generation]).await?;
                row.map(|row| Ok(row.try_get("old_generation")?)).transpose()
            })
            .await
    }

    /// There is nothing to copy: the recall is over.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn recall_void(&self, id: Uuid) -> Result<(), DbError> {
        self.pool()
            .transaction("gc_recall", async |tx| {
                tx.query_opt(&tx.prepare_cached(sql::RECALL_VOID).await?, &[&id, &RecallState::Void.label()])
                    .await?;
                Ok(())
            })
            .await
    }

    /// Has everybody go by the copy's name. Returns for how many attachments; nothing: somebody else has gone on.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn recall_moved(&self, id: Uuid, generation: i64) -> Result<Option<i64>, DbError> {
        self.pool()
            .keyed_transaction("gc_recall", async |tx| {
                let row =
                    tx.query_one(&tx.prepare_cached(sql::RECALL_MOVE).await?, &[&id, &generation]).await?;
                Ok(row.try_get("n")?)
            })
            .await
    }

    /// The old object is gone: the recall is done, with a receipt.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn recall_done(&self, recall: &Recall) -> Result<(), DbError> {
        self.pool()
            .transaction("gc_recall", async |tx| {
                let done = tx.prepare_cached(sql::RECALL_DONE).await?;
                let done = tx.query_opt(&done, &[&recall.id, &RecallState::Done.label()]).await?;
                if done.is_none() {
                    return Ok(());
                }
                let (subjects, details) = (
                    vec![recall.blob.to_string()],
                    vec![json!({"submission": recall.submission, "generation": recall.old_generation})],
                );
                let (kind, authority) = ("links_revoked", "recall");
                let parameters: [&dyn Parameter; 5] = [&kind, &subjects, &authority, &None::<i64>, &details];
                tx.query_one(&tx.prepare_cached(sql::RECEIPTS).await?, &parameters).await?;
                Ok(())
            })
            .await
    }
}

fn recall(row: &tokio_postgres::Row) -> Result<Recall, DbError> {
    Ok(Recall {
        id: row.try_get("id")?,
        blob: row.try_get("blob_id")?,
        submission: row.try_get("submission_id")?,
        state: word_in(row, "content.recalls", "state")?,
        bucket: row.try_get("bucket")?,
        old_object: row.try_get("old_object")?,
        old_generation: row.try_get("old_generation")?,
        new_object: row.try_get("new_object")?,
    })
}
