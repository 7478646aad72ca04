//! People's views of attempts: lists, one attempt with all that is known of it, and how long each stage took.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tokio_postgres::Row as PgRow;
use uuid::Uuid;

use super::GradingStore;
use super::relation::columns;
use crate::db::{DbError, Parameter};
use crate::grading::attempt::Attempt;
use crate::grading::core::result::GradingResult;
use crate::grading::table::{Grading, State};
use crate::kernel::rows::{Row, read};

/// An attempt, with its id.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttemptView {
    /// Its id, the request's.
    pub id: Uuid,
    /// Its state.
    pub state: String,
    /// The fence of people.
    pub version: i64,
    /// The rest.
    #[serde(flatten)]
    pub attempt: Attempt,
}

/// An event of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttemptEvent {
    /// Its id.
    pub id: Uuid,
    /// Its place among all events.
    pub number: i64,
    /// State before; absent at birth.
    pub from_state: Option<String>,
    /// State after.
    pub to_state: String,
    /// The trigger.
    pub trigger: String,
    /// The actor.
    pub actor: String,
    /// Codes, counts, scores.
    pub metadata: Value,
    /// When.
    pub created_at: Timestamp,
}

/// A result, without its words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResultView {
    /// `ai`, `human` or `final`.
    pub kind: String,
    /// The job's try.
    pub r#try: i32,
    /// It came after its attempt had failed.
    pub is_late: bool,
    /// It is the twin of one that was first.
    pub dup: bool,
    /// The score of the whole.
    pub score: f64,
    /// The band.
    pub band: String,
    /// Whether its words are gone.
    pub emptied: bool,
    /// The actor.
    pub actor: String,
    /// When.
    pub at: Timestamp,
}

/// An attempt and what is known of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttemptStory {
    /// The attempt.
    #[serde(flatten)]
    pub view: AttemptView,
    /// Its events, in order.
    pub events: Vec<AttemptEvent>,
    /// Its results.
    pub results: Vec<ResultView>,
}

/// The filter of a list.
#[derive(Debug, Clone, Default)]
pub struct ListFilter {
    /// Attempts in this state alone.
    pub state: Option<State>,
    /// Attempts of this form alone.
    pub form: Option<String>,
    /// Attempts with a late result alone.
    pub late: bool,
    /// The most.
    pub limit: u32,
}

/// How long a stage took, in seconds, of attempts that left it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageTimes {
    /// The skill that is graded.
    pub skill: String,
    /// `queued`, `processing`, `review` or `end_to_end`.
    pub stage: String,
    /// Attempts.
    pub count: i64,
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// Of `end_to_end` without a review: attempts that ended in time.
    pub in_time: i64,
}

const LIST: &str = concat!(
    "-- grading_list
SELECT o.id, o.state, o.attempts, o.claims, o.lease_token, o.version, ",
    columns!(),
    " FROM assessment.submissions o
WHERE ($1::text IS NULL OR o.state = $1) AND ($2::text IS NULL OR o.form_id = $2)
  AND (NOT $3 OR EXISTS (SELECT FROM assessment.results r WHERE r.request_id = o.id AND r.is_late))
ORDER BY o.created_at DESC, o.id LIMIT $4"
);

/// By the submission's id its latest attempt, or by the attempt's own.
const ONE: &str = concat!(
    "-- grading_one
SELECT o.id, o.state, o.attempts, o.claims, o.lease_token, o.version, ",
    columns!(),
    " FROM assessment.submissions o WHERE o.id = $1 OR (o.subject = $1 AND o.current) ORDER BY o.id = $1 DESC LIMIT 1"
);

const ATTEMPTS: &str = concat!(
    "-- grading_attempts
SELECT o.id, o.state, o.attempts, o.claims, o.lease_token, o.version, ",
    columns!(),
    " FROM assessment.submissions o WHERE o.subject = $1 ORDER BY o.attempt"
);

const EVENTS: &str = "-- grading_events
SELECT e.id, e.number, e.from_state, e.to_state, e.trigger, e.actor, e.metadata, e.created_at FROM assessment.events e
WHERE e.submission_id = $1 ORDER BY e.number LIMIT 500";

const RESULTS: &str = "-- grading_results
SELECT r.kind, r.try, r.is_late, r.dup, r.score::float8 AS score, r.band, r.result IS NULL AS emptied, r.actor, r.at
FROM assessment.results r WHERE r.request_id = $1 ORDER BY r.id";

const RESULT: &str = "-- grading_result
SELECT r.result, r.transcript FROM assessment.results r WHERE r.request_id = $1 AND r.kind = $2 AND NOT r.dup AND r.result IS NOT NULL
ORDER BY r.is_late, r.id LIMIT 1";

const SLA: &str = "-- grading_sla
WITH e AS (
  SELECT e.submission_id, e.from_state, e.to_state, e.created_at FROM assessment.events e
  WHERE e.created_at > now() - make_interval(secs => $1) AND e.from_state IS NOT NULL AND e.from_state <> e.to_state
), s AS (
  SELECT a.skill, CASE WHEN e.from_state = 'QUEUED' THEN 'queued' WHEN e.from_state = 'PROCESSING' THEN 'processing'
      WHEN e.from_state = 'REVIEW_PENDING' THEN 'review' END AS stage,
    (SELECT max(b.created_at) FROM assessment.events b WHERE b.submission_id = e.submission_id AND b.to_state = e.from_state
      AND b.created_at <= e.created_at) AS began, e.created_at AS ended, NULL::boolean AS in_time
  FROM e JOIN assessment.submissions a ON a.id = e.submission_id
  UNION ALL
  SELECT a.skill, 'end_to_end', a.created_at, e.created_at, e.created_at <= a.deadline
  FROM e JOIN assessment.submissions a ON a.id = e.submission_id
  WHERE e.to_state = 'COMPLETED' AND e.from_state <> 'REVIEW_PENDING'
)
SELECT s.skill, s.stage, count(*) AS n,
  percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM s.ended - s.began))::float8 AS p50,
  percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM s.ended - s.began))::float8 AS p95,
  count(*) FILTER (WHERE s.in_time) AS in_time
FROM s WHERE s.stage IS NOT NULL AND s.began IS NOT NULL GROUP BY s.skill, s.stage ORDER BY s.skill, s.stage";

const DEPTHS: &str = "-- grading_depths
SELECT d.queue, d.waiting, d.oldest FROM mq.depths() AS d";

const DEAD: &str = "-- grading_dead
SELECT d.id, d.queue, d.reason, d.detail, d.request, d.at FROM mq.dead($1) AS d";

/// A queue, by its messages.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QueueDepth {
    /// `request`, `callback`, or `dead`.
    pub queue: String,
    /// Messages.
    pub waiting: i64,
    /// Seconds since the oldest was written.
    pub oldest_seconds: f64,
}

/// A message that nobody could take in, without what is in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeadMessage {
    /// Its id among the dead.
    pub id: Uuid,
    /// The queue.
    pub queue: String,
    /// Why.
    pub reason: String,
    /// In words.
    pub detail: String,
    /// The attempt, where that can be read.
    pub request: Option<String>,
    /// When it was buried.
    pub at: Timestamp,
}

impl GradingStore {
    /// Attempts, the latest first.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn list(&self, filter: &ListFilter) -> Result<Vec<AttemptView>, DbError> {
        let state = filter.state.map(State::label);
        let most = i64::from(filter.limit);
        let client = self.pool().get().await?;
        let parameters: [&dyn Parameter; 4] = [&state, &filter.form, &filter.late, &most];
        let rows = client.query(&client.prepare_cached(LIST).await?, &parameters).await?;
        rows.iter().map(view).collect()
    }

    /// The attempt of this id, or the latest of the submission with this id.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn one(&self, id: Uuid) -> Result<Option<AttemptView>, DbError> {
        let client = self.pool().get().await?;
        client.query_opt(&client.prepare_cached(ONE).await?, &[&id]).await?.as_ref().map(view).transpose()
    }

    /// All attempts at a submission, each with its events and results.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn stories(&self, subject: Uuid) -> Result<Vec<AttemptStory>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(ATTEMPTS).await?, &[&subject]).await?;
        let views: Vec<AttemptView> = rows.iter().map(view).collect::<Result<_, _>>()?;
        drop(client);
        let mut stories = Vec::new();
        for view in views {
            let (events, results) = (self.events(view.id).await?, self.results(view.id).await?);
            stories.push(AttemptStory { view, events, results });
        }
        Ok(stories)
    }

    /// The events of an attempt, in order.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn events(&self, request: Uuid) -> Result<Vec<AttemptEvent>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(EVENTS).await?, &[&request]).await?;
        rows.iter()
            .map(|row| {
                Ok(AttemptEvent {
                    id: row.try_get("id")?,
                    number: row.try_get("number")?,
                    from_state: row.try_get("from_state")?,
                    to_state: row.try_get("to_state")?,
                    trigger: row.try_get("trigger")?,
                    actor: row.try_get("actor")?,
                    metadata: row.try_get("metadata")?,
                    created_at: row.try_get("created_at")?,
                })
            })
            .collect()
    }

    async fn results(&self, request: Uuid) -> Result<Vec<ResultView>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(RESULTS).await?, &[&request]).await?;
        rows.iter()
            .map(|row| {
                Ok(ResultView {
                    kind: row.try_get("kind")?,
                    r#try: row.try_get("try")?,
                    is_late: row.try_get("is_late")?,
                    dup: row.try_get("dup")?,
                    score: row.try_get("score")?,
                    band: row.try_get("band")?,
                    emptied: row.try_get("emptied")?,
                    actor: row.try_get("actor")?,
                    at: row.try_get("at")?,
                })
            })
            .collect()
    }

    /// A result with its words, `ai`, `human` or `final`, and what was heard of the work; none where it was emptied.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn result(
        &self,
        request: Uuid,
        kind: &str,
    ) -> Result<Option<(GradingResult, Option<String>)>, DbError> {
        let client = self.pool().get().await?;
        let row = client.query_opt(&client.prepare_cached(RESULT).await?, &[&request, &kind]).await?;
        row.map(|row| {
            let document: Value = row.try_get("result")?;
            let result = serde_json::from_value(document)
                .map_err(|_| DbError::Shape("assessment.results.result is no result".to_owned()))?;
            Ok((result, row.try_get("transcript")?))
        })
        .transpose()
    }

    /// How long stages took that were left within `span`, in seconds.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn sla(&self, span: f64) -> Result<Vec<StageTimes>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(SLA).await?, &[&span]).await?;
        rows.iter()
            .map(|row| {
                Ok(StageTimes {
                    skill: row.try_get("skill")?,
                    stage: row.try_get("stage")?,
                    count: row.try_get("n")?,
                    p50: row.try_get("p50")?,
                    p95: row.try_get("p95")?,
                    in_time: row.try_get("in_time")?,
                })
            })
            .collect()
    }

    /// How many messages wait, and since when.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn queue_depths(&self) -> Result<Vec<QueueDepth>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(DEPTHS).await?, &[]).await?;
        rows.iter()
            .map(|row| {
                Ok(QueueDepth {
                    queue: row.try_get("queue")?,
                    waiting: row.try_get("waiting")?,
                    oldest_seconds: row.try_get("oldest")?,
                })
            })
            .collect()
    }

    /// The latest messages that nobody could take in.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn dead_messages(&self, most: i32) -> Result<Vec<DeadMessage>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(DEAD).await?, &[&most]).await?;
        rows.iter()
            .map(|row| {
                Ok(DeadMessage {
                    id: row.try_get("id")?,
                    queue: row.try_get("queue")?,
                    reason: row.try_get("reason")?,
                    detail: row.try_get("detail")?,
                    request: row.try_get("request")?,
                    at: row.try_get("at")?,
                })
            })
            .collect()
    }
}

fn view(row: &PgRow) -> Result<AttemptView, DbError> {
    let Row { id, state, version, columns, .. } = read::<Grading>(row)?;
    Ok(AttemptView {
        id,
        state: state.label().to_owned(),
        version: version.unwrap_or_default(),
        attempt: columns,
    })
}
