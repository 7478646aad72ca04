//! What became of mails beyond the relay, written to their deliveries.
//!
//! Rows are locked in id order and decided on under the lock; a row that somebody else has locked is answered as busy. Marks
//! are merged whatever state a delivery is in and whoever holds the claim; `updated_at`, which says when a submission last
//! moved, stays, and so does every status. If we die before the commit nothing happened; after it, the same lines change
//! nothing more.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::group::Rows;
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
use crate::routing::ledger::{DeliveryState, Ledger, RelayMark};
use crate::routing::table::Status;

/// What is read of a locked row.
const READ: &str = "-- delivery_read
SELECT s.id, s.form_id, s.status::text AS status, s.routing_result, clock_timestamp() AS now
FROM submissions s WHERE s.id = ANY($1::uuid[]) AND s.status <> 'purged' ORDER BY s.id";

/// Which of some rows are there.
const KNOWN: &str = "-- delivery_known
SELECT s.id FROM submissions s WHERE s.id = ANY($1::uuid[]) AND s.status <> 'purged'";

/// Merges marks into deliveries that are there. `$1` ids, `$2` `{key: mark}`, `$3` audit details of lost mails, `$4` actor.
const WRITE: &str = "-- delivery_write
WITH w AS (
  SELECT * FROM unnest($1::uuid[], $2::jsonb[], $3::jsonb[]) AS t(id, marks, lost)
), u AS (
  UPDATE submissions s SET routing_result = s.routing_result || jsonb_build_object('deliveries',
    (s.routing_result->'deliveries') || (
      SELECT jsonb_object_agg(e.key, (s.routing_result->'deliveries'->e.key) || jsonb_build_object('relay', e.value))
      FROM jsonb_each(w.marks) AS e WHERE jsonb_typeof(s.routing_result->'deliveries'->e.key) = 'object'))
  FROM w WHERE s.id = w.id AND jsonb_typeof(s.routing_result->'deliveries') = 'object'
  RETURNING s.id, s.form_id, w.lost
), a AS (
  INSERT INTO audit_log (actor, action, submission_id, form_id, detail)
  SELECT $4, 'email_failed', u.id, u.form_id, e FROM u, jsonb_array_elements(u.lost) AS e
)
SELECT u.id FROM u";

/// One delivery whose mark has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked {
    /// The submission.
    pub id: Uuid,
    /// Its form.
    pub form_id: String,
    /// The delivery's key; names a recipient.
    pub key: String,
    /// Its place among the deliveries of its action, from 1, and how many there are.
    pub place: (usize, usize),
    /// See [`RelayStatus`].
    pub status: RelayStatus,
    /// RFC 3463 status.
    pub dsn: Option<String>,
    /// The relay's queue id.
    pub queue_id: Option<String>,
    /// The mail is lost, and was not before.
    pub lost: bool,
    /// The delivery was in doubt, and is accepted now.
    pub found: bool,
    /// When, by the database.
    pub at: Timestamp,
}

/// A lost mail that nobody was told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untold {
    /// The submission.
    pub id: Uuid,
    /// The delivery's key.
    pub key: String,
    /// Generation of the mail.
    pub generation: u32,
    /// See [`RelayStatus`].
    pub status: RelayStatus,
    /// RFC 3463 status.
    pub dsn: Option<String>,
    /// See [`RelayMark::claimed`].
    pub claimed: bool,
    /// When its mark was recorded, by the database.
    pub at: Timestamp,
}

impl Untold {
    fn of(id: Uuid, key: &str, mark: &RelayMark) -> Self {
        let (generation, status, at) = (mark.generation, mark.status, mark.at);
        let (dsn, claimed) = (mark.dsn.clone(), mark.claimed);
        Self { id, key: key.to_owned(), generation, status, dsn, claimed, at }
    }
}

impl From<Untold> for Lost {
    fn from(untold: Untold) -> Self {
        let Untold { id, key, generation, status, dsn, claimed, at } = untold;
        let mail = Mail { submission_id: id, delivery: key, generation };
        Self { mail, cause: LostCause::of(status, dsn.as_deref(), claimed), at, told: false }
    }
}

/// What became of a batch.
#[derive(Debug, Clone, Default)]
pub struct SeenRecorded {
    /// What has changed.
    pub marked: Vec<Marked>,
    /// Lost mails, new ones and those that a former life of this teller may not have told of.
    pub untold: Vec<Untold>,
    /// Rows that somebody else has locked: to be tried again.
    pub busy: Vec<Seen>,
    /// What was not believed, because nothing says that the mail was ours.
    pub unproved: Vec<Seen>,
    /// Rows that refuse the write.
    pub refused: Vec<Refused<Uuid>>,
    /// What ended the batch early; what is not answered here is to be tried again with all the rest: that changes nothing.
    pub fault: Option<DbError>,
}

impl Store {
    /// Records what was seen beyond the relay; `by` names the teller. Repeating it changes nothing.
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
            recorded.marked.append(&mut part.marked);
            recorded.untold.append(&mut part.untold);
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
                self.write_marks(&tx, &writes).await?;
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

    async fn write_marks(&self, tx: &Transaction, writes: &[Write]) -> Result<(), DbError> {
        if writes.is_empty() {
            return Ok(());
        }
        let actor = &self.settings.actor;
        let proved: Vec<&Write> = writes.iter().filter(|write| !write.facts.is_empty()).collect();
        if !proved.is_empty() {
            let ids: Vec<Uuid> = proved.iter().map(|write| write.id).collect();
            let mut held = self.hold(tx, &ids, Rows::Awaited, sql::READ_HELD).await?;
            let mut changes = Vec::with_capacity(ids.len());
            for write in proved {
                let Some(mut draft) = held.draft(write.id)? else { continue };
                draft.merge("", &write.facts);
                changes.push((write.id, draft.into_change()));
            }
            self.write_held(tx, &changes).await?;
        }
        let ids: Vec<Uuid> = writes.iter().map(|write| write.id).collect();
        let marks: Vec<Value> = writes.iter().map(|write| Value::Object(write.marks.clone())).collect();
        let sealed = |detail| self.settings.audit.sealed(detail);
        let lost: Vec<Value> = writes.iter().map(|write| write.lost.iter().map(sealed).collect()).collect();
        let statement = tx.prepare_cached(WRITE).await?;
        let written = tx.query(&statement, &[&ids, &marks, &lost, actor]).await?;
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

/// What is written to a row.
struct Write {
    id: Uuid,
    marks: Map<String, Value>,
    lost: Vec<Value>,
    facts: Map<String, Value>,
}

/// Decides about everything seen of one row, one after the other.
fn judge(row: &Row, stored: &Stored, seen: &[&Seen], by: &str, recorded: &mut SeenRecorded) -> Option<Write> {
    // A ledger that is damaged or of a newer version is left to those who can read it.
    let (Ok(mut ledger), Some(status)) = (stored.ledger(), Status::parse(&row.status)) else {
        return None;
    };
    let mut write = Write { id: row.id, marks: Map::new(), lost: Vec::new(), facts: Map::new() };
    for one in seen {
        match status::decide(&ledger, status, one, by, row.now) {
            Decision::Foreign | Decision::Known { untold: None } => {}
            Decision::Unproved => recorded.unproved.push((*one).clone()),
            Decision::Known { untold: Some(key) } => {
                let untold = ledger.deliveries.get(&key).and_then(|delivery| delivery.relay.as_ref());
                recorded.untold.extend(untold.map(|mark| Untold::of(row.id, &key, mark)));
            }
            Decision::Changes(change) => {
                recorded.marked.push(marked(row, &ledger, &change));
                write.note(&mut ledger, *change, recorded);
            }
        }
    }
    (!write.marks.is_empty()).then_some(write)
}

impl Write {
    /// Takes a change down, and into the ledger that the next one is decided on.
    fn note(&mut self, ledger: &mut Ledger, change: Change, recorded: &mut SeenRecorded) {
        let Change { key, mark, lost, untold, found } = change;
        self.lost.extend(lost);
        if untold {
            recorded.untold.push(Untold::of(self.id, &key, &mark));
        }
        self.facts.extend(found.iter().flatten().map(|(key, fact)| (key.clone(), fact.clone())));
        if let Some(delivery) = ledger.deliveries.get_mut(&key) {
            if found.is_some() {
                delivery.state = DeliveryState::Accepted;
                delivery.doubt = false;
                delivery.begun = None;
            }
            delivery.relay = Some(mark.clone());
        }
        self.marks.insert(key, json!(mark));
    }
}

fn marked(row: &Row, ledger: &Ledger, change: &Change) -> Marked {
    let order = crate::routing::ledger::order_of(&change.key).unwrap_or_default();
    let keys: Vec<&str> = ledger.deliveries_of(order).map(|(key, _)| key).collect();
    let place = keys.iter().position(|key| *key == change.key).map_or(0, |place| place + 1);
    Marked {
        id: row.id,
        form_id: row.form_id.clone(),
        key: change.key.clone(),
        place: (place, keys.len()),
        status: change.mark.status,
        dsn: change.mark.dsn.clone(),
        queue_id: change.mark.queue_id.clone(),
        lost: change.lost.is_some(),
        found: change.found.is_some(),
        at: row.now,
    }
}
