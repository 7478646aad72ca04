//! What the daemon looks at: how many runs wait where, and for how long.

use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::Row as PgRow;
use uuid::Uuid;

use super::ScreeningStore;
use crate::db::DbError;
use crate::kernel::rows::word_in;
use crate::screening::metrics::{Stage, Verdict};
use crate::screening::table::JobType;

/// Jobs of a type that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// The type.
    pub job: JobType,
    /// Jobs.
    pub depth: u64,
    /// Time for which the longest-waiting one has been due.
    pub oldest: Duration,
    /// That one.
    pub sample: Option<Uuid>,
}

/// How things stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// What waits, by type.
    pub queues: Vec<Queue>,
    /// Jobs that were given up on.
    pub dead: u64,
    /// The latest of them.
    pub dead_sample: Option<Uuid>,
    /// Runs that wait for a person.
    pub review: u64,
    /// For how long the oldest has waited.
    pub review_oldest: Duration,
    /// Tokens that the judge has cost today.
    pub tokens: u64,
    /// The form that cost most of them, and how many.
    pub dearest: Option<(String, u64)>,
}

/// What happened between two looks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// Runs that were opened.
    pub received: u64,
    /// Runs without a verdict to be had.
    pub unavailable: u64,
    /// Decisions.
    pub decisions: Vec<(Verdict, u64)>,
    /// Jobs that ended: done, and given up on.
    pub jobs: Vec<(JobType, u64, u64)>,
    /// Times that runs spent in stages which they left.
    pub stages: Vec<(Stage, Duration)>,
    /// Times of the rules.
    pub tier1: Vec<Duration>,
    /// Times of the judge.
    pub tier2: Vec<Duration>,
}

/// The end of the time that is looked at: a moment ago, so that what was being written then is there.
const UNTIL: &str = "-- screening_until
SELECT clock_timestamp() - interval '5 seconds' AS until";

/// Triggers in a span of time: `$1` after, `$2` until.
const TRIGGERS: &str = "-- screening_triggers
SELECT e.trigger, count(*) AS n FROM screening.submission_state_events e WHERE e.created_at > $1 AND e.created_at <= $2 GROUP BY 1";

const DIED: &str = "-- screening_died
SELECT screening.job_type(r.state) AS job_type, count(*) AS n FROM screening.submissions r WHERE r.dead_at > $1 AND r.dead_at <= $2 GROUP BY 1";

/// Times of stages that were left, and of scans, in seconds; a thousand of each at most.
const TIMES: &str = "-- screening_times
WITH e AS (
  SELECT e.submission_id, e.from_state, e.to_state, e.created_at FROM screening.submission_state_events e
  WHERE e.created_at > $1 AND e.created_at <= $2 AND e.from_state IS NOT NULL ORDER BY e.created_at LIMIT 5000
), s AS (
  SELECT CASE WHEN e.from_state = 'TIER1_SCANNING' THEN 'tier1' WHEN e.from_state = 'TIER2_SCANNING' THEN 'tier2'
      WHEN e.from_state IN ('AUTO_APPROVED', 'VENDOR_APPROVED') THEN 'publish' END AS stage,
    (SELECT max(b.created_at) FROM screening.submission_state_events b WHERE b.submission_id = e.submission_id
      AND b.to_state = e.from_state AND b.created_at <= e.created_at) AS began, e.created_at AS ended FROM e
  UNION ALL
  SELECT CASE WHEN x.at IS NULL THEN 'end_to_end' ELSE 'review' END, COALESCE(x.at, b.created_at), e.created_at
  FROM e JOIN screening.submission_state_events b ON b.submission_id = e.submission_id AND b.from_state IS NULL
  LEFT JOIN LATERAL (SELECT min(n.created_at) AS at FROM screening.submission_state_events n
    WHERE n.submission_id = e.submission_id AND n.to_state = 'NEEDS_REVIEW') AS x ON true
  WHERE e.to_state IN ('PUBLISHED', 'REJECTED', 'TIER1_FAILED')
)
SELECT s.stage, GREATEST(extract(epoch FROM s.ended - s.began), 0)::float8 AS took FROM s WHERE s.stage IS NOT NULL AND s.began IS NOT NULL
UNION ALL
SELECT r.job_type, (r.detail->>'took_ms')::float8 / 1000 FROM (
  SELECT r.job_type, r.detail FROM screening.scan_results r WHERE r.created_at > $1 AND r.created_at <= $2
    AND r.detail->>'took_ms' ~ '^[0-9]{1,9}$' LIMIT 5000) AS r";

const QUEUES: &str = "-- screening_queues
SELECT j.t AS job_type, count(r.id) AS depth, COALESCE(extract(epoch FROM now() - min(r.available_at)), 0)::float8 AS oldest,
  (array_agg(r.subject ORDER BY r.available_at))[1] AS sample
FROM unnest($1::text[]) WITH ORDINALITY AS j (t, n)
LEFT JOIN screening.submissions r ON r.ended_at IS NULL AND r.closed_at IS NULL AND r.dead_at IS NULL AND screening.job_type(r.state) = j.t
GROUP BY j.t, j.n ORDER BY j.n";

const STANDING: &str = "-- screening_standing
SELECT (SELECT count(*) FROM screening.submissions r WHERE r.dead_at IS NOT NULL AND r.closed_at IS NULL) AS dead,
  (SELECT r.subject FROM screening.submissions r WHERE r.dead_at IS NOT NULL AND r.closed_at IS NULL ORDER BY r.dead_at DESC LIMIT 1) AS dead_sample,
  (SELECT count(*) FROM screening.submissions r WHERE r.state IN ('NEEDS_REVIEW', 'TIER3_REVIEW') AND r.ended_at IS NULL AND r.closed_at IS NULL) AS review,
  (SELECT COALESCE(extract(epoch FROM now() - min(r.state_since)), 0)::float8 FROM screening.submissions r
   WHERE r.state IN ('NEEDS_REVIEW', 'TIER3_REVIEW') AND r.ended_at IS NULL AND r.closed_at IS NULL) AS review_oldest,
  t.tokens, t.form_id, t.most
FROM (SELECT COALESCE(sum(s.tokens), 0)::bigint AS tokens, (array_agg(s.form_id ORDER BY s.tokens DESC, s.form_id))[1] AS form_id,
  max(s.tokens) AS most FROM screening.spent s WHERE s.day = (now() AT TIME ZONE 'UTC')::date) AS t";

const RECONCILE: &str = "-- screening_reconcile
SELECT screening.reconcile($1) AS opened";

impl ScreeningStore {
    /// How things stand.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn standing(&self) -> Result<Standing, DbError> {
        let client = self.pool().get().await?;
        let types: Vec<&str> = JobType::ALL.iter().map(|job| job.label()).collect();
        let rows = client.query(&client.prepare_cached(QUEUES).await?, &[&types]).await?;
        let row = client.query_one(&client.prepare_cached(STANDING).await?, &[]).await?;
        let count = |found: i64| u64::try_from(found).unwrap_or_default();
        let time = |seconds: f64| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or_default();
        let queues = rows.iter().map(|row| {
            Ok(Queue {
                job: crate::kernel::rows::word_in(row, "screening.jobs", "job_type")?,
                depth: count(row.try_get("depth")?),
                oldest: time(row.try_get("oldest")?),
                sample: row.try_get("sample")?,
            })
        });
        Ok(Standing {
            queues: queues.collect::<Result<_, DbError>>()?,
            dead: count(row.try_get("dead")?),
            dead_sample: row.try_get("dead_sample")?,
            review: count(row.try_get("review")?),
            review_oldest: time(row.try_get("review_oldest")?),
            tokens: count(row.try_get("tokens")?),
            dearest: row
                .try_get::<_, Option<String>>("form_id")?
                .zip(row.try_get::<_, Option<i64>>("most")?.map(count)),
        })
    }

    /// Opens entries for what was published and changed since. Returns how many.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn reconcile(&self, most: i32) -> Result<u64, DbError> {
        self.pool()
            .transaction("screening_reconcile", async |tx| {
                let opened: i64 =
                    tx.query_one(&tx.prepare_cached(RECONCILE).await?, &[&most]).await?.try_get("opened")?;
                Ok(u64::try_from(opened).unwrap_or_default())
            })
            .await
    }

    /// What happened since `after`, nothing where that is absent, and until when was looked.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn measured(&self, after: Option<Timestamp>) -> Result<(Measured, Timestamp), DbError> {
        let client = self.pool().get().await?;
        let until: Timestamp =
            client.query_one(&client.prepare_cached(UNTIL).await?, &[]).await?.try_get("until")?;
        let mut measured = Measured::default();
        let Some(after) = after else { return Ok((measured, until)) };
        let count = |row: &PgRow| -> Result<u64, DbError> {
            Ok(u64::try_from(row.try_get::<_, i64>("n")?).unwrap_or_default())
        };
        let mut jobs: Vec<(JobType, u64, u64)> = JobType::ALL.iter().map(|job| (*job, 0, 0)).collect();
        for row in client.query(&client.prepare_cached(TRIGGERS).await?, &[&after, &until]).await? {
            let (trigger, n): (String, u64) = (row.try_get("trigger")?, count(&row)?);
            match trigger.as_str() {
                "api-submission" => measured.received += n,
                "tier2-unavailable" => measured.unavailable += n,
                _ => {}
            }
            if let Some(verdict) = decided(&trigger) {
                measured.decisions.push((verdict, n));
            }
            let ended = ended(&trigger);
            jobs.iter_mut().filter(|(job, ..)| ended == Some(*job)).for_each(|(_, done, _)| *done += n);
        }
        for row in client.query(&client.prepare_cached(DIED).await?, &[&after, &until]).await? {
            let (died, n): (JobType, u64) =
                (word_in(&row, "screening.submissions", "job_type")?, count(&row)?);
            jobs.iter_mut().filter(|(job, ..)| *job == died).for_each(|(_, _, dead)| *dead += n);
        }
        measured.jobs = jobs;
        for row in client.query(&client.prepare_cached(TIMES).await?, &[&after, &until]).await? {
            let (stage, took): (String, f64) = (row.try_get("stage")?, row.try_get("took")?);
            let took = Duration::try_from_secs_f64(took.max(0.0)).unwrap_or_default();
            match (stage.as_str(), Stage::parse(&stage)) {
                ("tier1-scan", _) => measured.tier1.push(took),
                ("tier2-scan", _) => measured.tier2.push(took),
                (_, Some(stage)) => measured.stages.push((stage, took)),
                (_, None) => {}
            }
        }
        Ok((measured, until))
    }
}

/// The decision that a trigger stands for.
fn decided(trigger: &str) -> Option<Verdict> {
    Some(match trigger {
        "vendor-auto-verify" => Verdict::VendorApproved,
        "tier1-fail" => Verdict::Tier1Failed,
        "tier2-pass" => Verdict::AutoApproved,
        "tier2-concerns" => Verdict::NeedsReview,
        "tier2-unavailable" => Verdict::Unavailable,
        "tier2-fail" => Verdict::Rejected,
        "reviewer-approve" => Verdict::ReviewApproved,
        "admin-reject" | "reviewer-reject" => Verdict::ReviewRejected,
        _ => return None,
    })
}

/// The job that a trigger ends.
fn ended(trigger: &str) -> Option<JobType> {
    Some(match trigger {
        "tier1-pass" | "tier1-fail" | "vendor-auto-verify" => JobType::Tier1Scan,
        "tier2-pass" | "tier2-concerns" | "tier2-unavailable" | "tier2-fail" => JobType::Tier2Scan,
        "publish-complete" => JobType::Publish,
        _ => return None,
    })
}
