//! What time brings: expiries to plan and to warn of, entries that nobody has touched, subjects that retention emptied, and
//! the leases of what people are told. Each statement takes a page and skips what is locked.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::relation::{TABLE, columns, entry};
use super::sql::selected;
use super::{Entry, GreyQueueStore};
use crate::db::DbError;
use crate::grey_queue::table::State;
use crate::kernel::rows::word_in;
use crate::words;

words! {
    /// What people are told of entries, beside what opened them.
    Notice {
        /// The security team is asked.
        Escalated = "escalated",
        /// Entries expire soon.
        Expiring = "expiring",
        /// A remedy failed once too often.
        Failed = "failed",
    }
}

/// The rows of a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The entry.
    pub id: Uuid,
    /// Its state.
    pub state: State,
    /// Its cause.
    pub cause: String,
    /// The time that matters: of the escalation, of the expiry, of the failure.
    pub at: Timestamp,
    /// The database's time.
    pub now: Timestamp,
}

/// A submission's retention minus a day comes first. What a person alone ends does not expire. `$1` seconds to live, `$2` most.
const PLAN: &str = "-- grey_queue_plan
WITH c AS (
  SELECT o.id FROM router.grey_queue o WHERE o.state = 'Pending' AND o.expiry_planned_at IS NULL AND o.cause NOT IN ('screening', 'grading')
  ORDER BY o.opened_at, o.id LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED
), u AS (
  UPDATE router.grey_queue o SET expiry_planned_at = LEAST(clock_timestamp() + make_interval(secs => $1),
    (SELECT s.retention_expires_at - interval '1 day' FROM submissions s WHERE o.subject_kind = 'submission' AND s.id = o.subject_id))
  FROM c WHERE o.id = c.id AND o.state = 'Pending' RETURNING o.id
)
SELECT count(*) AS n FROM u";

/// `$1` and `$2` the place behind which to go on, `$3` most.
const UNTOUCHED: &str = concat!(
    "-- grey_queue_untouched\nSELECT ",
    selected!(),
    " FROM router.grey_queue o WHERE o.state = 'Pending' AND (o.opened_at, o.id) > ($1, $2) AND o.closed_at IS NULL
ORDER BY o.opened_at, o.id LIMIT $3"
);

/// Open entries, and whether their submission is empty or gone; `$1` the id behind which to go on, `$2` entries looked at.
const OPEN_BEHIND: &str = "-- grey_queue_open_behind
WITH page AS (
  SELECT o.id, o.subject_id, o.subject_kind FROM router.grey_queue o
  WHERE o.closed_at IS NULL AND o.id > $1 ORDER BY o.id LIMIT $2
)
SELECT p.id, p.subject_kind, p.subject_id, CASE WHEN p.subject_kind = 'submission' THEN NOT EXISTS (
  SELECT FROM submissions s WHERE s.id = p.subject_id AND s.status <> 'purged') END AS gone
FROM page p ORDER BY p.id";

/// An open entry, as far as it can be told whether there is still something to decide about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenEntry {
    /// The entry.
    pub id: Uuid,
    /// The kind of its subject.
    pub kind: String,
    /// Its subject.
    pub subject: Uuid,
    /// Whether that is gone; unknown where another room owns it.
    pub gone: Option<bool>,
}

/// Entries that wait for another attempt than the configuration now allows. `$1` attempts, `$2` most.
const SPENT: &str = "-- grey_queue_spent
SELECT o.id FROM router.grey_queue o WHERE o.state = 'Retrying' AND o.attempts >= $1 ORDER BY o.available_at, o.id LIMIT $2";

/// Entries opened in a span, by cause. `$1` after, `$2` until.
const OPENED: &str = "-- grey_queue_opened
SELECT o.cause, count(*) AS n FROM router.grey_queue o WHERE o.opened_at > $1 AND o.opened_at <= $2 GROUP BY 1";

/// Entries under review whose submission is emptied within `$1` seconds: how many, one of them, and the first time.
const RETENTION: &str = "-- grey_queue_retention
SELECT count(*) AS n, (min(o.id::text))::uuid AS sample, min(s.retention_expires_at) AS at
FROM router.grey_queue o JOIN submissions s ON s.id = o.subject_id
WHERE o.closed_at IS NULL AND o.state IN ('UnderReview', 'Escalated') AND o.subject_kind = 'submission'
  AND s.retention_expires_at < now() + make_interval(secs => $1)";

/// `$1` seconds before the expiry.
macro_rules! waiting {
    (escalated) => {
        "o.state = 'Escalated' AND o.alerted_at IS NULL"
    };
    (expiring) => {
        "o.state IN ('Pending', 'Retrying') AND o.expiry_warned_at IS NULL
  AND o.expiry_planned_at < now() + make_interval(secs => $1)"
    };
    (failed) => {
        "o.state = 'Failed' AND o.alerted_at IS NULL"
    };
}

macro_rules! unnotified {
    ($kind:ident, $at:literal) => {
        concat!(
            "-- grey_queue_unnotified_",
            stringify!($kind),
            "
SELECT o.id, o.state, o.cause, ",
            $at,
            " AS at, clock_timestamp() AS now FROM router.grey_queue o
WHERE ",
            waiting!($kind),
            " AND $1::float8 IS NOT NULL AND (o.alert_leased_until IS NULL OR o.alert_leased_until < now())
ORDER BY ",
            $at,
            ", o.id LIMIT $2"
        )
    };
}

macro_rules! lease {
    ($kind:ident, $at:literal) => {
        concat!(
            "-- grey_queue_lease_",
            stringify!($kind),
            "
WITH c AS (
  SELECT o.id FROM router.grey_queue o
  WHERE ",
            waiting!($kind),
            " AND $1::float8 IS NOT NULL AND (o.alert_leased_until IS NULL OR o.alert_leased_until < now())
  ORDER BY ",
            $at,
            ", o.id LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED
), u AS (
  UPDATE router.grey_queue o SET alert_leased_until = clock_timestamp() + make_interval(secs => $3)
  FROM c WHERE o.id = c.id RETURNING o.id, o.state, o.cause, ",
            $at,
            " AS at, clock_timestamp() AS now
)
SELECT * FROM u ORDER BY at, id"
        )
    };
}

/// `$1` ids, `$2` whether it is about their expiry.
const NOTIFIED: &str = "-- grey_queue_notified
UPDATE router.grey_queue o SET alert_leased_until = NULL,
  alerted_at = CASE WHEN $2 THEN o.alerted_at ELSE clock_timestamp() END,
  expiry_warned_at = CASE WHEN $2 THEN clock_timestamp() ELSE o.expiry_warned_at END,
  expires_at = CASE WHEN $2 THEN GREATEST(o.expiry_planned_at, clock_timestamp() + interval '24 hours') ELSE o.expires_at END
FROM (SELECT x.id FROM router.grey_queue x WHERE x.id = ANY($1::uuid[]) ORDER BY x.id FOR NO KEY UPDATE) c
WHERE o.id = c.id AND CASE WHEN $2 THEN o.state IN ('Pending', 'Retrying') ELSE o.state IN ('Escalated', 'Failed') END";

const GIVE_BACK: &str = "-- grey_queue_give_back
UPDATE router.grey_queue o SET alert_leased_until = NULL
FROM (SELECT x.id FROM router.grey_queue x WHERE x.id = ANY($1::uuid[]) ORDER BY x.id FOR NO KEY UPDATE) c
WHERE o.id = c.id";

const RECONCILE: &str = "-- grey_queue_reconcile
SELECT router.reconcile_grey_queue($1, $2, $3) AS n";

const PRUNE: &str = "-- grey_queue_prune
SELECT router.prune_grey_queue(make_interval(secs => $1), $2) AS n";

impl Notice {
    fn unnotified(self) -> &'static str {
        match self {
            Self::Escalated => unnotified!(escalated, "o.escalated_at"),
            Self::Expiring => unnotified!(expiring, "o.expiry_planned_at"),
            Self::Failed => unnotified!(failed, "o.closed_at"),
        }
    }

    fn lease(self) -> &'static str {
        match self {
            Self::Escalated => lease!(escalated, "o.escalated_at"),
            Self::Expiring => lease!(expiring, "o.expiry_planned_at"),
            Self::Failed => lease!(failed, "o.closed_at"),
        }
    }
}

impl GreyQueueStore {
    /// Plans the expiry of up to `most` entries that came to Pending: `ttl` from now, or a day before their submission is
    /// emptied.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn plan_expiry(&self, ttl: Duration, most: i64) -> Result<u64, DbError> {
        let seconds = ttl.as_secs_f64();
        self.pool()
            .seeking_transaction("grey_queue_plan", async |tx| {
                let row = tx.query_one(&tx.prepare_cached(PLAN).await?, &[&seconds, &most]).await?;
                number(&row)
            })
            .await
    }

    /// Up to `most` pending entries behind a place, and the place behind the last of them.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn pending(&self, behind: (Timestamp, Uuid), most: i64) -> Result<Vec<Entry>, DbError> {
        let client = self.pool().get().await?;
        let rows =
            client.query(&client.prepare_cached(UNTOUCHED).await?, &[&behind.0, &behind.1, &most]).await?;
        rows.iter().map(entry).collect()
    }

    /// Of up to `most` open entries behind `behind`, those whose subject retention has emptied; and where to go on, if there is more.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn open_behind(
        &self,
        behind: Uuid,
        most: i64,
    ) -> Result<(Vec<OpenEntry>, Option<Uuid>), DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(OPEN_BEHIND).await?, &[&behind, &most]).await?;
        let open: Vec<OpenEntry> = rows
            .iter()
            .map(|row| {
                Ok(OpenEntry {
                    id: row.try_get("id")?,
                    kind: row.try_get("subject_kind")?,
                    subject: row.try_get("subject_id")?,
                    gone: row.try_get("gone")?,
                })
            })
            .collect::<Result<_, DbError>>()?;
        let full = i64::try_from(rows.len()).is_ok_and(|n| n == most);
        let last = open.last().filter(|_| full).map(|entry| entry.id);
        Ok((open, last))
    }

    /// Entries that wait for another attempt than `max_attempts` allows.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn spent(&self, max_attempts: u32, most: i64) -> Result<Vec<Uuid>, DbError> {
        let client = self.pool().get().await?;
        let attempts = i32::try_from(max_attempts).unwrap_or(i32::MAX);
        let rows = client.query(&client.prepare_cached(SPENT).await?, &[&attempts, &most]).await?;
        rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
    }

    /// How many entries were opened after `after` and until `until`, by cause.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn opened(&self, after: Timestamp, until: Timestamp) -> Result<Vec<(String, u64)>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(OPENED).await?, &[&after, &until]).await?;
        rows.iter().map(|row| Ok((row.try_get("cause")?, number(row)?))).collect()
    }

    /// How many entries under review have a submission that is emptied within `within`, with one of them and the first time.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn near_retention(&self, within: Duration) -> Result<Option<(u64, Uuid, Timestamp)>, DbError> {
        let client = self.pool().get().await?;
        let statement = client.prepare_cached(RETENTION).await?;
        let row = client.query_one(&statement, &[&within.as_secs_f64()]).await?;
        let (sample, at): (Option<Uuid>, Option<Timestamp>) = (row.try_get("sample")?, row.try_get("at")?);
        let n = number(&row)?;
        Ok(sample.zip(at).map(|(sample, at)| (n, sample, at)))
    }

    /// Entries of which people are to be told; `warn` is how long before an expiry.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn unnotified(&self, notice: Notice, warn: Duration, most: i64) -> Result<Vec<Due>, DbError> {
        let client = self.pool().get().await?;
        let statement = client.prepare_cached(notice.unnotified()).await?;
        client.query(&statement, &[&warn.as_secs_f64(), &most]).await?.iter().map(due).collect()
    }

    /// The same, leased to this process for `lease`.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn lease_notice(
        &self,
        notice: Notice,
        warn: Duration,
        most: i64,
        lease: Duration,
    ) -> Result<Vec<Due>, DbError> {
        let (warn, lease) = (warn.as_secs_f64(), lease.as_secs_f64());
        self.pool()
            .seeking_transaction("grey_queue_notice", async |tx| {
                let statement = tx.prepare_cached(notice.lease()).await?;
                tx.query(&statement, &[&warn, &most, &lease]).await?.iter().map(due).collect()
            })
            .await
    }

    /// Records that people were told. Returns of how many entries.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn notified(&self, notice: Notice, ids: &[Uuid]) -> Result<u64, DbError> {
        let expiry = notice == Notice::Expiring;
        self.pool()
            .transaction("grey_queue_notice", async |tx| {
                tx.execute(&tx.prepare_cached(NOTIFIED).await?, &[&ids, &expiry]).await
            })
            .await
    }

    /// Ends the lease of entries that nobody was told of.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn give_notice_back(&self, ids: &[Uuid]) -> Result<(), DbError> {
        self.pool()
            .transaction("grey_queue_notice", async |tx| {
                tx.execute(&tx.prepare_cached(GIVE_BACK).await?, &[&ids]).await.map(drop)
            })
            .await
    }

    /// Opens entries for failures and dead letters since `since` that have none; with `history` also for those from before
    /// there was a grey queue. Returns how many of `most`.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn reconcile(&self, since: Timestamp, history: bool, most: i32) -> Result<u64, DbError> {
        self.pool()
            .seeking_transaction("grey_queue_reconcile", async |tx| {
                number(&tx.query_one(&tx.prepare_cached(RECONCILE).await?, &[&since, &history, &most]).await?)
            })
            .await
    }

    /// Removes entries that were closed longer than `keep` ago and whose subject would not open them anew. Returns how many of
    /// `most`.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn prune_closed(&self, keep: Duration, most: i32) -> Result<u64, DbError> {
        let keep = keep.as_secs_f64();
        self.pool()
            .seeking_transaction("grey_queue_prune", async |tx| {
                number(&tx.query_one(&tx.prepare_cached(PRUNE).await?, &[&keep, &most]).await?)
            })
            .await
    }
}

fn number(row: &tokio_postgres::Row) -> Result<u64, DbError> {
    Ok(u64::try_from(row.try_get::<_, i64>("n")?).unwrap_or_default())
}

fn due(row: &tokio_postgres::Row) -> Result<Due, DbError> {
    Ok(Due {
        id: row.try_get("id")?,
        state: word_in(row, TABLE, "state")?,
        cause: row.try_get("cause")?,
        at: row.try_get("at")?,
        now: row.try_get("now")?,
    })
}
