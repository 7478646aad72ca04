//! What a sweep owes: objects whose blobs are deleted, and the receipts of what became of them. And what a reconciliation compares.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use super::{Object, RetentionStore, limit, sql};
use crate::db::{DbError, Parameter};
use crate::kernel::rows::word_in;
use crate::retention::table::State;
use crate::words;

words! {
    /// How an object went: `content.blobs.gone`.
    Gone {
        /// By us.
        Deleted = "deleted",
        /// Somebody else was first.
        Missing = "missing",
        /// Another object has its name, and is left alone.
        Replaced = "replaced",
    }
}

impl Gone {
    /// The kind of its receipt.
    #[must_use]
    pub const fn receipt(self) -> &'static str {
        match self {
            Self::Deleted => "object_deleted",
            Self::Missing => "object_missing",
            Self::Replaced => "object_replaced",
        }
    }
}

/// A row beside its object, as a reconciliation compares it.
#[derive(Clone, PartialEq, Eq)]
pub struct RowOfObject {
    /// The blob.
    pub blob: Uuid,
    /// The object's name.
    pub object: String,
    /// Its generation, where it is known.
    pub generation: Option<i64>,
    /// Whether it is to be there: of a deleted blob it may be gone any moment.
    pub is_wanted: bool,
}

impl RetentionStore {
    /// Blobs whose objects are to be deleted. What a hold names is left.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn owed(&self, behind: Uuid, most: usize) -> Result<Vec<Uuid>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(sql::OWED).await?, &[&behind, &limit(most)]).await?;
        rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
    }

    /// Those of some blobs whose objects are to be deleted: the store is about to be asked, and that is counted before.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn ask(&self, blobs: &[Uuid]) -> Result<Vec<Object>, DbError> {
        self.pool()
            .keyed_transaction("gc_ask", async |tx| {
                tx.query(&tx.prepare_cached(sql::LOCK_BLOBS).await?, &[&blobs]).await?;
                tx.query(&tx.prepare_cached(sql::ASK).await?, &[&blobs]).await?.iter().map(object).collect()
            })
            .await
    }

    /// Records how objects went, with a receipt for each, in one transaction. What was recorded before is left as it is, and what was
    /// asked for twice is not called missing. The time is that for which the store could bring it back. Returns what is recorded now.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn record_gone(
        &self,
        gone: &[(Uuid, Gone, Duration)],
        run: i64,
    ) -> Result<Vec<(Uuid, Gone)>, DbError> {
        let (ids, how): (Vec<Uuid>, Vec<&str>) = gone.iter().map(|(id, how, _)| (*id, how.label())).unzip();
        let restorable: Vec<f64> = gone.iter().map(|(.., restorable)| restorable.as_secs_f64()).collect();
        self.pool()
            .keyed_transaction("gc_gone", async |tx| {
                tx.query(&tx.prepare_cached(sql::LOCK_BLOBS).await?, &[&ids]).await?;
                let rows = tx.query(&tx.prepare_cached(sql::GONE).await?, &[&ids, &how, &restorable]).await?;
                let mut told: BTreeMap<Gone, (Vec<String>, Vec<Value>)> = BTreeMap::new();
                let mut recorded = Vec::with_capacity(rows.len());
                for row in &rows {
                    let (id, how): (Uuid, Gone) = (row.try_get("id")?, word_in(row, "content.blobs", "how")?);
                    let (subjects, details) = told.entry(how).or_default();
                    subjects.push(id.to_string());
                    details.push(row.try_get("detail")?);
                    recorded.push((id, how));
                }
                let receipts = tx.prepare_cached(sql::RECEIPTS).await?;
                for (how, (subjects, details)) in &told {
                    let (kind, authority) = (how.receipt(), "tombstone");
                    let parameters: [&dyn Parameter; 5] = [&kind, subjects, &authority, &Some(run), details];
                    tx.query_one(&receipts, &parameters).await?;
                }
                Ok(recorded)
            })
            .await
    }

    /// Final objects of uploads that became no blob, by their uploads.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn left_over(&self, behind: &str, most: usize) -> Result<Vec<Object>, DbError> {
        let client = self.pool().get().await?;
        let rows =
            client.query(&client.prepare_cached(sql::LEFT_OVER).await?, &[&behind, &limit(most)]).await?;
        rows.iter()
            .map(|row| {
                let (bucket, object) = (row.try_get("bucket")?, row.try_get("object")?);
                Ok(Object { blob: row.try_get("upload_id")?, bucket, object, generation: None, run: None })
            })
            .collect()
    }

    /// Forgets such objects, which are gone.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn left_over_gone(&self, objects: &[Object]) -> Result<(), DbError> {
        let (buckets, names): (Vec<&str>, Vec<&str>) =
            objects.iter().map(|object| (object.bucket.as_str(), object.object.as_str())).unzip();
        self.pool()
            .transaction("gc_gone", async |tx| {
                tx.query(&tx.prepare_cached(sql::LEFT_OVER_GONE).await?, &[&buckets, &names]).await?;
                Ok(())
            })
            .await
    }

    /// The buckets that blobs are in.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn buckets(&self) -> Result<Vec<String>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(sql::BUCKETS).await?, &[]).await?;
        rows.iter().map(|row| Ok(row.try_get("bucket")?)).collect()
    }

    /// Rows of a bucket's objects, in the order of their names' bytes.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn objects(
        &self,
        bucket: &str,
        behind: &str,
        most: usize,
    ) -> Result<Vec<RowOfObject>, DbError> {
        let client = self.pool().get().await?;
        let rows = client
            .query(&client.prepare_cached(sql::OBJECTS).await?, &[&bucket, &behind, &limit(most)])
            .await?;
        rows.iter()
            .map(|row| {
                let state: State = word_in(row, "content.blobs", "state")?;
                Ok(RowOfObject {
                    blob: row.try_get("id")?,
                    object: row.try_get("object")?,
                    generation: row.try_get("generation")?,
                    is_wanted: state != State::Deleted,
                })
            })
            .collect()
    }

    /// Those of some objects that a row names now.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn named(&self, bucket: &str, objects: &[String]) -> Result<BTreeSet<String>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(sql::NAMED).await?, &[&bucket, &objects]).await?;
        rows.iter().map(|row| Ok(row.try_get("object")?)).collect()
    }

    /// Whether a blob still has its object by this name.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn still_has(&self, blob: Uuid, object: &str) -> Result<bool, DbError> {
        let client = self.pool().get().await?;
        Ok(client.query_opt(&client.prepare_cached(sql::STILL).await?, &[&blob, &object]).await?.is_some())
    }
}

fn object(row: &tokio_postgres::Row) -> Result<Object, DbError> {
    Ok(Object {
        blob: row.try_get("id")?,
        bucket: row.try_get("bucket")?,
        object: row.try_get("object")?,
        generation: row.try_get("generation")?,
        run: row.try_get("marked_run")?,
    })
}
