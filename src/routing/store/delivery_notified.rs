//! Notifications of lost mails: asked for before, recorded after (`deliveries.KEY.relay.told_at`).
//!
//! Merged under the row's lock into the relay entry that is there, whatever the submission's status; an entry of another
//! generation, or one that is not lost any more, is left alone. If we die in the middle nothing is written, and people are
//! notified again. Never here: a change of status or of `updated_at` (a notification is no move), a write to a purged row, a
//! wait for a row that another transaction has locked.

use std::collections::BTreeMap;

use jiff::Timestamp;
use uuid::Uuid;

use super::sql::LOCK_MANY;
use crate::db::DbError;
use crate::db::batch::{Batch, Refused, divided};
use crate::db::pool::Pool;
use crate::routing::delivery::lost::Mail;

/// SQL, boolean, never true for a damaged entry: relay entry `r` of submission `s`, asked for as `a`, awaits notification.
macro_rules! unnotified {
    () => {
        "s.status <> 'purged' AND jsonb_typeof(m.r) = 'object' AND m.r->>'status' IN ('bounced', 'expired')
  AND m.r->>'told_at' IS NULL AND COALESCE(m.r->>'generation', '0') = a.generation"
    };
}

/// Lost mails of which nobody was notified. `$1` ids, `$2` delivery keys, `$3` generations.
const UNNOTIFIED: &str = concat!(
    "-- delivery_untold
SELECT a.n, s.form_id, left(COALESCE(m.r->>'text', ''), 500) AS text, clock_timestamp() AS now
FROM unnest($1::uuid[], $2::text[], $3::text[]) WITH ORDINALITY AS a(id, key, generation, n)
JOIN submissions s ON s.id = a.id
CROSS JOIN LATERAL (SELECT s.routing_result->'deliveries'->a.key->'relay' AS r) m
WHERE ",
    unnotified!(),
    " ORDER BY a.n"
);

/// Records notifications. `$1` ids, `$2` delivery keys, `$3` generations, `$4` ids that are locked. Answers how many mails.
const NOTIFIED: &str = concat!(
    "-- delivery_told
WITH notified AS (
  SELECT s.id, count(*) AS mails, jsonb_object_agg(a.key, (s.routing_result->'deliveries'->a.key)
    || jsonb_build_object('relay', m.r || jsonb_build_object('told_at', clock_timestamp()))) AS entries
  FROM unnest($1::uuid[], $2::text[], $3::text[]) AS a(id, key, generation)
  JOIN submissions s ON s.id = a.id
  CROSS JOIN LATERAL (SELECT s.routing_result->'deliveries'->a.key->'relay' AS r) m
  WHERE s.id = ANY($4::uuid[]) AND ",
    unnotified!(),
    " GROUP BY s.id
)
UPDATE submissions s SET routing_result = s.routing_result
  || jsonb_build_object('deliveries', (s.routing_result->'deliveries') || t.entries)
FROM notified t WHERE s.id = t.id
RETURNING t.mails"
);

/// The store of notifications of lost mails. Cheap to clone.
#[derive(Debug, Clone)]
pub struct NotificationStore {
    pool: Pool,
}

/// A lost mail of which nobody was notified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unnotified {
    /// The mail's index among those asked for.
    pub index: usize,
    /// The submission's form.
    pub form_id: String,
    /// The relay's text; may contain addresses.
    pub text: String,
    /// Database time of this answer.
    pub now: Timestamp,
}

/// The outcome of recording notifications.
#[derive(Debug, Clone, Default)]
pub struct Written {
    /// Number of mails whose relay entries say so now.
    pub written: usize,
    /// Submissions locked by another transaction: to be tried again.
    pub busy: Vec<Uuid>,
    /// Submissions that refuse the write.
    pub refused: Vec<Refused<Uuid>>,
}

impl NotificationStore {
    /// A store over `pool`.
    #[must_use]
    pub fn new(pool: Pool) -> Self {
        Self { pool }
    }

    /// The lost mails among `mails` of which nobody was notified, in their order.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn unnotified(&self, mails: &[Mail]) -> Result<Vec<Unnotified>, DbError> {
        let (ids, keys, generations) = columns(mails);
        let rows = self
            .pool
            .transaction("alert_look", async |tx| {
                let statement = tx.prepare_cached(UNNOTIFIED).await?;
                tx.query(&statement, &[&ids, &keys, &generations]).await
            })
            .await?;
        let unnotified = |row: &tokio_postgres::Row| {
            let index: i64 = row.try_get("n")?;
            Ok(Unnotified {
                index: usize::try_from(index - 1).unwrap_or(usize::MAX),
                form_id: row.try_get("form_id")?,
                text: row.try_get("text")?,
                now: row.try_get("now")?,
            })
        };
        rows.iter().map(unnotified).collect()
    }

    /// Records that people were notified of `mails`; idempotent.
    ///
    /// # Errors
    /// [`DbError`]; what is written by then stands.
    pub async fn notified(&self, mails: &[Mail]) -> Result<Written, DbError> {
        let mut by_row: BTreeMap<Uuid, Vec<&Mail>> = BTreeMap::new();
        for mail in mails {
            by_row.entry(mail.submission_id).or_default().push(mail);
        }
        let ids: Vec<Uuid> = by_row.keys().copied().collect();
        let Batch { done, refused, fault } = divided(&ids, |ids| self.write_notified(ids, &by_row)).await;
        fault.map_or(Ok(()), Err)?;
        let mut all = Written { refused, ..Written::default() };
        for mut part in done {
            all.written += part.written;
            all.busy.append(&mut part.busy);
        }
        Ok(all)
    }

    async fn write_notified(
        &self,
        rows: Vec<Uuid>,
        by_row: &BTreeMap<Uuid, Vec<&Mail>>,
    ) -> Result<Written, DbError> {
        let mails = rows.iter().filter_map(|id| by_row.get(id)).flatten().copied();
        let (ids, keys, generations) = columns(mails);
        self.pool
            .transaction("alert_confirm", async |tx| {
                let lock = tx.prepare_cached(LOCK_MANY).await?;
                let locked: Vec<Uuid> =
                    tx.query(&lock, &[&ids]).await?.iter().map(|row| row.get("id")).collect();
                let there = tx.prepare_cached(THERE).await?;
                let there: Vec<Uuid> =
                    tx.query(&there, &[&ids]).await?.iter().map(|row| row.get("id")).collect();
                let statement = tx.prepare_cached(NOTIFIED).await?;
                let rows = tx.query(&statement, &[&ids, &keys, &generations, &locked]).await?;
                let mails = rows.iter().map(|row| row.try_get::<_, i64>("mails"));
                let written: i64 = mails.sum::<Result<i64, _>>()?;
                Ok(Written {
                    written: usize::try_from(written).unwrap_or_default(),
                    busy: there.into_iter().filter(|id| !locked.contains(id)).collect(),
                    refused: Vec::new(),
                })
            })
            .await
    }
}

/// Ids of existing rows: a row that is gone is not busy. `$1` ids.
const THERE: &str = "-- delivery_there
SELECT s.id FROM submissions s WHERE s.id = ANY($1::uuid[])";

fn columns<'a>(mails: impl IntoIterator<Item = &'a Mail>) -> (Vec<Uuid>, Vec<&'a str>, Vec<String>) {
    let (mut ids, mut keys, mut generations) = (Vec::new(), Vec::new(), Vec::new());
    for mail in mails {
        ids.push(mail.submission_id);
        keys.push(mail.delivery.as_str());
        generations.push(mail.generation.to_string());
    }
    (ids, keys, generations)
}
