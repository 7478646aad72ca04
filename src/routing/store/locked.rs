//! Rows under their locks: locked, read by the same statement or the next, written by one.
//!
//! [`Draft`] decides in between what is written, and never on what was read before the lock (protocol, "Every guarded write
//! locks its row first"). If we die before the commit, nothing happened.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use serde_json::{Map, Value};
use tokio_postgres::Row;
use tokio_postgres::types::Json;
use uuid::Uuid;

use super::group::Rows;
use super::stored::Stored;
use super::sweep::all_took;
use super::{Store, shown, sql};
use crate::db::DbError;
use crate::db::pool::Transaction;
use crate::routing::decide::draft::{Change, Draft, Salvage};
use crate::routing::table::Status;

/// Columns read of rows under their locks.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reading<'a> {
    /// The row itself, which the statement that locks it can answer.
    Row,
    /// The row and what other tables say of it, by this statement: `$1` ids, and at least the columns of
    /// [`READ_LOCKED`](sql::READ_LOCKED).
    Also(&'a str),
}

impl<'a> Reading<'a> {
    fn statement(self) -> &'a str {
        match self {
            Self::Row => sql::READ_LOCKED,
            Self::Also(statement) => statement,
        }
    }
}

/// Rows under their locks.
pub(super) struct LockedRows {
    /// Ids of rows that are locked, or that nobody can lock because they do not exist.
    locked: HashSet<Uuid>,
    rows: HashMap<Uuid, Row>,
    drafts: HashMap<Uuid, Result<Draft, DbError>>,
}

impl LockedRows {
    /// Whether `id` may be answered for.
    pub(super) fn has(&self, id: Uuid) -> bool {
        self.locked.contains(&id)
    }

    /// The columns read of a row; `None` where there is none.
    pub(super) fn row(&self, id: Uuid) -> Option<&Row> {
        self.rows.get(&id).filter(|_| self.has(id))
    }

    /// A row as it stands, to be changed; each row has one draft.
    ///
    /// # Errors
    /// [`DbError`]: a column is not what it should be.
    pub(super) fn draft(&mut self, id: Uuid) -> Result<Option<Draft>, DbError> {
        if self.has(id) { self.drafts.remove(&id).transpose() } else { Ok(None) }
    }
}

/// Locks rows by one statement and reads them by another, each with a snapshot of its own.
async fn lock_then_read(
    tx: &Transaction,
    ids: &[Uuid],
    lock: &str,
    read: &str,
) -> Result<(Vec<Row>, HashMap<Uuid, Row>), DbError> {
    // The statements are prepared first: one sent while another one is being prepared would overtake it.
    let (lock, read) = (tx.prepare_cached(lock).await?, tx.prepare_cached(read).await?);
    let (locked, found) =
        futures::future::try_join(tx.query(&lock, &[&ids]), tx.query(&read, &[&ids])).await?;
    Ok((locked, by_id(found)))
}

fn by_id(rows: Vec<Row>) -> HashMap<Uuid, Row> {
    rows.into_iter().map(|row| (row.get("id"), row)).collect()
}

fn draft(row: &Row) -> Result<Draft, DbError> {
    let status: String = row.try_get("status")?;
    let stored = row.try_get::<_, Stored>("routing_result")?.parsed();
    Ok(Draft::of(Status::parse(&status), stored, row.try_get("now")?))
}

impl Store {
    /// Locks rows and reads them, in one round trip; a missing row costs another.
    pub(super) async fn hold(
        &self,
        tx: &Transaction,
        ids: &[Uuid],
        rows: Rows,
        reading: Reading<'_>,
    ) -> Result<LockedRows, DbError> {
        let (locked, rows) = match (rows, reading) {
            (Rows::Free, Reading::Row) => {
                let statement = tx.prepare_cached(sql::LOCK_AND_READ).await?;
                let rows = by_id(tx.query(&statement, &[&ids]).await?);
                (rows.keys().copied().collect(), rows)
            }
            (Rows::Free, Reading::Also(read)) => {
                let (locked, rows) = lock_then_read(tx, ids, sql::LOCK_MANY, read).await?;
                (locked.iter().map(|row| row.get("id")).collect::<HashSet<_>>(), rows)
            }
            (Rows::Awaited, reading) => {
                let (_, rows) = lock_then_read(tx, ids, sql::LOCK_AWAITED, reading.statement()).await?;
                (ids.iter().copied().collect(), rows)
            }
        };
        if locked.iter().any(|id| !rows.contains_key(id)) {
            shown(tx).await?;
        }
        let mut drafts = rows.iter().map(|(id, row)| (*id, draft(row))).collect();
        self.salvage(tx, &mut drafts).await?;
        Ok(LockedRows { locked, rows, drafts })
    }

    /// Salvages for the drafts of documents that cannot be parsed what can be read of them.
    async fn salvage(
        &self,
        tx: &Transaction,
        drafts: &mut HashMap<Uuid, Result<Draft, DbError>>,
    ) -> Result<(), DbError> {
        let unreadable = drafts.iter_mut().filter_map(|(id, draft)| Some((*id, draft.as_mut().ok()?)));
        let mut unreadable: HashMap<Uuid, &mut Draft> =
            unreadable.filter(|(_, draft)| draft.is_unreadable()).collect();
        if unreadable.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = unreadable.keys().copied().collect();
        let statement = tx.prepare_cached(sql::SALVAGE).await?;
        let mut found: HashMap<Uuid, Salvage> = HashMap::new();
        for row in tx.query(&statement, &[&ids]).await? {
            let read =
                |column| Ok::<_, DbError>(row.try_get::<_, Option<Stored>>(column)?.map(Stored::parsed));
            let salvage = found.entry(row.try_get("id")?).or_default();
            if let (Some(key), Some(Ok(delivery))) = (row.try_get("key")?, read("value")?) {
                salvage.deliveries.insert(key, delivery);
            }
            salvage.generations = read("generations")?.and_then(Result::ok);
            salvage.is_signed = row.try_get("signed")?;
        }
        for (id, salvage) in found {
            if let Some(draft) = unreadable.get_mut(&id) {
                draft.salvage(salvage);
            }
        }
        Ok(())
    }

    /// Writes what was decided about locked rows.
    ///
    /// # Errors
    /// [`DbError`], also where a locked row took no write (a policy or a trigger of somebody else's kept it away): the
    /// decision does not stand then, and a caller that took it for written would send without an intent.
    pub(super) async fn write_locked(
        &self,
        tx: &Transaction,
        mut changes: Vec<(Uuid, Change)>,
    ) -> Result<(), DbError> {
        changes.retain(|(_, change)| !change.is_empty());
        if changes.is_empty() {
            return Ok(());
        }
        for (_, change) in &mut changes {
            self.settings.audit.seal_rows(&mut change.audits);
        }
        let of = || changes.iter().map(|(_, change)| change);
        let ids: Vec<Uuid> = changes.iter().map(|(id, _)| *id).collect();
        let statuses: Vec<Option<&str>> =
            of().map(|change| change.transition.map(|transition| transition.to().label())).collect();
        let touched: Vec<bool> = of().map(|change| change.touched).collect();
        let ends: Vec<bool> = of().map(|change| change.ends_claim).collect();
        let keys: Vec<_> = of().map(keys).collect();
        let beside = |change: &&Change| !change.all_deliveries && !change.deliveries.is_empty();
        let deliveries: Vec<_> =
            of().map(|change| Some(change).filter(beside).map(|c| Json(&c.deliveries))).collect();
        let happyfox: Vec<Option<&str>> = of().map(|change| change.happyfox_status).collect();
        let audits: Vec<_> = of().map(|change| Json(&change.audits)).collect();
        let write = tx.prepare_cached(sql::WRITE_LOCKED).await?;
        let actor = &self.settings.actor;
        let written = tx
            .query(&write, &[&ids, &statuses, &touched, &ends, &keys, &deliveries, &happyfox, &audits, actor])
            .await?;
        let made = |(id, change): &(Uuid, Change)| Some((*id, change.happyfox_ticket_id.clone()?));
        let (of_tickets, tickets): (Vec<Uuid>, Vec<String>) = changes.iter().filter_map(made).unzip();
        if !tickets.is_empty() {
            let write = tx.prepare_cached(sql::WRITE_TICKETS).await?;
            tx.query(&write, &[&of_tickets, &tickets]).await?;
        }
        all_took(ids.len(), written.len())
    }
}

/// Keys to set as a whole, with the deliveries where all of them are set: the server need not merge those.
fn keys(change: &Change) -> Json<Keys<'_>> {
    let deliveries = Some(&change.deliveries).filter(|_| change.all_deliveries);
    Json(Keys { keys: &change.keys, deliveries })
}

#[derive(Debug, Serialize)]
struct Keys<'a> {
    #[serde(flatten)]
    keys: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deliveries: Option<&'a Map<String, Value>>,
}
