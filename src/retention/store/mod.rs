//! The statements of retention. The kernel ([`Rows`]) locks and writes blobs; what must hold whoever writes is the schema's own
//! (`migrations/content/003_retention.sql`).
//!
//! Each call without a transaction is one. If we die before a commit nothing happened.

pub mod contract;
pub mod holds;
pub mod recalls;
pub mod receipts;
mod relation;
pub mod runs;
mod sql;
pub mod submissions;
pub mod swept;
pub mod watched;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

pub use self::relation::{Facts, Origin};
use super::decide::Known;
use super::table::{Blob, Command, State};
use crate::db::DbError;
use crate::db::pool::{Pool, Transaction};
use crate::kernel::rows::{Fence, Row, Rows, Write, word_in};
use crate::kernel::{Transition, Who};

/// The blobs of one database, and what is decided about submissions. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RetentionStore {
    rows: Rows<Blob>,
}

/// Gives access to the kernel's statements.
impl Deref for RetentionStore {
    type Target = Rows<Blob>;

    fn deref(&self) -> &Rows<Blob> {
        &self.rows
    }
}

/// A place in a list that is read page by page: a time, as the database writes it, and an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place(String, Uuid);

impl Place {
    /// Before everything.
    #[must_use]
    pub fn start() -> Self {
        Self("-infinity".to_owned(), Uuid::nil())
    }
}

/// A page of ids, and where the next one begins; absent after the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The ids.
    pub ids: Vec<Uuid>,
    /// The place behind the last of them.
    pub next: Option<Place>,
}

/// An object of the store, by the blob that it is of.
#[derive(Clone, PartialEq, Eq)]
pub struct Object {
    /// The blob.
    pub blob: Uuid,
    /// Its bucket.
    pub bucket: String,
    /// Its name, which may say what people wrote.
    pub object: String,
    /// Its generation; 0: there was none when it was looked for.
    pub generation: Option<i64>,
    /// The run that marked its blob last.
    pub run: Option<i64>,
}

/// A blob as people see it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct BlobView {
    /// The blob.
    pub id: Uuid,
    /// Its form.
    pub form_id: String,
    /// Its state.
    pub state: String,
    /// `upload` or `adopted`.
    pub origin: String,
    /// Until when it can be taken back.
    pub deadline: Option<Timestamp>,
    /// When its object was gone.
    pub gone_at: Option<Timestamp>,
    /// How it went.
    pub gone: Option<String>,
    /// Until when the store itself could bring it back.
    pub restorable_until: Option<Timestamp>,
    /// Number of references.
    pub references: i64,
}

impl RetentionStore {
    /// The blobs over `pool`; transitions are recorded as made by `actor`.
    #[must_use]
    pub fn new(pool: Pool, actor: &str) -> Self {
        Self { rows: Rows::new(pool, actor) }
    }

    /// Whether this role can see what 003 of schema content made.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn is_there(&self) -> Result<bool, DbError> {
        let client = self.pool().get().await?;
        Ok(client.query_one(&client.prepare_cached(sql::THERE).await?, &[]).await?.try_get("there")?)
    }

    /// Blobs whose deadline has passed, in its order.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn tombstoned(&self, behind: &Place, most: usize) -> Result<Page, DbError> {
        let (most, Place(at, id)) = (limit(most), behind);
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(sql::TOMBSTONED).await?, &[at, id, &most]).await?;
        page(&rows, most)
    }

    /// Blobs that a run has marked: `run` itself, or, where not `ours`, another.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn eligible(
        &self,
        run: i64,
        ours: bool,
        behind: Uuid,
        most: usize,
    ) -> Result<Vec<Uuid>, DbError> {
        let client = self.pool().get().await?;
        let parameters: [&dyn crate::db::Parameter; 4] = [&run, &ours, &behind, &limit(most)];
        let rows = client.query(&client.prepare_cached(sql::ELIGIBLE).await?, &parameters).await?;
        rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
    }

    /// The objects among these blobs' whose generation nobody has read yet.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn unread(&self, ids: &[Uuid]) -> Result<Vec<Object>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(sql::UNREAD).await?, &[&ids]).await?;
        rows.iter()
            .map(|row| {
                let (bucket, object) = (row.try_get("bucket")?, row.try_get("object")?);
                Ok(Object { blob: row.try_get("id")?, bucket, object, generation: None, run: None })
            })
            .collect()
    }

    /// Locks blobs, and reads what keeps them in a later statement. No hold is placed before the transaction ends.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn known(&self, tx: &Transaction, ids: &[Uuid]) -> Result<Vec<(Row<Blob>, Known)>, DbError> {
        tx.query_one(&tx.prepare_cached(sql::LOCK_HOLDS).await?, &[]).await?;
        let held = self.hold(tx, ids).await?;
        let judged = tx.query(&tx.prepare_cached(sql::JUDGED).await?, &[&ids]).await?;
        let judged: Result<BTreeMap<Uuid, _>, DbError> =
            judged.iter().map(|said| Ok((said.try_get("id")?, said))).collect();
        let judged = judged?;
        let mut known = Vec::with_capacity(held.len());
        for row in held {
            let Some(said) = judged.get(&row.id) else { continue };
            let facts = Known {
                state: row.state,
                is_referenced: said.try_get("is_referenced")?,
                is_held: said.try_get("is_held")?,
                is_recalled: said.try_get("is_recalled")?,
                is_due: said.try_get("is_due")?,
                marked: row.columns.marked_run,
            };
            known.push((row, facts));
        }
        Ok(known)
    }

    /// A blob.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn blob(&self, id: Uuid) -> Result<Option<(BlobView, Object, State)>, DbError> {
        let client = self.pool().get().await?;
        let Some(row) = client.query_opt(&client.prepare_cached(sql::BLOB).await?, &[&id]).await? else {
            return Ok(None);
        };
        let state: State = word_in(&row, "content.blobs", "state")?;
        let view = BlobView {
            id,
            form_id: row.try_get("form_id")?,
            state: state.label().to_owned(),
            origin: row.try_get("origin")?,
            deadline: row.try_get("deadline")?,
            gone_at: row.try_get("gone_at")?,
            gone: row.try_get("gone")?,
            restorable_until: row.try_get("restorable_until")?,
            references: row.try_get("refs")?,
        };
        let (bucket, object) = (row.try_get("bucket")?, row.try_get("object")?);
        Ok(Some((view, Object { blob: id, bucket, object, generation: None, run: None }, state)))
    }

    /// Takes a blob back, and keeps it for a time. Returns until when; nothing: there is none.
    ///
    /// # Errors
    /// [`DbError`]: its state has no way back.
    pub async fn undelete(
        &self,
        blob: Uuid,
        actor: &str,
        reason: &str,
        span: Duration,
    ) -> Result<Option<Timestamp>, DbError> {
        let span = span.as_secs_f64();
        self.pool()
            .transaction("gc_undelete", async |tx| {
                let Some(row) = self.hold(&tx, &[blob]).await?.pop() else { return Ok(None) };
                let transition = Transition::of(row.state, Command::Undelete, Who::OPERATOR)?;
                let write = Write {
                    reason: Some(reason.to_owned()),
                    ..Write::plain(blob, Fence::Locked, transition)
                };
                self.write(&tx, actor, &[write]).await?;
                let keep = tx.prepare_cached(sql::KEEP).await?;
                Ok(Some(tx.query_one(&keep, &[&blob, &actor, &span]).await?.try_get("until")?))
            })
            .await
    }
}

fn limit(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}

fn page(rows: &[tokio_postgres::Row], most: i64) -> Result<Page, DbError> {
    let ids: Vec<Uuid> = rows.iter().map(|row| Ok(row.try_get("id")?)).collect::<Result<_, DbError>>()?;
    let next = match rows.last() {
        Some(last) if limit(rows.len()) >= most => Some(Place(last.try_get("at")?, last.try_get("id")?)),
        _ => None,
    };
    Ok(Page { ids, next })
}
