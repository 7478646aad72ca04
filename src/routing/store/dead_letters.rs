//! Dead-letter records in schema `router`, and the rows that are records of themselves (protocol, "Dead letters").
//!
//! If we die before a commit nothing happened; a letter that comes again is recognised by its Pub/Sub message id. Never
//! writes to a submission.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::db::DbError;
use crate::db::pool::Pool;
use crate::kernel::rows::word_in;
use crate::ports::RecordKind;
use crate::routing::dead_letter::{Closed, Closing, Origin, Record, Silent, Standing};
use crate::routing::submission::ledger::FailReason;

/// Verb of the override that closes an exhausted row.
pub const DISCARD: &str = "dlq discard";

/// The statements about dead letters. Cheap to clone.
#[derive(Debug, Clone)]
pub struct DeadLetterStore {
    pool: Pool,
}

/// A row that failed because nothing was left to try: its own record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExhaustedRow {
    /// The submission.
    pub id: Uuid,
    /// When it failed.
    pub at: Timestamp,
    /// `exhausted` or `no_actions`.
    pub reason: String,
    /// Token of the end this record stands for.
    #[serde(skip)]
    pub token: Option<String>,
}

// Naming a table of a schema that may not be used is an error, so the schema is asked first.
const IS_THERE: &str = "-- dead_letters_there
SELECT CASE WHEN COALESCE(has_schema_privilege(to_regnamespace('router'), 'USAGE'), false)
  THEN to_regclass('router.dead_letters') IS NOT NULL ELSE false END AS there, clock_timestamp() AS now";

const STANDING: &str = "-- dead_letter_standing
SELECT s.status::text AS status, s.routing_result#>>'{finished,reason}' AS reason FROM submissions s WHERE s.id = $1";

const ADD: &str = "-- dead_letter_add
INSERT INTO router.dead_letters (id, kind, at, submission_id, reason, message_id, payload, payload_sha256, attributes)
VALUES ($1, $2, clock_timestamp(), $3, $4, $5, $6, $7, $8) ON CONFLICT (message_id) DO NOTHING";

const LOCK_UNALERTED: &str = "-- dead_letter_lock_unalerted
SELECT d.id FROM router.dead_letters d WHERE d.alerted_at IS NULL
  AND d.redriven_at IS NULL AND d.discarded_at IS NULL
  AND (d.alert_leased_until IS NULL OR d.alert_leased_until < now())
ORDER BY d.id LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED";

const LEASE: &str = "-- dead_letter_lease
UPDATE router.dead_letters d SET alert_leased_until = clock_timestamp() + make_interval(secs => $2)
WHERE d.id = ANY($1::uuid[]) RETURNING d.id, d.kind, d.message_id";

const LOCK: &str = "-- dead_letter_lock
SELECT d.id FROM router.dead_letters d WHERE d.id = ANY($1::uuid[]) ORDER BY d.id FOR NO KEY UPDATE";

const ALERTED: &str = "-- dead_letter_alerted
UPDATE router.dead_letters d SET alerted_at = clock_timestamp(), alert_leased_until = NULL
WHERE d.id = ANY($1::uuid[]) AND d.alerted_at IS NULL";

const LIST: &str = "-- dead_letter_list
SELECT d.id, d.kind, d.at, d.submission_id, d.reason, d.message_id, ''::bytea AS payload, d.payload_sha256, d.attributes,
  d.alerted_at, d.redriven_at, d.discarded_at, d.actor, d.reason_closed
FROM router.dead_letters d
WHERE ($1 OR (d.redriven_at IS NULL AND d.discarded_at IS NULL)) ORDER BY d.at, d.id LIMIT $2";

const GET: &str = "-- dead_letter_get
SELECT d.id, d.kind, d.at, d.submission_id, d.reason, d.message_id, d.payload, d.payload_sha256, d.attributes,
  d.alerted_at, d.redriven_at, d.discarded_at, d.actor, d.reason_closed
FROM router.dead_letters d WHERE d.id = $1";

const CLOSE: &str = "-- dead_letter_close
UPDATE router.dead_letters d SET
  redriven_at = CASE WHEN $2 THEN clock_timestamp() END, discarded_at = CASE WHEN NOT $2 THEN clock_timestamp() END,
  actor = $3, reason_closed = $4
WHERE d.id = $1 AND d.redriven_at IS NULL AND d.discarded_at IS NULL";

/// A row that an operator has discarded stays a failed row, and is no record any more.
const EXHAUSTED: &str = "-- dead_letter_exhausted
SELECT s.id, s.updated_at AS at, s.routing_result#>>'{finished,reason}' AS reason,
  s.routing_result#>>'{finished,token}' AS token
FROM submissions s
WHERE s.status = 'failed' AND s.routing_result#>>'{finished,reason}' IN ('exhausted', 'no_actions')
  AND ($1 OR NOT COALESCE(s.routing_result->'overrides' @> jsonb_build_array(
    jsonb_build_object('verb', $3::text, 'for', s.routing_result#>>'{finished,token}')), false))
  AND ($4::uuid IS NULL OR s.id = $4)
ORDER BY s.updated_at, s.id LIMIT $2";

const COUNTS: &str = "-- dead_letter_counts
SELECT d.kind, count(*) AS n FROM router.dead_letters d WHERE d.redriven_at IS NULL AND d.discarded_at IS NULL GROUP BY d.kind";

const EXHAUSTED_COUNT: &str = "-- dead_letter_exhausted_count
SELECT count(*) AS n FROM submissions s
WHERE s.status = 'failed' AND s.routing_result#>>'{finished,reason}' IN ('exhausted', 'no_actions')
  AND NOT COALESCE(s.routing_result->'overrides' @> jsonb_build_array(
    jsonb_build_object('verb', $1::text, 'for', s.routing_result#>>'{finished,token}')), false)";

impl DeadLetterStore {
    /// A store over `pool`.
    #[must_use]
    pub fn new(pool: Pool) -> Self {
        Self { pool }
    }

    /// Whether there is a table for records that this role may use, and the database's time.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn is_there(&self) -> Result<(bool, Timestamp), DbError> {
        let client = self.pool.get().await?;
        let row = client.query_one(&client.prepare_cached(IS_THERE).await?, &[]).await?;
        Ok((row.try_get("there")?, row.try_get("now")?))
    }

    /// State of a submission; `None` where there is none.
    ///
    /// # Errors
    /// [`DbError`]; also where its status is not known here.
    pub async fn standing(&self, id: Uuid) -> Result<Standing, DbError> {
        let client = self.pool.get().await?;
        let Some(row) = client.query_opt(&client.prepare_cached(STANDING).await?, &[&id]).await? else {
            return Ok(None);
        };
        let reason = row.try_get::<_, Option<&str>>("reason")?.and_then(FailReason::parse);
        Ok(Some((word_in(&row, "submissions", "status")?, reason)))
    }

    /// Adds a record; `false` where the same letter is recorded already.
    ///
    /// # Errors
    /// [`DbError`]: unknown whether it stands; repeat it.
    pub async fn add(&self, record: &Record) -> Result<bool, DbError> {
        let attributes = json!(record.attributes);
        let attributes = &attributes;
        self.pool
            .transaction("dead_letter", async |tx| {
                let statement = tx.prepare_cached(ADD).await?;
                let Record { id, submission_id, reason, message_id, payload, payload_sha256, .. } = record;
                let kind = record.kind.label();
                let added = tx
                    .execute(
                        &statement,
                        &[id, &kind, submission_id, reason, message_id, payload, payload_sha256, attributes],
                    )
                    .await?;
                Ok(added == 1)
            })
            .await
    }

    /// Leases for `lease` the open records without an alert or a live lease.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn lease_unalerted(&self, limit: i64, lease: Duration) -> Result<Vec<Silent>, DbError> {
        let seconds = lease.as_secs_f64();
        self.pool
            .transaction("dead_letter_lease", async |tx| {
                let lock = tx.prepare_cached(LOCK_UNALERTED).await?;
                let ids: Vec<Uuid> =
                    tx.query(&lock, &[&limit]).await?.iter().map(|row| row.get("id")).collect();
                if ids.is_empty() {
                    return Ok(Vec::new());
                }
                let statement = tx.prepare_cached(LEASE).await?;
                let rows = tx.query(&statement, &[&ids, &seconds]).await?;
                rows.iter()
                    .map(|row| {
                        let origin = Origin::of(row.try_get("message_id")?);
                        Ok(Silent {
                            id: row.try_get("id")?,
                            kind: word_in(row, "router.dead_letters", "kind")?,
                            origin,
                        })
                    })
                    .collect()
            })
            .await
    }

    /// Records that these were alerted.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn alerted(&self, ids: &[Uuid]) -> Result<(), DbError> {
        self.pool
            .transaction("dead_letter_alerted", async |tx| {
                tx.query(LOCK, &[&ids]).await?;
                tx.execute(ALERTED, &[&ids]).await?;
                Ok(())
            })
            .await
    }

    /// Records, oldest first, without payloads; with `closed` also those that were closed.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn list(&self, closed: bool, limit: i64) -> Result<Vec<Record>, DbError> {
        let client = self.pool.get().await?;
        client.query(LIST, &[&closed, &limit]).await?.iter().map(record).collect()
    }

    /// One record with its payload.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn get(&self, id: Uuid) -> Result<Option<Record>, DbError> {
        let client = self.pool.get().await?;
        client.query_opt(GET, &[&id]).await?.as_ref().map(record).transpose()
    }

    /// Closes a record; `false` where it was closed before.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn close(&self, id: Uuid, how: Closing, actor: &str, reason: &str) -> Result<bool, DbError> {
        let redriven = how == Closing::Redriven;
        self.pool
            .transaction("dead_letter_close", async |tx| {
                tx.query(LOCK, &[&vec![id]]).await?;
                Ok(tx.execute(CLOSE, &[&id, &redriven, &actor, &reason]).await? == 1)
            })
            .await
    }

    /// Rows that are records of themselves; only `id` where given, with `closed` also those an operator has discarded.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn exhausted(
        &self,
        id: Option<Uuid>,
        closed: bool,
        limit: i64,
    ) -> Result<Vec<ExhaustedRow>, DbError> {
        let client = self.pool.get().await?;
        let rows = client.query(EXHAUSTED, &[&closed, &limit, &DISCARD, &id]).await?;
        let read = |row: &Row| {
            let (id, at) = (row.try_get("id")?, row.try_get("at")?);
            Ok(ExhaustedRow { id, at, reason: row.try_get("reason")?, token: row.try_get("token")? })
        };
        rows.iter().map(read).collect()
    }

    /// Open records by kind.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn open(&self) -> Result<Vec<(RecordKind, u64)>, DbError> {
        let client = self.pool.get().await?;
        let rows = client.query(COUNTS, &[]).await?;
        rows.iter().map(|row| Ok((word_in(row, "router.dead_letters", "kind")?, count(row)?))).collect()
    }

    /// Open rows that are records of themselves.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn exhausted_count(&self) -> Result<u64, DbError> {
        count(&self.pool.get().await?.query_one(EXHAUSTED_COUNT, &[&DISCARD]).await?)
    }
}

fn count(row: &Row) -> Result<u64, DbError> {
    Ok(u64::try_from(row.try_get::<_, i64>("n")?).unwrap_or_default())
}

fn record(row: &Row) -> Result<Record, DbError> {
    let attributes: Value = row.try_get("attributes")?;
    let (redriven, discarded): (Option<Timestamp>, Option<Timestamp>) =
        (row.try_get("redriven_at")?, row.try_get("discarded_at")?);
    let closing = redriven.map(|at| (Closing::Redriven, at)).or(discarded.map(|at| (Closing::Discarded, at)));
    let text = |column| row.try_get::<_, Option<String>>(column).map(Option::unwrap_or_default);
    let closed = match closing {
        Some((how, at)) => Some(Closed { how, at, actor: text("actor")?, reason: text("reason_closed")? }),
        None => None,
    };
    Ok(Record {
        id: row.try_get("id")?,
        kind: word_in(row, "router.dead_letters", "kind")?,
        at: row.try_get("at")?,
        submission_id: row.try_get("submission_id")?,
        reason: row.try_get("reason")?,
        payload_sha256: row.try_get("payload_sha256")?,
        payload: row.try_get("payload")?,
        message_id: row.try_get("message_id")?,
        attributes: serde_json::from_value(attributes)
            .map_err(|error| DbError::Shape(format!("router.dead_letters.attributes: {error}")))?,
        alerted_at: row.try_get("alerted_at")?,
        closed,
    })
}
