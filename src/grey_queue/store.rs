//! The statements of the grey queue: lists, one entry with its history, and the parts of a command's transaction. The
//! kernel ([`Rows`]) claims and writes entries; `router.open_entry` alone makes them.
//!
//! If we die before a commit nothing happened.

pub mod contract;
mod due;
mod filter;
mod lists;
mod relation;
mod sql;

use std::ops::Deref;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use tokio_postgres::Row as PgRow;
use uuid::Uuid;

pub use due::{Due, Notice, OpenEntry};
pub use filter::{Cursor, Filter, NoCursor, Order, Priority, Whose};

use super::decide::Step;
use super::entry::{Entry, Moved, SubjectRef};
use super::table::{GreyQueue, State};
use crate::db::DbError;
use crate::db::pool::{Pool, Transaction};
use crate::kernel::rows::{Fence, Rows, Write, word_in};
use relation::{TABLE, entry};

/// Kind of the outbox rows that tell somebody of an entry.
pub const ASSIGNED: &str = "review.assigned";

/// The grey queue of one database. Cheap to clone.
#[derive(Debug, Clone)]
pub struct GreyQueueStore {
    rows: Rows<GreyQueue>,
}

/// Gives access to the kernel's statements.
impl Deref for GreyQueueStore {
    type Target = Rows<GreyQueue>;

    fn deref(&self) -> &Rows<GreyQueue> {
        &self.rows
    }
}

/// A page of entries.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Page {
    /// The entries.
    pub items: Vec<Entry>,
    /// Where the next page begins; absent at the end.
    pub next_cursor: Option<String>,
    /// The database's time of the look.
    pub as_of: Timestamp,
}

/// Open entries that share state, queue and cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Depth {
    /// Their state.
    pub state: State,
    /// Their queue.
    pub queue: String,
    /// Their cause.
    pub cause: String,
    /// How many there are.
    pub count: i64,
    /// For how long the first of them is in its state, in seconds.
    pub oldest_seconds: f64,
}

/// An entry that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// The entry.
    pub id: Uuid,
    /// Its version.
    pub version: i64,
    /// Its state.
    pub state: State,
    /// Who reviews it.
    pub assignee: Option<String>,
    /// The time of the change, by the database's clock.
    #[serde(skip)]
    pub at: Timestamp,
}

impl GreyQueueStore {
    /// The grey queue of `pool`; what workers and timers do is recorded as made by `actor`.
    #[must_use]
    pub fn new(pool: Pool, actor: &str) -> Self {
        Self { rows: Rows::new(pool, actor) }
    }

    /// Whether there is a grey queue that this role may use.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn is_there(&self) -> Result<bool, DbError> {
        let client = self.pool().get().await?;
        client
            .query_one(&client.prepare_cached(sql::THERE).await?, &[])
            .await?
            .try_get("there")
            .map_err(Into::into)
    }

    /// A page of the entries that `filter` chooses.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn list(&self, filter: &Filter, limit: usize, after: Option<&Cursor>) -> Result<Page, DbError> {
        let (statement, parameters) = filter.statement(limit.saturating_add(1), after);
        let parameters = parameters.as_parameters();
        let (rows, now) = self
            .pool()
            .seeking_transaction("grey_queue_list", async |tx| {
                let list = tx.prepare_cached(&statement).await?;
                let rows = tx.query(&list, &parameters).await?;
                Ok((rows, tx.query_one(&tx.prepare_cached(sql::NOW).await?, &[]).await?.try_get("now")?))
            })
            .await?;
        let mut items = rows.iter().take(limit).map(entry).collect::<Result<Vec<Entry>, _>>()?;
        let more = rows.len() > limit;
        let next_cursor = items.last().filter(|_| more).map(|last| Cursor::behind(last, filter).to_string());
        items.truncate(limit);
        Ok(Page { items, next_cursor, as_of: now })
    }

    /// One entry.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn get(&self, id: Uuid) -> Result<Option<Entry>, DbError> {
        let client = self.pool().get().await?;
        let row = client.query_opt(&client.prepare_cached(sql::GET).await?, &[&id]).await?;
        row.as_ref().map(entry).transpose()
    }

    /// The entries about a subject, the youngest first.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn about(&self, subject: Uuid) -> Result<Vec<Entry>, DbError> {
        let client = self.pool().get().await?;
        client
            .query(&client.prepare_cached(sql::ABOUT).await?, &[&subject])
            .await?
            .iter()
            .map(entry)
            .collect()
    }

    /// The ids that begin with these hexadecimal digits, two at most.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn beginning(&self, from: Uuid, to: Uuid) -> Result<Vec<Uuid>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(sql::BEGINNING).await?, &[&from, &to]).await?;
        rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
    }

    /// What happened to an entry, oldest first.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn history(&self, id: Uuid) -> Result<Vec<Moved>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(sql::HISTORY).await?, &[&id]).await?;
        rows.iter().map(moved).collect()
    }

    /// The open entries by state, queue and cause.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn summary(&self) -> Result<Vec<Depth>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(sql::SUMMARY).await?, &[]).await?;
        rows.iter()
            .map(|row| {
                Ok(Depth {
                    state: word_in(row, TABLE, "state")?,
                    queue: row.try_get("queue")?,
                    cause: row.try_get("cause")?,
                    count: row.try_get("count")?,
                    oldest_seconds: row.try_get("oldest")?,
                })
            })
            .collect()
    }

    /// Up to `most` entries that changed since `since`, in the order of their changes, and the database's time.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn changed_since(
        &self,
        since: Option<Timestamp>,
        most: i64,
    ) -> Result<(Vec<Changed>, Timestamp), DbError> {
        let client = self.pool().get().await?;
        let now: Timestamp =
            client.query_one(&client.prepare_cached(sql::NOW).await?, &[]).await?.try_get("now")?;
        let Some(since) = since else { return Ok((Vec::new(), now)) };
        let rows = client.query(&client.prepare_cached(sql::CHANGED).await?, &[&since, &most]).await?;
        let changed = rows.iter().map(|row| {
            Ok(Changed {
                id: row.try_get("id")?,
                version: row.try_get("version")?,
                state: word_in(row, TABLE, "state")?,
                assignee: row.try_get("assignee")?,
                at: row.try_get("updated_at")?,
            })
        });
        Ok((changed.collect::<Result<_, DbError>>()?, now))
    }

    /// The subject of an entry, read without a lock; it never changes.
    pub(super) async fn subject_of(&self, tx: &Transaction, id: Uuid) -> Result<Option<SubjectRef>, DbError> {
        let row = tx.query_opt(&tx.prepare_cached(sql::SUBJECT).await?, &[&id]).await?;
        row.map(|row| Ok(SubjectRef { kind: row.try_get("subject_kind")?, id: row.try_get("subject_id")? }))
            .transpose()
    }

    /// Marks where a command begins in `tx`.
    pub(super) async fn mark(&self, tx: &Transaction) -> Result<(), DbError> {
        tx.batch_execute(sql::MARK).await
    }

    /// Takes back what a command did since [`Self::mark`], also where a statement failed.
    pub(super) async fn back_to_mark(&self, tx: &Transaction) -> Result<(), DbError> {
        tx.batch_execute(sql::BACK_TO_MARK).await
    }

    /// An entry, locked until `tx` ends.
    pub(super) async fn held(&self, tx: &Transaction, id: Uuid) -> Result<Option<Box<Entry>>, DbError> {
        Ok(self.hold(tx, &[id]).await?.pop().map(|row| Box::new(row.columns)))
    }

    /// The database's time in `tx`.
    pub(super) async fn now(&self, tx: &Transaction) -> Result<Timestamp, DbError> {
        Ok(tx.query_one(&tx.prepare_cached(sql::NOW).await?, &[]).await?.try_get("now")?)
    }

    /// An open entry of the same cause and subject, other than `entry` itself.
    pub(super) async fn twin(&self, tx: &Transaction, entry: &Entry) -> Result<Option<Uuid>, DbError> {
        let twin = tx.prepare_cached(sql::TWIN).await?;
        let found =
            tx.query_opt(&twin, &[&entry.subject.id, &entry.subject.kind, &entry.cause, &entry.id]).await?;
        found.map(|row| row.try_get("id").map_err(Into::into)).transpose()
    }

    /// Takes one step; `false` where the fence does not match.
    pub(super) async fn step(
        &self,
        tx: &Transaction,
        actor: &str,
        id: Uuid,
        fence: Fence,
        step: &Step,
    ) -> Result<bool, DbError> {
        let write = Write::<GreyQueue> {
            id,
            fence,
            transition: step.transition,
            attempts: step.attempts,
            pause: step.pause,
            reason: step.reason.clone(),
            columns: Some(step.columns.clone()),
        };
        Ok(self.write(tx, actor, &[write]).await?.contains(&id))
    }

    /// Has the entry's new reviewer told of it, when `tx` commits.
    pub(super) async fn announce_assignment(
        &self,
        tx: &Transaction,
        entry: &Entry,
        to: &str,
    ) -> Result<(), DbError> {
        let payload: Value = json!({"entry": entry.id, "assignee": to});
        tx.execute(&tx.prepare_cached(sql::ASSIGNED).await?, &[&ASSIGNED, &payload]).await?;
        Ok(())
    }

    /// Records that the present attempt was carried out; `false` where the lease is another's.
    pub(super) async fn carried_out(&self, tx: &Transaction, id: Uuid, token: Uuid) -> Result<bool, DbError> {
        let statement = tx.prepare_cached(sql::CARRIED_OUT).await?;
        Ok(tx.execute(&statement, &[&id, &token]).await? == 1)
    }

    /// Lets the time in which nobody could look not count: the present attempt was carried out `gap` later.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn forgive(&self, id: Uuid, token: Uuid, gap: Duration) -> Result<(), DbError> {
        let seconds = gap.as_secs_f64();
        self.pool()
            .transaction("grey_queue_forgive", async |tx| {
                let statement = tx.prepare_cached(sql::FORGIVE).await?;
                tx.execute(&statement, &[&id, &token, &seconds]).await.map(drop)
            })
            .await
    }
}

fn moved(row: &PgRow) -> Result<Moved, DbError> {
    Ok(Moved {
        version: row.try_get("version")?,
        at: row.try_get("transitioned_at")?,
        command: row.try_get("command")?,
        from: row.try_get("from_state")?,
        to: row.try_get("to_state")?,
        by: row.try_get("transitioned_by")?,
        reason: row.try_get("reason")?,
        metadata: row.try_get("metadata")?,
    })
}
