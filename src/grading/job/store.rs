//! The statements of the grader. Its role sees schemas grading and mq, and nothing else. The kernel ([`Rows`]) claims and writes jobs.
//!
//! Each call without a transaction is one. If we die before a commit nothing happened.

use std::ops::Deref;
use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use super::table::Job;
use crate::db::pool::{Pool, Transaction};
use crate::db::{DbError, Parameter};
use crate::grading::core::skill::Skill;
use crate::kernel::rows::{Rows, word_in};
use crate::kernel::words;

words! {
    /// Calls that are paid for.
    StepKind {
        /// A recording, in words.
        Transcribe = "transcribe",
        /// A model's word on the work.
        Sample = "sample",
    }
}

words! {
    /// Whether somebody waits for a job.
    Wanted {
        /// Somebody does.
        Wanted = "wanted",
        /// Nobody does any more.
        Cancelled = "cancelled",
        /// Its deadline has passed.
        Late = "late",
    }
}

/// A step that was paid for.
#[derive(Clone, PartialEq)]
pub struct Step {
    /// The answer.
    pub output: Value,
    /// The model, by its own words.
    pub model: String,
    /// Tokens of question and answer.
    pub tokens: u32,
    /// Milliseconds.
    pub took_ms: u32,
}

/// Shows no answer: it quotes what people wrote.
impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Step")
            .field("model", &self.model)
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}

/// A job that a request may be of already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accepted {
    /// It is new.
    New(Uuid),
    /// It is known, and has ended or goes on.
    Known(Uuid),
    /// The submission was emptied before the request came.
    Forgotten,
}

/// The jobs of one grader's database. Cheap to clone.
#[derive(Debug, Clone)]
pub struct JobStore {
    rows: Rows<Job>,
}

/// Gives access to the kernel's statements.
impl Deref for JobStore {
    type Target = Rows<Job>;

    fn deref(&self) -> &Rows<Job> {
        &self.rows
    }
}

/// Naming a table of a schema without USAGE is an error, so the schema is asked first.
const THERE: &str = "-- grading_job_there
SELECT CASE WHEN COALESCE(has_schema_privilege(to_regnamespace('grading'), 'USAGE'), false)
    AND COALESCE(has_schema_privilege(to_regnamespace('mq'), 'USAGE'), false)
  THEN COALESCE(has_table_privilege(to_regclass('grading.jobs'), 'INSERT'), false)
    AND COALESCE(has_table_privilege(to_regclass('mq.grading_request'), 'SELECT'), false) ELSE false END AS there";

/// Accepting a request and forgetting its submission wait for each other: what is on its way when it is forgotten becomes no job.
const LOCK: &str = "-- grading_job_lock
SELECT pg_advisory_xact_lock(hashtextextended($1::uuid::text, 7011))";

const ACCEPT: &str = "-- grading_job_accept
WITH j AS (
  INSERT INTO grading.jobs (request_id, submission_id, attempt, skill, payload, deadline) SELECT $1, $2, $3, $4, $5, $6
  WHERE NOT EXISTS (SELECT FROM grading.forgotten f WHERE f.submission_id = $2)
  ON CONFLICT (request_id) DO NOTHING RETURNING id
), e AS (
  INSERT INTO grading.events (job_id, to_state, trigger, actor, actor_type) SELECT j.id, 'QUEUED', 'accept', 'system', 'system' FROM j
)
SELECT j.id FROM j";

const OF_REQUEST: &str = "-- grading_job_of_request
SELECT j.id, j.state FROM grading.jobs j WHERE j.request_id = $1 FOR NO KEY UPDATE";

/// The last callback of a job that has ended, as it was sent, is its end; of one that goes on there will be others.
const LAST: &str = "-- grading_job_last_callback
SELECT j.callback FROM grading.jobs j WHERE j.id = $1 AND j.ended_at IS NOT NULL AND j.callback IS NOT NULL";

const SEND: &str = "-- grading_job_send
INSERT INTO mq.grading_callback (message_id, payload) VALUES ($1, $2) ON CONFLICT DO NOTHING";

const CANCEL: &str = "-- grading_job_cancel
UPDATE grading.jobs j SET cancelled_at = clock_timestamp(),
  available_at = CASE WHEN j.lease_token IS NULL THEN clock_timestamp() ELSE j.available_at END
WHERE j.request_id = $1 AND j.cancelled_at IS NULL AND j.ended_at IS NULL";

const FORGOTTEN: &str = "-- grading_job_forgotten
INSERT INTO grading.forgotten (submission_id) VALUES ($1) ON CONFLICT DO NOTHING";
const FORGET_DEAD: &str = "-- grading_job_forget_dead
SELECT mq.forget_dead($1)";
/// No topic keeps a message for longer.
const FORGET_FORGOTTEN: &str = "-- grading_job_forget_forgotten
DELETE FROM grading.forgotten f WHERE f.at < now() - interval '35 days'";
const FORGET_STEPS: &str = "-- grading_job_forget_steps
UPDATE grading.steps s SET output = NULL FROM grading.jobs j WHERE s.job_id = j.id AND j.submission_id = $1 AND s.output IS NOT NULL";
/// A job that goes on keeps its request until it ends: it is cancelled with it, and emptied by the next look.
const FORGET_JOBS: &str = "-- grading_job_forget
UPDATE grading.jobs j SET payload = CASE WHEN j.ended_at IS NULL THEN j.payload END, callback = NULL, cancelled_at = COALESCE(j.cancelled_at, clock_timestamp()),
  forgotten_at = clock_timestamp() WHERE j.submission_id = $1";
/// A job that went on when its submission was emptied is not kept for a day.
const EMPTY_FORGOTTEN: &str = "-- grading_job_empty_forgotten
WITH j AS (
  UPDATE grading.jobs j SET payload = NULL, callback = NULL WHERE j.ended_at IS NOT NULL AND j.forgotten_at IS NOT NULL AND j.payload IS NOT NULL RETURNING j.id
)
UPDATE grading.steps s SET output = NULL FROM j WHERE s.job_id = j.id AND s.output IS NOT NULL";

/// A cancel may have come before its request: after the deadline nobody waits, whoever said so.
const IS_WANTED: &str = "-- grading_job_is_wanted
SELECT CASE WHEN j.cancelled_at IS NOT NULL THEN 'cancelled' WHEN j.deadline < clock_timestamp() THEN 'late' ELSE 'wanted' END AS wanted
FROM grading.jobs j WHERE j.id = $1 AND j.lease_token = $2";

const STEPS: &str = "-- grading_steps
SELECT s.number, s.output, s.model, s.tokens, s.took_ms FROM grading.steps s WHERE s.job_id = $1 AND s.kind = $2 AND s.input_digest = $3
  AND s.output IS NOT NULL ORDER BY s.number";

const SAME: &str = "-- grading_same_step
SELECT s.output, s.model, s.tokens, s.took_ms FROM grading.steps s
WHERE s.input_digest = $1 AND s.kind = $2 AND s.number = $3 AND s.output IS NOT NULL AND NOT s.copied ORDER BY s.id LIMIT 1";

/// The cost counts, whoever's answer stands.
const RECORD: &str = "-- grading_record_step
WITH s AS (
  INSERT INTO grading.steps (job_id, kind, number, input_digest, output, model, copied, tokens, took_ms)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING
)
INSERT INTO grading.spent AS t (day, tokens) SELECT (now() AT TIME ZONE 'UTC')::date, $8 WHERE $8 > 0
ON CONFLICT (day) DO UPDATE SET tokens = t.tokens + EXCLUDED.tokens";

const STANDS: &str = "-- grading_step_stands
SELECT s.output, s.model, s.tokens, s.took_ms FROM grading.steps s
WHERE s.job_id = $1 AND s.kind = $2 AND s.number = $3 AND s.input_digest = $4 AND s.output IS NOT NULL";

const SPEND: &str = "-- grading_spend
INSERT INTO grading.spent AS t (day, tokens) VALUES ((now() AT TIME ZONE 'UTC')::date, $1)
ON CONFLICT (day) DO UPDATE SET tokens = t.tokens + EXCLUDED.tokens";
const SPENT: &str = "-- grading_spent
SELECT COALESCE((SELECT t.tokens FROM grading.spent t WHERE t.day = (now() AT TIME ZONE 'UTC')::date), 0) AS tokens";

const SUFFICES: &str = "-- grading_suffices
SELECT COALESCE((SELECT c.suffices FROM grading.calibrations c WHERE c.skill = $1 AND c.models = $2 AND c.prompt = $3 AND c.rubric = $4
  ORDER BY c.id DESC LIMIT 1), false) AS suffices";

const EMPTY: &str = "-- grading_empty_ended
SELECT grading.empty_ended(make_interval(secs => $1), $2) AS n";

/// A trial on a labelled corpus, and its figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// The skill that is graded.
    pub skill: Skill,
    /// The models, in one name.
    pub models: String,
    /// Version of the prompt.
    pub prompt: String,
    /// Version of the rubric.
    pub rubric: String,
    /// Works, and those that were graded.
    pub items: (u32, u32),
    /// Quadratic weighted kappa of bands.
    pub qwk: f64,
    /// Mean absolute error of scores.
    pub mae: f64,
    /// Expected calibration error.
    pub ece: f64,
    /// Whether the models may grade without a person.
    pub suffices: bool,
}

const RECORD_CALIBRATION: &str = "-- grading_record_calibration
INSERT INTO grading.calibrations (skill, models, prompt, rubric, items, answered, qwk, mae, ece, suffices, actor)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";

impl JobStore {
    /// The jobs over `pool`; transitions are recorded as made by `actor`.
    #[must_use]
    pub fn new(pool: Pool, actor: &str) -> Self {
        Self { rows: Rows::new(pool, actor) }
    }

    /// Whether this role may work here.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn is_there(&self) -> Result<bool, DbError> {
        let client = self.pool().get().await?;
        client
            .query_one(&client.prepare_cached(THERE).await?, &[])
            .await?
            .try_get("there")
            .map_err(DbError::from)
    }

    /// Makes the job of a request, unless it has one, or its submission was forgotten.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn accept(
        &self,
        tx: &Transaction,
        (request, submission, attempt): (Uuid, Uuid, u32),
        skill: Skill,
        payload: &Value,
        deadline: jiff::Timestamp,
    ) -> Result<Accepted, DbError> {
        let attempt = i32::try_from(attempt).unwrap_or(i32::MAX);
        tx.execute(&tx.prepare_cached(LOCK).await?, &[&submission]).await?;
        let statement = tx.prepare_cached(ACCEPT).await?;
        let parameters: [&dyn Parameter; 6] =
            [&request, &submission, &attempt, &skill.label(), payload, &deadline];
        if let Some(row) = tx.query_opt(&statement, &parameters).await? {
            return Ok(Accepted::New(row.try_get("id")?));
        }
        let row = tx.query_opt(&tx.prepare_cached(OF_REQUEST).await?, &[&request]).await?;
        row.map_or(Ok(Accepted::Forgotten), |row| Ok(Accepted::Known(row.try_get("id")?)))
    }

    /// The database's time.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn now(&self, tx: &Transaction) -> Result<jiff::Timestamp, DbError> {
        const NOW: &str = "-- grading_job_now\nSELECT clock_timestamp() AS now";
        tx.query_one(&tx.prepare_cached(NOW).await?, &[]).await?.try_get("now").map_err(DbError::from)
    }

    /// Sends a callback.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn send(&self, tx: &Transaction, id: Uuid, callback: &Value) -> Result<(), DbError> {
        tx.execute(&tx.prepare_cached(SEND).await?, &[&id, callback]).await?;
        Ok(())
    }

    /// Sends the last callback of an ended job again, as another message of the same event, with this id. Answers whether there was one.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn send_again(&self, tx: &Transaction, job: Uuid, message: Uuid) -> Result<bool, DbError> {
        let Some(row) = tx.query_opt(&tx.prepare_cached(LAST).await?, &[&job]).await? else {
            return Ok(false);
        };
        let callback: Value = row.try_get("callback")?;
        self.send(tx, message, &callback).await?;
        Ok(true)
    }

    /// Has no call begin any more for a request. Answers whether it went on.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn cancel(&self, tx: &Transaction, request: Uuid) -> Result<bool, DbError> {
        Ok(tx.execute(&tx.prepare_cached(CANCEL).await?, &[&request]).await? > 0)
    }

    /// Forgets what was written or said in a submission, and what is still on its way here.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn forget(&self, tx: &Transaction, submission: Uuid) -> Result<u64, DbError> {
        for statement in [LOCK, FORGOTTEN, FORGET_DEAD] {
            tx.execute(&tx.prepare_cached(statement).await?, &[&submission]).await?;
        }
        tx.execute(&tx.prepare_cached(FORGET_STEPS).await?, &[&submission]).await?;
        tx.execute(&tx.prepare_cached(FORGET_JOBS).await?, &[&submission]).await
    }

    /// Whether somebody still waits for a leased job; absent where the lease is another's.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn wanted(&self, job: Uuid, token: Uuid) -> Result<Option<Wanted>, DbError> {
        let client = self.pool().get().await?;
        let row = client.query_opt(&client.prepare_cached(IS_WANTED).await?, &[&job, &token]).await?;
        row.map(|row| word_in(&row, "grading.jobs", "wanted")).transpose()
    }

    /// The steps of a job that were paid for with this input, by number.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn steps(&self, job: Uuid, kind: StepKind, digest: &str) -> Result<Vec<(u32, Step)>, DbError> {
        let client = self.pool().get().await?;
        let rows =
            client.query(&client.prepare_cached(STEPS).await?, &[&job, &kind.label(), &digest]).await?;
        rows.iter()
            .map(|row| {
                let number: i32 = row.try_get("number")?;
                Ok((u32::try_from(number).unwrap_or_default(), step(row)?))
            })
            .collect()
    }

    /// A step of any job that was paid for with this input.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn same_step(
        &self,
        digest: &str,
        kind: StepKind,
        number: u32,
    ) -> Result<Option<Step>, DbError> {
        let number = i32::try_from(number).unwrap_or(i32::MAX);
        let client = self.pool().get().await?;
        let statement = client.prepare_cached(SAME).await?;
        let row = client.query_opt(&statement, &[&digest, &kind.label(), &number]).await?;
        row.as_ref().map(step).transpose()
    }

    /// Keeps a step before it counts, and returns the one that stands: this, or what another worker was answered first.
    ///
    /// # Errors
    /// [`DbError`]; also where it was emptied meanwhile.
    pub async fn record_step(
        &self,
        job: Uuid,
        (kind, number): (StepKind, u32),
        digest: &str,
        step: &Step,
        copied: bool,
    ) -> Result<Step, DbError> {
        let whole = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        let (number, took) = (whole(number), whole(step.took_ms));
        let tokens = if copied { 0 } else { whole(step.tokens) };
        self.pool()
            .transaction("grading_job_record", async |tx| {
                let parameters: [&dyn Parameter; 9] = [
                    &job,
                    &kind.label(),
                    &number,
                    &digest,
                    &step.output,
                    &step.model,
                    &copied,
                    &tokens,
                    &took,
                ];
                tx.execute(&tx.prepare_cached(RECORD).await?, &parameters).await?;
                // A statement of its own: it sees what another one has committed first.
                let statement = tx.prepare_cached(STANDS).await?;
                let row = tx.query_opt(&statement, &[&job, &kind.label(), &number, &digest]).await?;
                let gone = || DbError::Shape("the step is not there any more".to_owned());
                row.as_ref().map(self::step).transpose()?.ok_or_else(gone)
            })
            .await
    }

    /// Counts tokens that a question cost, though nothing came of it.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn spend(&self, tokens: u64) -> Result<(), DbError> {
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
        self.pool()
            .transaction("grading_job_record", async |tx| {
                tx.execute(&tx.prepare_cached(SPEND).await?, &[&tokens]).await?;
                Ok(())
            })
            .await
    }

    /// Tokens of today.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn spent(&self) -> Result<u64, DbError> {
        let client = self.pool().get().await?;
        let tokens: i64 =
            client.query_one(&client.prepare_cached(SPENT).await?, &[]).await?.try_get("tokens")?;
        Ok(u64::try_from(tokens).unwrap_or_default())
    }

    /// Whether these models, with this prompt and rubric, were tried, and may grade without a person.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn suffices(
        &self,
        skill: Skill,
        models: &str,
        prompt: &str,
        rubric: &str,
    ) -> Result<bool, DbError> {
        let client = self.pool().get().await?;
        let statement = client.prepare_cached(SUFFICES).await?;
        let row = client.query_one(&statement, &[&skill.label(), &models, &prompt, &rubric]).await?;
        row.try_get("suffices").map_err(DbError::from)
    }

    /// Keeps what came of a trial.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn record_calibration(&self, tried: &Calibration, actor: &str) -> Result<(), DbError> {
        let whole = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        let (items, answered) = (whole(tried.items.0), whole(tried.items.1));
        self.pool()
            .transaction("grading_job_record", async |tx| {
                let parameters: [&dyn Parameter; 11] = [
                    &tried.skill.label(),
                    &tried.models,
                    &tried.prompt,
                    &tried.rubric,
                    &items,
                    &answered,
                    &tried.qwk,
                    &tried.mae,
                    &tried.ece,
                    &tried.suffices,
                    &actor,
                ];
                tx.execute(&tx.prepare_cached(RECORD_CALIBRATION).await?, &parameters).await?;
                Ok(())
            })
            .await
    }

    /// Empties jobs that ended longer than `keep` ago, and those that are to be forgotten. Answers how many of the former.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn empty(&self, keep: Duration, most: i32) -> Result<u64, DbError> {
        let keep = keep.as_secs_f64();
        self.pool()
            .transaction("grading_job_empty", async |tx| {
                for statement in [EMPTY_FORGOTTEN, FORGET_FORGOTTEN] {
                    tx.execute(&tx.prepare_cached(statement).await?, &[]).await?;
                }
                let n: i64 =
                    tx.query_one(&tx.prepare_cached(EMPTY).await?, &[&keep, &most]).await?.try_get("n")?;
                Ok(u64::try_from(n).unwrap_or_default())
            })
            .await
    }
}

fn step(row: &tokio_postgres::Row) -> Result<Step, DbError> {
    let count = |column: &str| -> Result<u32, DbError> {
        Ok(u32::try_from(row.try_get::<_, i32>(column)?).unwrap_or_default())
    };
    Ok(Step {
        output: row.try_get("output")?,
        model: row.try_get("model")?,
        tokens: count("tokens")?,
        took_ms: count("took_ms")?,
    })
}
