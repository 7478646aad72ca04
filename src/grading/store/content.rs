//! The content of an attempt, as it stands now: the profile of its form, the question, what was entered, and the audio.

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use super::GradingStore;
use crate::db::DbError;
use crate::grading::core::skill::{Skill, Task};
use crate::kernel::rows::word_in;

/// A form's profile, with its question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The skill that is graded.
    pub skill: Skill,
    /// The field with the text; of writing alone.
    pub text_field: Option<String>,
    /// The task; of writing alone.
    pub task: Option<Task>,
    /// The part; of speaking alone.
    pub part: Option<u8>,
    /// The field by which the learner consents to a model outside this house.
    pub consent_field: Option<String>,
    /// The question's name.
    pub question: String,
    /// The question.
    pub prompt: String,
    /// The key; of listening and reading.
    pub answer_key: Option<Value>,
    /// Texts that are known.
    pub known: Vec<String>,
    /// Version of the rubric.
    pub rubric: String,
}

/// The audio of a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audio {
    /// Its attachment.
    pub id: Uuid,
    /// Its bucket.
    pub bucket: String,
    /// Its object.
    pub object: String,
    /// Its size.
    pub size: Option<u64>,
    /// Whether a scanner found it clean.
    pub is_clean: bool,
}

/// The content of an attempt. Its `Debug` shows nothing: it has what people entered.
#[derive(Clone, PartialEq, Eq)]
pub struct Content {
    /// The profile; absent where the form has none any more.
    pub profile: Option<Profile>,
    /// Keys and values, in order.
    pub fields: Vec<(String, String)>,
    /// The first file that is audio.
    pub audio: Option<Audio>,
    /// The database's time.
    pub now: Timestamp,
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { profile, fields, audio, .. } = self;
        let skill = profile.as_ref().map(|profile| profile.skill);
        f.debug_struct("Content")
            .field("skill", &skill)
            .field("fields", &fields.len())
            .field("audio", &audio.is_some())
            .finish_non_exhaustive()
    }
}

impl Content {
    /// The value of a field, its first where it stands there twice.
    #[must_use]
    pub fn field(&self, key: &str) -> Option<&str> {
        self.fields.iter().find(|(found, _)| found == key).map(|(_, value)| value.as_str())
    }
}

const CONTENT: &str = "-- grading_content
SELECT p.skill, p.text_field, p.task, p.part, p.consent_field, q.id AS question, q.prompt, q.answer_key, q.known, q.rubric,
  COALESCE((SELECT jsonb_agg(jsonb_build_array(f.field_key, COALESCE(f.field_value, '')) ORDER BY f.position, f.id)
    FROM submission_fields f WHERE f.submission_id = s.id), '[]') AS fields,
  a.id AS audio, a.gcs_bucket AS bucket, a.gcs_object AS object, a.size_bytes, a.clamav_status IS NOT DISTINCT FROM 'clean' AS clean, clock_timestamp() AS now
FROM submissions s LEFT JOIN assessment.profiles p ON p.form_id = s.form_id::text
LEFT JOIN assessment.questions q ON q.id = p.question
LEFT JOIN LATERAL (SELECT x.id, x.gcs_bucket, x.gcs_object, x.size_bytes, x.clamav_status FROM attachments x
  WHERE x.submission_id = s.id AND x.content_type LIKE 'audio/%' ORDER BY x.created_at, x.id LIMIT 1) AS a ON true
WHERE s.id = $1";

impl GradingStore {
    /// The content of a submission; absent where there is none.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn content(&self, subject: Uuid) -> Result<Option<Content>, DbError> {
        let client = self.pool().get().await?;
        let Some(row) = client.query_opt(&client.prepare_cached(CONTENT).await?, &[&subject]).await? else {
            return Ok(None);
        };
        let shape = |what: &str| DbError::Shape(format!("grading: {what} is not what the schema made it"));
        let fields: Value = row.try_get("fields")?;
        let fields: Vec<(String, String)> = serde_json::from_value(fields).map_err(|_| shape("fields"))?;
        let profile = match row.try_get::<_, Option<String>>("skill")? {
            None => None,
            Some(_) => {
                let known: Value = row.try_get("known")?;
                let task: Option<String> = row.try_get("task")?;
                let part: Option<i32> = row.try_get("part")?;
                Some(Profile {
                    skill: word_in(&row, "assessment.profiles", "skill")?,
                    text_field: row.try_get("text_field")?,
                    task: task.as_deref().and_then(Task::parse),
                    part: part.and_then(|part| u8::try_from(part).ok()),
                    consent_field: row.try_get("consent_field")?,
                    question: row.try_get("question")?,
                    prompt: row.try_get("prompt")?,
                    answer_key: row.try_get("answer_key")?,
                    known: serde_json::from_value(known).map_err(|_| shape("assessment.questions.known"))?,
                    rubric: row.try_get("rubric")?,
                })
            }
        };
        let audio = match row.try_get::<_, Option<Uuid>>("audio")? {
            None => None,
            Some(id) => {
                let size: Option<i64> = row.try_get("size_bytes")?;
                Some(Audio {
                    id,
                    bucket: row.try_get("bucket")?,
                    object: row.try_get("object")?,
                    size: size.and_then(|size| u64::try_from(size).ok()),
                    is_clean: row.try_get("clean")?,
                })
            }
        };
        Ok(Some(Content { profile, fields, audio, now: row.try_get("now")? }))
    }
}
