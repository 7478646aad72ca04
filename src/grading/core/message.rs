//! Messages between the two sides: requests and callbacks. Pure.
//!
//! Either comes at least once and in any order, and either side may run another version: a message is read exactly, or not at
//! all, and what is wrong with it is named by its member, never by its content. **No message names the learner.** A callback's
//! id follows from what it is about: sent twice, it is one event.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::skill::{Skill, Task};
use super::{is_plain, object};
use crate::kernel::words;

mod callback;

pub use callback::{
    Callback, CallbackKind, ErrorType, Failure, MOST_TRANSCRIPT, Said, Status, cut_transcript, event_id,
};

/// Longest message, in bytes.
pub const MOST_MESSAGE: usize = 64 * 1024;
/// Longest text of a work, in bytes.
pub const MOST_TEXT: usize = 32 * 1024;
/// Longest recording, in seconds.
pub const MOST_SECONDS: u32 = 900;
/// Longest name of a question and of a rubric, in bytes; longest URL.
const MOST_ID: usize = 80;
const MOST_RUBRIC: usize = 40;
const MOST_URL: usize = 2048;
/// Highest count: the database has integers of 32 bits.
const MOST_COUNT: u32 = i32::MAX.unsigned_abs();

words! {
    /// The wish.
    RequestKind {
        /// A grade.
        Grade = "grade",
        /// No call begins after it.
        Cancel = "cancel",
        /// Whatever is kept of the request is emptied.
        Forget = "forget",
    }
}

/// The fault of a message. Names the member, and nothing that stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BadMessage {
    /// It is longer than [`MOST_MESSAGE`].
    #[error("the message is longer than 64 KiB")]
    TooLarge,
    /// It is not JSON, or has another shape: a member too many, twice, or of another type.
    #[error("the message is not a JSON object of the expected shape (at line {line}, column {column})")]
    Shape {
        /// Where reading ended, from 1.
        line: usize,
        /// Where reading ended, from 1.
        column: usize,
    },
    /// A member is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A member has no place in a message of this kind.
    #[error("{0} has no place in a message of this kind")]
    Unexpected(&'static str),
    /// A member is out of its bounds.
    #[error("{0} is out of its bounds")]
    Invalid(&'static str),
}

/// Something that one side asks the other for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The attempt's.
    pub request_id: Uuid,
    /// The submission's.
    pub submission_id: Uuid,
    /// Which of the submission's attempts, from 1.
    pub attempt: u32,
    /// The wish.
    pub ask: Ask,
}

/// The wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// A grade.
    Grade(Box<Grade>),
    /// No call begins after it.
    Cancel,
    /// Whatever is kept of the request is emptied.
    Forget,
}

/// The content of a request for a grade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grade {
    /// By which the work is judged; follows from the payload as well.
    pub skill: Skill,
    /// After it nobody waits.
    pub deadline_at: Timestamp,
    /// The rubric's version.
    pub rubric: String,
    /// The question.
    pub question: Question,
    /// The work.
    pub payload: Payload,
}

/// The question that a learner was asked.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Question {
    /// Its name.
    pub id: String,
    /// Its text.
    pub prompt: String,
    /// Texts that are known: whoever hands one in has not written it.
    pub known: Vec<String>,
}

/// A work.
#[derive(Clone, PartialEq, Eq)]
pub enum Payload {
    /// A text: writing.
    Text {
        /// The text.
        text: String,
        /// Its words.
        word_count: u32,
        /// The task.
        task: Task,
    },
    /// A recording: speaking.
    Audio {
        /// Where it is fetched, for a while.
        url: String,
        /// How long it is, where that is known.
        seconds: Option<u32>,
        /// Part of the exam, 1 to 3.
        part: u8,
    },
}

/// A request as it is written.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    request_id: Uuid,
    submission_id: Uuid,
    attempt: u32,
    kind: RequestKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    skill: Option<Skill>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rubric: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_object")]
    question: Option<Question>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_object")]
    payload: Option<WirePayload>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WirePayload {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    word_count: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task_type: Option<Task>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    audio_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    duration_seconds: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    part: Option<u8>,
}

fn some_object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    object(deserializer).map(Some)
}

/// Ids of a message that may be bad otherwise: whoever sent it can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ids {
    /// The attempt's.
    pub request_id: Uuid,
    /// The submission's.
    pub submission_id: Uuid,
}

impl Ids {
    /// Ids of a message, whatever else stands in it.
    #[must_use]
    pub fn of(message: &[u8]) -> Option<Self> {
        read(message).ok()
    }
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// [`BadMessage`]: the first fault.
    pub fn parse(message: &[u8]) -> Result<Self, BadMessage> {
        let wire: Wire = read(message)?;
        let Wire { request_id, submission_id, attempt, kind, skill, deadline_at, rubric, question, payload } =
            wire;
        bound((1..=MOST_COUNT).contains(&attempt), "attempt")?;
        let ask = match kind {
            RequestKind::Grade => Ask::Grade(Box::new(Grade::of(
                needed(skill, "skill")?,
                needed(deadline_at, "deadlineAt")?,
                needed(rubric, "rubric")?,
                needed(question, "question")?,
                needed(payload, "payload")?,
            )?)),
            RequestKind::Cancel | RequestKind::Forget => {
                absent(skill.as_ref(), "skill")?;
                absent(deadline_at.as_ref(), "deadlineAt")?;
                absent(rubric.as_ref(), "rubric")?;
                absent(question.as_ref(), "question")?;
                absent(payload.as_ref(), "payload")?;
                if kind == RequestKind::Cancel { Ask::Cancel } else { Ask::Forget }
            }
        };
        Ok(Self { request_id, submission_id, attempt, ask })
    }

    /// The wish, in a word.
    #[must_use]
    pub const fn kind(&self) -> RequestKind {
        match self.ask {
            Ask::Grade(_) => RequestKind::Grade,
            Ask::Cancel => RequestKind::Cancel,
            Ask::Forget => RequestKind::Forget,
        }
    }

    /// Its bytes, if they are a request that [`Request::parse`] takes.
    ///
    /// # Errors
    /// [`BadMessage`]: a text that is too long with what stands beside it, or any other fault.
    pub fn to_bytes(&self) -> Result<Vec<u8>, BadMessage> {
        let grade = match &self.ask {
            Ask::Grade(grade) => Some(grade),
            Ask::Cancel | Ask::Forget => None,
        };
        let written = write(&Wire {
            request_id: self.request_id,
            submission_id: self.submission_id,
            attempt: self.attempt,
            kind: self.kind(),
            skill: grade.map(|it| it.skill),
            deadline_at: grade.map(|it| it.deadline_at),
            rubric: grade.map(|it| it.rubric.clone()),
            question: grade.map(|it| it.question.clone()),
            payload: grade.map(|it| it.payload.wire()),
        })?;
        Self::parse(&written).map(|_| written)
    }
}

impl Grade {
    fn of(
        skill: Skill,
        deadline_at: Timestamp,
        rubric: String,
        question: Question,
        payload: WirePayload,
    ) -> Result<Self, BadMessage> {
        bound(is_plain(&rubric, MOST_RUBRIC), "rubric")?;
        bound(is_plain(&question.id, MOST_ID), "question.id")?;
        let payload = match skill {
            Skill::Writing => payload.into_text()?,
            Skill::Speaking => payload.into_audio()?,
            // A key is not sent: who has it marks.
            Skill::Listening | Skill::Reading => return Err(BadMessage::Invalid("skill")),
        };
        Ok(Self { skill, deadline_at, rubric, question, payload })
    }
}

impl WirePayload {
    fn into_text(self) -> Result<Payload, BadMessage> {
        absent(self.audio_url.as_ref(), "payload.audioUrl")?;
        absent(self.duration_seconds.as_ref(), "payload.durationSeconds")?;
        absent(self.part.as_ref(), "payload.part")?;
        let text = needed(self.text, "payload.text")?;
        bound(text.len() <= MOST_TEXT && !text.trim().is_empty(), "payload.text")?;
        let word_count = needed(self.word_count, "payload.wordCount")?;
        bound(word_count <= MOST_COUNT, "payload.wordCount")?;
        Ok(Payload::Text { text, word_count, task: needed(self.task_type, "payload.taskType")? })
    }

    fn into_audio(self) -> Result<Payload, BadMessage> {
        absent(self.text.as_ref(), "payload.text")?;
        absent(self.word_count.as_ref(), "payload.wordCount")?;
        absent(self.task_type.as_ref(), "payload.taskType")?;
        let url = needed(self.audio_url, "payload.audioUrl")?;
        // Which host it may be is the fetcher's to say.
        let is_web = url.starts_with("https://") || url.starts_with("http://");
        bound(
            is_web && url.len() <= MOST_URL && url.bytes().all(|b| b.is_ascii_graphic()),
            "payload.audioUrl",
        )?;
        bound(self.duration_seconds.is_none_or(|it| it <= MOST_SECONDS), "payload.durationSeconds")?;
        let part = needed(self.part, "payload.part")?;
        bound((1..=3).contains(&part), "payload.part")?;
        Ok(Payload::Audio { url, seconds: self.duration_seconds, part })
    }
}

impl Payload {
    fn wire(&self) -> WirePayload {
        let (mut text, mut word_count, mut task_type) = (None, None, None);
        let (mut audio_url, mut duration_seconds, mut part) = (None, None, None);
        match self {
            Self::Text { text: it, word_count: words, task } => {
                (text, word_count, task_type) = (Some(it.clone()), Some(*words), Some(*task));
            }
            Self::Audio { url, seconds, part: of } => {
                (audio_url, duration_seconds, part) = (Some(url.clone()), *seconds, Some(*of));
            }
        }
        WirePayload { text, word_count, task_type, audio_url, duration_seconds, part }
    }
}

/// Reads an object of at most [`MOST_MESSAGE`].
fn read<'de, T: Deserialize<'de>>(message: &'de [u8]) -> Result<T, BadMessage> {
    if message.len() > MOST_MESSAGE {
        return Err(BadMessage::TooLarge);
    }
    // The error's own words would repeat the content.
    let shape = |error: serde_json::Error| BadMessage::Shape { line: error.line(), column: error.column() };
    serde_json::from_slice(message).map(|super::Object(it)| it).map_err(shape)
}

fn write<T: Serialize>(message: &T) -> Result<Vec<u8>, BadMessage> {
    let shape = |error: serde_json::Error| BadMessage::Shape { line: error.line(), column: error.column() };
    let written = serde_json::to_vec(message).map_err(shape)?;
    if written.len() > MOST_MESSAGE { Err(BadMessage::TooLarge) } else { Ok(written) }
}

fn needed<T>(member: Option<T>, name: &'static str) -> Result<T, BadMessage> {
    member.ok_or(BadMessage::Missing(name))
}

fn absent<T>(member: Option<&T>, name: &'static str) -> Result<(), BadMessage> {
    member.map_or(Ok(()), |_| Err(BadMessage::Unexpected(name)))
}

fn bound(holds: bool, name: &'static str) -> Result<(), BadMessage> {
    if holds { Ok(()) } else { Err(BadMessage::Invalid(name)) }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question")
            .field("id", &self.id)
            .field("known", &self.known.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { text: _, word_count, task } => f
                .debug_struct("Text")
                .field("word_count", word_count)
                .field("task", task)
                .finish_non_exhaustive(),
            Self::Audio { url: _, seconds, part } => {
                f.debug_struct("Audio").field("seconds", seconds).field("part", part).finish_non_exhaustive()
            }
        }
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
