//! Which forms are graded, and by which questions. Written as the publisher's role, `forms_loader`.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::GradingStore;
use crate::db::{DbError, Parameter};
use crate::grading::core::skill::{Skill, Task};
use crate::kernel::rows::word_in;
use crate::words;

words! {
    /// The fate of a gated mail whose attempt failed.
    OnFailed {
        /// It waits for a person.
        Hold = "hold",
        /// It goes without a grade.
        Send = "send",
    }
}

/// A question, as its file has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The skill of the question.
    pub skill: Skill,
    /// Its text.
    #[serde(default)]
    pub prompt: String,
    /// Of listening and reading: an item's key, and the answers that are right.
    #[serde(default)]
    pub answer_key: Option<Value>,
    /// Texts that are known.
    #[serde(default)]
    pub known: Vec<String>,
    /// Version of the rubric.
    #[serde(default = "first")]
    pub rubric: String,
}

fn first() -> String {
    "1".to_owned()
}

/// How a form is graded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewProfile {
    /// The form.
    pub form: String,
    /// The skill that is graded.
    pub skill: Skill,
    /// The question.
    pub question: String,
    /// The field with the text.
    pub text_field: Option<String>,
    /// The task.
    pub task: Option<Task>,
    /// The part.
    pub part: Option<u8>,
    /// The field of the learner's consent.
    pub consent_field: Option<String>,
    /// Whether the mail waits.
    pub gate: bool,
    /// Its fate where there is no grade.
    pub on_failed: OnFailed,
    /// Time until an attempt fails.
    pub sla: Duration,
}

/// A form that is graded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GradedForm {
    /// The form.
    pub form_id: String,
    /// The skill that is graded.
    pub skill: Skill,
    /// The question.
    pub question: String,
    /// Whether the mail waits.
    pub gate: bool,
    /// Its fate where there is no grade.
    pub on_failed: String,
    /// Seconds until an attempt fails.
    pub sla_seconds: f64,
    /// Submissions created since then are graded.
    pub since: Timestamp,
    /// The person who set it.
    pub set_by: String,
    /// Attempts that have not ended.
    pub open: i64,
}

const PUT_QUESTION: &str = "-- grading_put_question
INSERT INTO assessment.questions AS q (id, skill, prompt, answer_key, known, rubric, set_by) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (id) DO UPDATE SET skill = EXCLUDED.skill, prompt = EXCLUDED.prompt, answer_key = EXCLUDED.answer_key,
  known = EXCLUDED.known, rubric = EXCLUDED.rubric, set_by = EXCLUDED.set_by, set_at = clock_timestamp()";

const QUESTION_SKILL: &str = "-- grading_question_skill
SELECT q.skill FROM assessment.questions q WHERE q.id = $1";

/// A form that was graded before keeps the time since when it is.
const ENABLE: &str = "-- grading_enable
INSERT INTO assessment.profiles AS p (form_id, skill, question, text_field, task, part, consent_field, gate, on_failed, sla, set_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, make_interval(secs => $10), $11)
ON CONFLICT (form_id) DO UPDATE SET skill = EXCLUDED.skill, question = EXCLUDED.question, text_field = EXCLUDED.text_field,
  task = EXCLUDED.task, part = EXCLUDED.part, consent_field = EXCLUDED.consent_field, gate = EXCLUDED.gate,
  on_failed = EXCLUDED.on_failed, sla = EXCLUDED.sla, set_by = EXCLUDED.set_by, set_at = clock_timestamp()";

const DISABLE: &str = "-- grading_disable
DELETE FROM assessment.profiles p WHERE p.form_id = $1";

const FORM_THERE: &str = "-- grading_form_there
SELECT EXISTS (SELECT FROM forms f WHERE f.id::text = $1) AS there";

const MAY_SET: &str = "-- grading_may_set
SELECT has_table_privilege('assessment.profiles', 'INSERT') AND has_table_privilege('assessment.questions', 'INSERT') AS may";

const FORMS: &str = "-- grading_forms
SELECT p.form_id, p.skill, p.question, p.gate, p.on_failed, extract(epoch FROM p.sla)::float8 AS sla, p.since, p.set_by,
  (SELECT count(*) FROM assessment.submissions a WHERE a.form_id = p.form_id AND a.ended_at IS NULL AND a.closed_at IS NULL) AS open
FROM assessment.profiles p ORDER BY p.form_id";

impl GradingStore {
    /// Puts a question in the place of that with its name, if any.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn put_question(&self, id: &str, question: &Question, actor: &str) -> Result<(), DbError> {
        let known = serde_json::json!(question.known);
        self.pool()
            .transaction("grading_set", async |tx| {
                let parameters: [&dyn Parameter; 7] = [
                    &id,
                    &question.skill.label(),
                    &question.prompt,
                    &question.answer_key,
                    &known,
                    &question.rubric,
                    &actor,
                ];
                tx.execute(&tx.prepare_cached(PUT_QUESTION).await?, &parameters).await?;
                Ok(())
            })
            .await
    }

    /// The skill of a question; absent where there is none of that name.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn question_skill(&self, id: &str) -> Result<Option<Skill>, DbError> {
        let client = self.pool().get().await?;
        let row = client.query_opt(&client.prepare_cached(QUESTION_SKILL).await?, &[&id]).await?;
        row.map(|row| word_in(&row, "assessment.questions", "skill")).transpose()
    }

    /// Whether there is a form of this id.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn is_form(&self, form: &str) -> Result<bool, DbError> {
        let client = self.pool().get().await?;
        let statement = client.prepare_cached(FORM_THERE).await?;
        client.query_one(&statement, &[&form]).await?.try_get("there").map_err(DbError::from)
    }

    /// Has a form graded from now on, or otherwise.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn enable(&self, profile: &NewProfile, actor: &str) -> Result<(), DbError> {
        let part = profile.part.map(i32::from);
        let task = profile.task.map(Task::label);
        let sla = profile.sla.as_secs_f64();
        self.pool()
            .transaction("grading_set", async |tx| {
                let parameters: [&dyn Parameter; 11] = [
                    &profile.form,
                    &profile.skill.label(),
                    &profile.question,
                    &profile.text_field,
                    &task,
                    &part,
                    &profile.consent_field,
                    &profile.gate,
                    &profile.on_failed.label(),
                    &sla,
                    &actor,
                ];
                tx.execute(&tx.prepare_cached(ENABLE).await?, &parameters).await?;
                Ok(())
            })
            .await
    }

    /// Has a form graded no more; attempts that are open go on. Answers whether it was.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn disable(&self, form: &str) -> Result<bool, DbError> {
        self.pool()
            .transaction("grading_set", async |tx| {
                Ok(tx.execute(&tx.prepare_cached(DISABLE).await?, &[&form]).await? > 0)
            })
            .await
    }

    /// Whether this role may set what is graded.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn may_set(&self) -> Result<bool, DbError> {
        let client = self.pool().get().await?;
        client
            .query_one(&client.prepare_cached(MAY_SET).await?, &[])
            .await?
            .try_get("may")
            .map_err(DbError::from)
    }

    /// The forms that are graded.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn forms(&self) -> Result<Vec<GradedForm>, DbError> {
        let client = self.pool().get().await?;
        let rows = client.query(&client.prepare_cached(FORMS).await?, &[]).await?;
        rows.iter()
            .map(|row| {
                Ok(GradedForm {
                    form_id: row.try_get("form_id")?,
                    skill: word_in(row, "assessment.profiles", "skill")?,
                    question: row.try_get("question")?,
                    gate: row.try_get("gate")?,
                    on_failed: row.try_get("on_failed")?,
                    sla_seconds: row.try_get("sla")?,
                    since: row.try_get("since")?,
                    set_by: row.try_get("set_by")?,
                    open: row.try_get("open")?,
                })
            })
            .collect()
    }
}
