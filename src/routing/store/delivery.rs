//! Delivery tracking: what became of mails after the relay's acceptance, written to their deliveries.
//!
//! Rows are locked in id order and decided on under the lock; a row that another transaction has locked is answered as busy.
//! Relay entries are merged whatever state a delivery is in and whichever worker has the claim; `updated_at`, the time of a
//! submission's last move, stays, and so does every status. If we die before the commit nothing happened; after it, the same
//! lines change nothing more.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::group::Rows;
use super::locked::Reading;
use super::stored::Stored;
use super::sweep::all_took;
use super::{Store, sql};
use crate::db::DbError;
use crate::db::batch::{Batch, Refused, divided};
use crate::db::pool::Transaction;
use crate::ports::RelayStatus;
use crate::routing::delivery::Seen;
use crate::routing::delivery::lost::{Lost, LostCause, Mail};
use crate::routing::delivery::status::{self, Change, Decision};
use crate::routing::submission::ledger::{DeliveryState, Ledger, RelayEntry};
use crate::routing::table::Status;

/// The columns read of a locked row.
const READ: &str = "-- delivery_read
SELECT s.id, s.form_id, s.status::text AS status, s.routing_result, clock_timestamp() AS now
FROM submissions s WHERE s.id = ANY($1::uuid[]) AND s.status <> 'purged' ORDER BY s.id";

/// The ids of `$1` whose rows exist.
const KNOWN: &str = "-- delivery_known
SELECT s.id FROM submissions s WHERE s.id = ANY($1::uuid[]) AND s.status <> 'purged'";

/// Merges relay entries into deliveries. `$1` ids, `$2` `{key: entry}`, `$3` audit details of lost mails, `$4` actor.
const WRITE: &str = "-- delivery_write
WITH w AS (
  SELECT * FROM unnest($1::uuid[], $2::jsonb[], $3::jsonb[]) AS t(id, entries, lost)
), u AS (
  UPDATE submissions s SET routing_result = s.routing_result || jsonb_build_object('deliveries',
    (s.routing_result->'deliveries') || (
      SELECT jsonb_object_agg(e.key, (s.routing_result->'deliveries'->e.key) || jsonb_build_object('relay', e.value))
      FROM jsonb_each(w.entries) AS e WHERE jsonb_typeof(s.routing_result->'deliveries'->e.key) = 'object'))
  FROM w WHERE s.id = w.id AND jsonb_typeof(s.routing_result->'deliveries') = 'object'
  RETURNING s.id, s.form_id, w.lost
), a AS (
  INSERT INTO audit_log (actor, action, submission_id, form_id, detail)
  SELECT $4, 'email_failed', u.id, u.form_id, e FROM u, jsonb_array_elements(u.lost) AS e
)
SELECT u.id FROM u";

/// One delivery whose relay entry has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusChanged {
    /// The submission.
    pub id: Uuid,
    /// The submission's form.
    pub form_id: String,
    /// The delivery's key; names a recipient.
    pub key: String,
    /// The delivery's index among those of its action, from 1, and how many there are.
    pub index: (usize, usize),
    /// The mail's status at the relay.
    pub status: RelayStatus,
    /// RFC 3463 status.
    pub dsn: Option<String>,
    /// The relay's queue id.
    pub queue_id: Option<String>,
    /// The mail is lost, and was not before.
    pub lost: bool,
    /// The delivery was in doubt, and is accepted now.
    pub found: bool,
    /// When the entry was decided on, by the database.
    pub at: Timestamp,
}

/// A lost mail of which nobody was notified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unnotified {
    /// The submission.
    pub id: Uuid,
    /// The delivery's key.
    pub key: String,
    /// Generation of the mail.
    pub generation: u32,
    /// The mail's status at the relay.
    pub status: RelayStatus,
    /// RFC 3463 status.
    pub dsn: Option<String>,
    /// See [`RelayEntry::claimed`].
    pub claimed: bool,
    /// When the relay entry was recorded, by the database.
    pub at: Timestamp,
}

impl Unnotified {
    fn of(id: Uuid, key: &str, entry: &RelayEntry) -> Self {
        let (generation, status, at) = (entry.generation, entry.status, entry.at);
        let (dsn, claimed) = (entry.dsn.clone(), entry.claimed);
        Self { id, key: key.to_owned(), generation, status, dsn, claimed, at }
    }
}

impl From<Unnotified> for Lost {
    fn from(unnotified: Unnotified) -> Self {
        let Unnotified { id, key, generation, status, dsn, claimed, at } = unnotified;
        let mail = Mail { submission_id: id, delivery: key, generation };
        Self { mail, cause: LostCause::of(status, dsn.as_deref(), claimed), at, notified: false }
    }
}

/// The outcome of a batch.
#[derive(Debug, Clone, Default)]
pub struct SeenRecorded {
    /// Deliveries whose entries have changed.
    pub changed: Vec<StatusChanged>,
    /// Lost mails: new ones, and those of which an earlier run of this daemon may not have notified people.
    pub unnotified: Vec<Unnotified>,
    /// Reports whose rows another transaction has locked: to be tried again.
    pub busy: Vec<Seen>,
    /// Reports that were not believed, because nothing says that the mail was ours.
    pub unproved: Vec<Seen>,
    /// Rows that refuse the write.
    pub refused: Vec<Refused<Uuid>>,
    /// The fault that ended the batch early: the whole batch is to be tried again, which changes nothing that stands.
    pub fault: Option<DbError>,
}

impl Store {
    /// Records what delivery tracking has seen; `by` names its source. Repeating it changes nothing.
    ///
    /// # Errors
    /// [`DbError`]: unknown whether it stands; repeat it.
    pub async fn record_seen(&self, seen: &[Seen], by: &str) -> Result<SeenRecorded, DbError> {
        let mut by_row: BTreeMap<Uuid, Vec<&Seen>> = BTreeMap::new();
        for one in seen {
            by_row.entry(one.origin.submission).or_default().push(one);
        }
        let ids: Vec<Uuid> = by_row.keys().copied().collect();
        let Batch { done, refused, fault } =
            divided(&ids, |ids| self.record_rows(ids, &by_row, by)).await.unless_nothing()?;
        let mut recorded = SeenRecorded { refused, fault, ..SeenRecorded::default() };
        for mut part in done {
            recorded.changed.append(&mut part.changed);
            recorded.unnotified.append(&mut part.unnotified);
            recorded.busy.append(&mut part.busy);
            recorded.unproved.append(&mut part.unproved);
        }
        Ok(recorded)
    }

    async fn record_rows(
        &self,
        ids: Vec<Uuid>,
        by_row: &BTreeMap<Uuid, Vec<&Seen>>,
        by: &str,
    ) -> Result<SeenRecorded, DbError> {
        let ids = &ids;
        self.pool
            .transaction("record_seen", async |tx| {
                let lock = tx.prepare_cached(sql::LOCK_MANY).await?;
                let read = tx.prepare_cached(READ).await?;
                let known = tx.prepare_cached(KNOWN).await?;
                let locked: Vec<Uuid> =
                    tx.query(&lock, &[ids]).await?.iter().map(|row| row.get("id")).collect();
                let missing: Vec<Uuid> = ids.iter().copied().filter(|id| !locked.contains(id)).collect();
                let (rows, there) =
                    futures::future::try_join(tx.query(&read, &[&locked]), tx.query(&known, &[&missing]))
                        .await?;
                let mut recorded = SeenRecorded::default();
                for id in there.iter().map(|row| row.get::<_, Uuid>("id")) {
                    recorded.busy.extend(by_row.get(&id).into_iter().flatten().map(|seen| (*seen).clone()));
                }
                let mut writes = Vec::new();
                for row in &rows {
                    let stored: Stored = row.try_get("routing_result")?;
                    let row = Row {
                        id: row.try_get("id")?,
                        form_id: row.try_get("form_id")?,
                        status: row.try_get("status")?,
                        now: row.try_get("now")?,
                    };
                    let seen = by_row.get(&row.id).map(Vec::as_slice).unwrap_or_default();
                    writes.extend(judge(&row, &stored, seen, by, &mut recorded));
                }
                self.write_entries(&tx, &writes).await?;
                Ok(recorded)
            })
            .await
    }

    /// The database's time.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn now(&self) -> Result<Timestamp, DbError> {
        let client = self.pool.get().await?;
        Ok(client.query_one("-- now\nSELECT clock_timestamp() AS now", &[]).await?.try_get("now")?)
    }

    async fn write_entries(&self, tx: &Transaction, writes: &[Write]) -> Result<(), DbError> {
        if writes.is_empty() {
            return Ok(());
        }
        let actor = &self.settings.actor;
        let proved: Vec<&Write> = writes.iter().filter(|write| !write.facts.is_empty()).collect();
        if !proved.is_empty() {
            let ids: Vec<Uuid> = proved.iter().map(|write| write.id).collect();
            let mut locked = self.hold(tx, &ids, Rows::Awaited, Reading::Row).await?;
            let mut changes = Vec::with_capacity(ids.len());
            for write in proved {
                let Some(mut draft) = locked.draft(write.id)? else { continue };
                draft.merge("", &write.facts);
                changes.push((write.id, draft.into_change()));
            }
            self.write_locked(tx, changes).await?;
        }
        let ids: Vec<Uuid> = writes.iter().map(|write| write.id).collect();
        let entries: Vec<Value> = writes.iter().map(|write| Value::Object(write.entries.clone())).collect();
        let sealed = |detail| self.settings.audit.sealed(detail);
        let lost: Vec<Value> = writes.iter().map(|write| write.lost.iter().map(sealed).collect()).collect();
        let statement = tx.prepare_cached(WRITE).await?;
        let written = tx.query(&statement, &[&ids, &entries, &lost, actor]).await?;
        all_took(ids.len(), written.len())
    }
}

/// A locked row, without its document.
struct Row {
    id: Uuid,
    form_id: String,
    status: String,
    now: Timestamp,
}

/// The changes to write to a row.
struct Write {
    id: Uuid,
    entries: Map<String, Value>,
    lost: Vec<Value>,
    facts: Map<String, Value>,
}

/// Decides about every report on one row, one after the other.
fn judge(row: &Row, stored: &Stored, seen: &[&Seen], by: &str, recorded: &mut SeenRecorded) -> Option<Write> {
    // A ledger that is damaged or of a newer version is left to those who can read it.
    let (Ok(mut ledger), Some(status)) = (stored.ledger(), Status::parse(&row.status)) else {
        return None;
    };
    let mut write = Write { id: row.id, entries: Map::new(), lost: Vec::new(), facts: Map::new() };
    for one in seen {
        match status::decide(&ledger, status, one, by, row.now) {
            Decision::Foreign | Decision::Known { unnotified: None } => {}
            Decision::Unproved => recorded.unproved.push((*one).clone()),
            Decision::Known { unnotified: Some(key) } => {
                let unnotified = ledger.deliveries.get(&key).and_then(|delivery| delivery.relay.as_ref());
                recorded.unnotified.extend(unnotified.map(|entry| Unnotified::of(row.id, &key, entry)));
            }
            Decision::Changes(change) => {
                recorded.changed.push(changed(row, &ledger, &change));
                write.note(&mut ledger, *change, recorded);
            }
        }
    }
    (!write.entries.is_empty()).then_some(write)
}

impl Write {
    /// Adds a change to the write, and to the ledger that the next report is decided on.
    fn note(&mut self, ledger: &mut Ledger, change: Change, recorded: &mut SeenRecorded) {
        let Change { key, entry, lost, unnotified, found } = change;
        self.lost.extend(lost);
        if unnotified {
            recorded.unnotified.push(Unnotified::of(self.id, &key, &entry));
        }
        self.facts.extend(found.iter().flatten().map(|(key, fact)| (key.clone(), fact.clone())));
        if let Some(delivery) = ledger.deliveries.get_mut(&key) {
            if found.is_some() {
                delivery.state = DeliveryState::Accepted;
                delivery.doubt = false;
                delivery.intent = None;
            }
            delivery.relay = Some(entry.clone());
        }
        self.entries.insert(key, json!(entry));
    }
}

fn changed(row: &Row, ledger: &Ledger, change: &Change) -> StatusChanged {
    let order = crate::routing::submission::ledger::order_of(&change.key).unwrap_or_default();
    let keys: Vec<&str> = ledger.deliveries_of(order).map(|(key, _)| key).collect();
    let index = keys.iter().position(|key| *key == change.key).map_or(0, |index| index + 1);
    StatusChanged {
        id: row.id,
        form_id: row.form_id.clone(),
        key: change.key.clone(),
        index: (index, keys.len()),
        status: change.entry.status,
        dsn: change.entry.dsn.clone(),
        queue_id: change.entry.queue_id.clone(),
        lost: change.lost.is_some(),
        found: change.found.is_some(),
        at: row.now,
    }
}
