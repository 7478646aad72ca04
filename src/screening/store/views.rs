//! What people see of runs: lists, one run with all that is known of it, jobs, and how long each stage took.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tokio_postgres::Row as PgRow;
use uuid::Uuid;

use super::results::StateEvent;
use super::{ScreeningStore, limit};
use crate::db::{DbError, Parameter};
use crate::kernel::rows::{Row, Stored as _, read};
use crate::screening::run::Run;
use crate::screening::store::relation::columns;
use crate::screening::table::{Screening, State};

/// A run, with its id.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunView {
    /// Its id.
    pub id: Uuid,
    /// Its state.
    pub state: String,
    /// The fence of people.
    pub version: i64,
    /// The rest.
    #[serde(flatten)]
    pub run: Run,
}

/// A finding, with its attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FindingView {
    /// The rule.
    pub rule: String,
    /// `block`, `review` or `note`.
    pub severity: String,
    /// Field or file, and line.
    pub place: String,
    /// How often.
    pub times: i32,
    /// Why it does not block.
    pub waived: Option<String>,
}

/// An answer of the judge.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VerdictView {
    /// Its model, as it says.
    pub model: String,
    /// The score.
    pub score: i32,
    /// Whether what it judged speaks to whoever judges it.
    pub injection: bool,
    /// Code, severity, place, scrubbed note.
    pub concerns: Value,
    /// When.
    pub created_at: Timestamp,
}

/// A run and all that is known of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunStory {
    /// The run.
    #[serde(flatten)]
    pub view: RunView,
    /// Its events, in order.
    pub events: Vec<StateEvent>,
    /// What the rules found.
    pub findings: Vec<FindingView>,
    /// What the judge said.
    pub verdicts: Vec<VerdictView>,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobView {
    /// The run.
    pub submission_id: Uuid,
    /// The document's type.
    pub job_type: String,
    /// `pending`, `waiting`, `running` or `dead`.
    pub status: String,
    /// Number of its claims.
    pub attempt: i32,
    /// When it is due.
    pub available_at: Timestamp,
    /// Why it was given up on.
    pub dead_reason: Option<String>,
    /// The form.
    pub form_id: String,
    /// The run's state.
    pub state: String,
    /// Since when.
    pub state_since: Timestamp,
}

/// How long a stage took, in seconds, of runs that left it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageTimes {
    /// The stage.
    pub stage: String,
    /// Runs.
    pub runs: i64,
    /// The median; absent without runs.
    pub p50: Option<f64>,
    /// The 95th percentile.
    pub p95: Option<f64>,
}

/// The choice of runs in a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chosen {
    /// In this state.
    pub state: Option<State>,
    /// Of this form.
    pub form: Option<String>,
    /// Of this submission.
    pub subject: Option<Uuid>,
    /// Those whose job was given up on.
    pub dead: bool,
}

const LIST: &str = concat!(
    "-- screening_list
SELECT o.id, o.state, o.attempts, o.claims, o.lease_token, o.version, ",
    columns!(),
    " FROM screening.submissions o
WHERE ($1::text IS NULL OR o.state = $1) AND ($2::text IS NULL OR o.form_id = $2) AND ($3::uuid IS NULL OR o.subject = $3)
  AND (NOT $4 OR o.dead_at IS NOT NULL) ORDER BY o.created_at DESC, o.id LIMIT $5"
);

const ONE: &str = concat!(
    "-- screening_show
SELECT o.id, o.state, o.attempts, o.claims, o.lease_token, o.version, ",
    columns!(),
    " FROM screening.submissions o WHERE o.id = $1 OR (o.subject = $1 AND o.current)"
);

/// Runs, and submissions that have one, by a range of ids: `$1` to `$2`.
const BETWEEN: &str = "-- screening_between
SELECT n.id, n.about FROM (
  SELECT r.id, format('run %s of submission %s, %s', r.run, r.subject, r.state) AS about FROM screening.submissions r
  WHERE r.id >= $1 AND r.id <= $2
  UNION ALL
  SELECT r.subject, format('submission, its run %s is %s', r.run, r.state) FROM screening.submissions r
  WHERE r.subject >= $1 AND r.subject <= $2 AND r.current) AS n ORDER BY n.id LIMIT $3";

const OPEN_RUNS: &str = "-- screening_open_runs
SELECT count(*) AS runs, count(*) FILTER (WHERE r.enforced) AS enforced FROM screening.submissions r
WHERE r.form_id = $1 AND r.current AND r.ended_at IS NULL AND r.closed_at IS NULL";

const EVENTS: &str = "-- screening_events
SELECT e.id, e.from_state, e.to_state, e.trigger, e.actor, e.actor_type, e.metadata, e.created_at
FROM screening.submission_state_events e WHERE e.submission_id = $1 ORDER BY e.created_at, e.id";

const FINDINGS: &str = "-- screening_findings
SELECT f.rule, f.severity, f.place, f.times, f.waived FROM screening.findings f WHERE f.submission_id = $1
ORDER BY f.attempt, CASE f.severity WHEN 'block' THEN 0 WHEN 'review' THEN 1 ELSE 2 END, f.number";

const VERDICTS: &str = "-- screening_verdicts
SELECT v.answered AS model, v.score, v.injection, v.concerns, v.created_at FROM screening.verdicts v WHERE v.submission_id = $1 ORDER BY v.id";

const JOBS: &str = "-- screening_jobs
SELECT j.* FROM screening.jobs j WHERE ($1::text IS NULL OR j.job_type = $1) AND (NOT $2 OR j.status = 'dead')
ORDER BY j.available_at, j.submission_id LIMIT $3";

/// Stages by their first and last states; the document's table. The first tier's time begins when its content is in hand.
const SLA: &str = "-- screening_sla
WITH e AS (
  SELECT e.submission_id, e.to_state, e.created_at FROM screening.submission_state_events e
  WHERE e.created_at >= now() - make_interval(secs => $1)
), first AS (
  SELECT e.submission_id, e.to_state, min(e.created_at) AS at FROM e GROUP BY 1, 2
), spans AS (
  SELECT s.stage, extract(epoch FROM min(b.at) - a.at)::float8 AS took
  FROM (VALUES
    (1, 'tier 1', 'TIER1_SCANNING', ARRAY['TIER2_SCANNING', 'TIER1_FAILED']),
    (2, 'tier 2', 'TIER2_SCANNING', ARRAY['AUTO_APPROVED', 'NEEDS_REVIEW', 'REJECTED']),
    (3, 'publish', 'AUTO_APPROVED', ARRAY['PUBLISHED']),
    (4, 'publish', 'VENDOR_APPROVED', ARRAY['PUBLISHED']),
    (5, 'human review', 'NEEDS_REVIEW', ARRAY['PUBLISHED', 'REJECTED'])) AS s (n, stage, begins, ends)
  JOIN first a ON a.to_state = s.begins JOIN first b ON b.submission_id = a.submission_id AND b.to_state = ANY(s.ends)
  GROUP BY s.n, s.stage, a.submission_id, a.at
  UNION ALL
  SELECT 'end to end', extract(epoch FROM min(b.at) - a.at)::float8
  FROM first a JOIN first b ON b.submission_id = a.submission_id AND b.to_state IN ('PUBLISHED', 'REJECTED', 'TIER1_FAILED')
  WHERE a.to_state = 'RECEIVED' AND NOT EXISTS (
    SELECT FROM first x WHERE x.submission_id = a.submission_id AND x.to_state = 'NEEDS_REVIEW')
  GROUP BY a.submission_id, a.at
)
SELECT n.stage, count(s.took) AS runs, percentile_cont(0.5) WITHIN GROUP (ORDER BY s.took) AS p50,
  percentile_cont(0.95) WITHIN GROUP (ORDER BY s.took) AS p95
FROM unnest(ARRAY['tier 1', 'tier 2', 'publish', 'end to end', 'human review']) WITH ORDINALITY AS n (stage, place)
LEFT JOIN spans s ON s.stage = n.stage GROUP BY n.stage, n.place ORDER BY n.place";

fn view(row: &PgRow) -> Result<RunView, DbError> {
    let Row { id, state, version, columns, .. } = read::<Screening>(row)?;
    Ok(RunView { id, state: state.label().to_owned(), version: version.unwrap_or_default(), run: columns })
}

impl ScreeningStore {
    /// Runs, the latest first.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn list(&self, chosen: &Chosen, most: usize) -> Result<Vec<RunView>, DbError> {
        let (state, most) = (chosen.state.map(State::label), limit(most));
        let client = self.pool().get().await?;
        let parameters: [&dyn Parameter; 5] = [&state, &chosen.form, &chosen.subject, &chosen.dead, &most];
        client.query(&client.prepare_cached(LIST).await?, &parameters).await?.iter().map(view).collect()
    }

    /// A run by its id, or the current one of a submission.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn one(&self, id: Uuid) -> Result<Option<RunView>, DbError> {
        let client = self.pool().get().await?;
        client.query_opt(&client.prepare_cached(ONE).await?, &[&id]).await?.as_ref().map(view).transpose()
    }

    /// Runs, and submissions that have one, whose ids lie between two; each with what it is.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn between(
        &self,
        first: Uuid,
        last: Uuid,
        most: usize,
    ) -> Result<Vec<(Uuid, String)>, DbError> {
        let most = limit(most);
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(BETWEEN).await?, &[&first, &last, &most]).await?;
        rows.iter().map(|row| Ok((row.try_get("id")?, row.try_get("about")?))).collect()
    }

    /// Open runs of a form, and how many of them their submissions wait for.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn open_runs(&self, form: &str) -> Result<(u64, u64), DbError> {
        let client = self.pool().get().await?;
        let row = client.query_one(&client.prepare_cached(OPEN_RUNS).await?, &[&form]).await?;
        let count = |found: i64| u64::try_from(found).unwrap_or_default();
        Ok((count(row.try_get("runs")?), count(row.try_get("enforced")?)))
    }

    /// A run and all that is known of it, by its id or as the current one of a submission.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn story(&self, id: Uuid) -> Result<Option<RunStory>, DbError> {
        let Some(view) = self.one(id).await? else { return Ok(None) };
        let client = self.pool().get().await?;
        let events = client.query(&client.prepare_cached(EVENTS).await?, &[&view.id]).await?;
        let findings = client.query(&client.prepare_cached(FINDINGS).await?, &[&view.id]).await?;
        let verdicts = client.query(&client.prepare_cached(VERDICTS).await?, &[&view.id]).await?;
        let event = |row: &PgRow| -> Result<StateEvent, DbError> {
            Ok(StateEvent {
                id: row.try_get("id")?,
                from_state: row.try_get("from_state")?,
                to_state: row.try_get("to_state")?,
                trigger: row.try_get("trigger")?,
                actor: row.try_get("actor")?,
                actor_type: row.try_get("actor_type")?,
                metadata: row.try_get("metadata")?,
                created_at: row.try_get("created_at")?,
            })
        };
        let finding = |row: &PgRow| -> Result<FindingView, DbError> {
            Ok(FindingView {
                rule: row.try_get("rule")?,
                severity: row.try_get("severity")?,
                place: row.try_get("place")?,
                times: row.try_get("times")?,
                waived: row.try_get("waived")?,
            })
        };
        let verdict = |row: &PgRow| -> Result<VerdictView, DbError> {
            Ok(VerdictView {
                model: row.try_get("model")?,
                score: row.try_get("score")?,
                injection: row.try_get("injection")?,
                concerns: row.try_get("concerns")?,
                created_at: row.try_get("created_at")?,
            })
        };
        Ok(Some(RunStory {
            view,
            events: events.iter().map(event).collect::<Result<_, _>>()?,
            findings: findings.iter().map(finding).collect::<Result<_, _>>()?,
            verdicts: verdicts.iter().map(verdict).collect::<Result<_, _>>()?,
        }))
    }

    /// Jobs, the longest due first.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn jobs(&self, job: Option<&str>, dead: bool, most: usize) -> Result<Vec<JobView>, DbError> {
        let most = limit(most);
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(JOBS).await?, &[&job, &dead, &most]).await?;
        rows.iter()
            .map(|row| {
                Ok(JobView {
                    submission_id: row.try_get("submission_id")?,
                    job_type: row.try_get("job_type")?,
                    status: row.try_get("status")?,
                    attempt: row.try_get("attempt")?,
                    available_at: row.try_get("available_at")?,
                    dead_reason: row.try_get("dead_reason")?,
                    form_id: row.try_get("form_id")?,
                    state: row.try_get("state")?,
                    state_since: row.try_get("state_since")?,
                })
            })
            .collect()
    }

    /// How long each stage took within the last `within`.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn sla(&self, within: std::time::Duration) -> Result<Vec<StageTimes>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(SLA).await?, &[&within.as_secs_f64()]).await?;
        rows.iter()
            .map(|row| {
                Ok(StageTimes {
                    stage: row.try_get("stage")?,
                    runs: row.try_get("runs")?,
                    p50: row.try_get("p50")?,
                    p95: row.try_get("p95")?,
                })
            })
            .collect()
    }
}

const _: () = assert!(Screening::RELATION.versioned, "a run is shown with its version");
