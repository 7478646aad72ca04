//! The daemon's look: how many attempts wait where, and for how long, and what happened since the last look.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::GradingStore;
use crate::db::DbError;
use crate::grading::core::review::Priority;
use crate::grading::core::skill::Skill;
use crate::grading::metrics::{AttemptOutcome, Stage};
use crate::grading::table::State;
use crate::kernel::rows::word_in;

/// How things stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Attempts that have not ended, by state.
    pub states: Vec<(State, u64)>,
    /// Of those in the grader's queue, for how long the oldest has been there, and that one.
    pub queued_oldest: (Duration, Option<Uuid>),
    /// Attempts past half of their time.
    pub half_spent: u64,
    /// Attempts that wait for a person, by priority.
    pub review: Vec<(Priority, u64)>,
    /// For how long the oldest has waited, and that one.
    pub review_oldest: (Duration, Option<Uuid>),
    /// Messages that wait: requests, callbacks, and the dead.
    pub queues: Vec<(String, u64, Duration)>,
}

/// Events between two looks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// Attempts by what became of them.
    pub outcomes: Vec<(Skill, AttemptOutcome, u64)>,
    /// Tries after the first.
    pub retries: u64,
    /// Deadlines that passed, with one of them.
    pub timeouts: (u64, Option<Uuid>),
    /// Times of stages that were left.
    pub stages: Vec<(Skill, Stage, Duration)>,
    /// Differences between people's scores and the grader's, in tenths.
    pub disagreements: Vec<u8>,
}

/// Disagreements of the last weeks, for their drift.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Drift {
    /// Reviews.
    pub reviews: u64,
    /// Their mean difference from the grader.
    pub mean: f64,
}

const UNTIL: &str = "-- grading_until
SELECT clock_timestamp() - interval '5 seconds' AS until";

const STATES: &str = "-- grading_states
SELECT a.state, count(*) AS n, COALESCE(extract(epoch FROM now() - min(a.state_since)), 0)::float8 AS oldest,
  (array_agg(a.subject ORDER BY a.state_since))[1] AS sample,
  count(*) FILTER (WHERE a.state <> 'REVIEW_PENDING' AND now() > a.created_at + (a.deadline - a.created_at) / 2) AS half
FROM assessment.submissions a WHERE a.ended_at IS NULL AND a.closed_at IS NULL GROUP BY a.state";

const REVIEW: &str = "-- grading_review_waits
SELECT a.priority, count(*) AS n FROM assessment.submissions a
WHERE a.state = 'REVIEW_PENDING' AND a.ended_at IS NULL AND a.closed_at IS NULL GROUP BY a.priority";

const OUTCOMES: &str = "-- grading_outcomes
SELECT a.skill, CASE WHEN e.trigger = 'submit' THEN 'opened' WHEN e.trigger = 'reviewed' THEN 'reviewed'
    WHEN e.to_state = 'COMPLETED' THEN 'auto' WHEN e.to_state = 'FAILED' THEN 'failed' END AS outcome, count(*) AS n
FROM assessment.events e JOIN assessment.submissions a ON a.id = e.submission_id
WHERE e.created_at > $1 AND e.created_at <= $2 AND (e.trigger IN ('submit', 'reviewed') OR (e.to_state IN ('COMPLETED', 'FAILED')
  AND e.from_state <> e.to_state)) GROUP BY 1, 2";

const TRIGGERS: &str = "-- grading_triggers
SELECT e.trigger, count(*) AS n, (array_agg(a.subject))[1] AS sample FROM assessment.events e
JOIN assessment.submissions a ON a.id = e.submission_id
WHERE e.created_at > $1 AND e.created_at <= $2 AND e.trigger IN ('retry', 'timeout') GROUP BY e.trigger";

const TIMES: &str = "-- grading_times
WITH e AS (
  SELECT e.submission_id, e.from_state, e.to_state, e.created_at FROM assessment.events e
  WHERE e.created_at > $1 AND e.created_at <= $2 AND e.from_state IS NOT NULL AND e.from_state <> e.to_state ORDER BY e.created_at LIMIT 5000
)
SELECT a.skill, s.stage, GREATEST(extract(epoch FROM s.ended - s.began), 0)::float8 AS took FROM (
  SELECT e.submission_id, CASE WHEN e.from_state = 'QUEUED' THEN 'queued' WHEN e.from_state = 'PROCESSING' THEN 'processing'
      WHEN e.from_state = 'REVIEW_PENDING' THEN 'review' END AS stage,
    (SELECT max(b.created_at) FROM assessment.events b WHERE b.submission_id = e.submission_id AND b.to_state = e.from_state
      AND b.created_at <= e.created_at) AS began, e.created_at AS ended FROM e
  UNION ALL
  SELECT e.submission_id, 'end_to_end', b.created_at, e.created_at FROM e
  JOIN assessment.events b ON b.submission_id = e.submission_id AND b.from_state IS NULL
  WHERE e.to_state = 'COMPLETED' AND e.from_state <> 'REVIEW_PENDING'
) AS s JOIN assessment.submissions a ON a.id = s.submission_id WHERE s.stage IS NOT NULL AND s.began IS NOT NULL";

/// Pairs of a person's score and the grader's, of reviews in a span.
const DISAGREEMENTS: &str = "-- grading_disagreements
SELECT (abs(h.score - g.score) * 10)::int AS tenths FROM assessment.results h
JOIN LATERAL (SELECT r.score FROM assessment.results r WHERE r.request_id = h.request_id AND r.kind = 'ai' AND NOT r.dup AND NOT r.is_late
  ORDER BY r.id LIMIT 1) AS g ON true
WHERE h.kind = 'human' AND h.at > $1 AND h.at <= $2 LIMIT 5000";

const DRIFT: &str = "-- grading_drift
SELECT count(*) AS n, COALESCE(avg(abs(h.score - g.score)), 0)::float8 AS mean FROM assessment.results h
JOIN LATERAL (SELECT r.score FROM assessment.results r WHERE r.request_id = h.request_id AND r.kind = 'ai' AND NOT r.dup AND NOT r.is_late
  ORDER BY r.id LIMIT 1) AS g ON true
WHERE h.kind = 'human' AND h.at > now() - interval '7 days'";

impl GradingStore {
    /// How things stand.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn standing(&self) -> Result<Standing, DbError> {
        let client = self.pool().get().await?;
        let mut standing = Standing::default();
        for row in client.query(&client.prepare_cached(STATES).await?, &[]).await? {
            let state: State = word_in(&row, "assessment.submissions", "state")?;
            let count = number(row.try_get("n")?);
            let oldest = (seconds(row.try_get("oldest")?), row.try_get("sample")?);
            match state {
                State::ReviewPending => standing.review_oldest = oldest,
                State::Queued => standing.queued_oldest = oldest,
                State::Pending
                | State::Processing
                | State::Error
                | State::Retrying
                | State::Completed
                | State::Failed => {}
            }
            standing.half_spent += number(row.try_get("half")?);
            standing.states.push((state, count));
        }
        for row in client.query(&client.prepare_cached(REVIEW).await?, &[]).await? {
            let priority = word_in(&row, "assessment.submissions", "priority")?;
            standing.review.push((priority, number(row.try_get("n")?)));
        }
        drop(client);
        for depth in self.queue_depths().await? {
            standing.queues.push((depth.queue, number(depth.waiting), seconds(depth.oldest_seconds)));
        }
        Ok(standing)
    }

    /// Events since `after`, none where that is absent, and the time until which was looked.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn measured(&self, after: Option<Timestamp>) -> Result<(Measured, Timestamp), DbError> {
        let client = self.pool().get().await?;
        let until: Timestamp =
            client.query_one(&client.prepare_cached(UNTIL).await?, &[]).await?.try_get("until")?;
        let mut measured = Measured::default();
        let Some(after) = after else { return Ok((measured, until)) };
        for row in client.query(&client.prepare_cached(OUTCOMES).await?, &[&after, &until]).await? {
            let skill = word_in(&row, "assessment.submissions", "skill")?;
            let outcome = word_in(&row, "assessment.events", "outcome")?;
            measured.outcomes.push((skill, outcome, number(row.try_get("n")?)));
        }
        for row in client.query(&client.prepare_cached(TRIGGERS).await?, &[&after, &until]).await? {
            let (trigger, n): (String, u64) = (row.try_get("trigger")?, number(row.try_get("n")?));
            if trigger == "retry" {
                measured.retries = n;
            } else {
                measured.timeouts = (n, row.try_get("sample")?);
            }
        }
        for row in client.query(&client.prepare_cached(TIMES).await?, &[&after, &until]).await? {
            let skill = word_in(&row, "assessment.submissions", "skill")?;
            let stage = word_in(&row, "assessment.events", "stage")?;
            measured.stages.push((skill, stage, seconds(row.try_get("took")?)));
        }
        for row in client.query(&client.prepare_cached(DISAGREEMENTS).await?, &[&after, &until]).await? {
            let tenths: i32 = row.try_get("tenths")?;
            measured.disagreements.push(u8::try_from(tenths).unwrap_or(u8::MAX));
        }
        Ok((measured, until))
    }

    /// How far people and the grader are apart, in the reviews of a week.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn drift(&self) -> Result<Drift, DbError> {
        let client = self.pool().get().await?;
        let row = client.query_one(&client.prepare_cached(DRIFT).await?, &[]).await?;
        Ok(Drift { reviews: number(row.try_get("n")?), mean: row.try_get("mean")? })
    }
}

fn number(found: i64) -> u64 {
    u64::try_from(found).unwrap_or_default()
}

fn seconds(found: f64) -> Duration {
    Duration::try_from_secs_f64(found.max(0.0)).unwrap_or_default()
}
