//! The answers to a request: progress, and one end. Pure.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{BadMessage, MOST_COUNT, absent, bound, needed, read, some_object, write};
use crate::grading::core::result::GradingResult;
use crate::grading::core::{is_plain, object};
use crate::kernel::words;

/// Longest transcript, in bytes of JSON: with a result it fits into a message.
pub const MOST_TRANSCRIPT: usize = 28 * 1024;
/// Longest code of an error, in bytes.
const MOST_CODE: usize = 64;
/// Names of events are of this space. Never to be changed: what is sent again would be another event.
const NAMESPACE: Uuid = Uuid::from_u128(0x6d61_706c_652d_4752_8144_494e_472d_7631);

words! {
    /// Kinds of callbacks.
    CallbackKind {
        /// A step; best effort.
        Progress = "progress",
        /// The end, with a result.
        Completed = "completed",
        /// The end, without one.
        Error = "error",
    }
}

words! {
    /// Where a job stands that has not ended.
    Status {
        /// It is being worked on.
        Processing = "PROCESSING",
        /// A try failed.
        Error = "ERROR",
        /// It waits for the next try.
        Retrying = "RETRYING",
    }
}

words! {
    /// Why there is no result.
    ErrorType {
        /// The request, or the work, cannot be graded.
        InvalidInput = "invalid_input",
        /// The model did not answer, or not well.
        Model = "model",
        /// The recording was not fetched, or not transcribed.
        Transcription = "transcription",
        /// Nobody wanted it any more.
        Cancelled = "cancelled",
        /// Whoever claimed it did not come back, again and again.
        Poison = "poison",
        /// The deadline passed.
        Timeout = "timeout",
    }
}

/// An error: a kind and a code, never its words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Its kind.
    #[serde(rename = "type")]
    pub kind: ErrorType,
    /// Its code; a plain name.
    pub code: String,
    /// Another try may help.
    pub retryable: bool,
}

/// The word on a job.
#[derive(Clone, PartialEq, Eq)]
pub enum Said {
    /// Where it stands, and what went wrong, if something did.
    Progress {
        /// Where it stands.
        status: Status,
        /// The fault; never of one that is being worked on.
        error: Option<Failure>,
    },
    /// It has ended with a result.
    Completed {
        /// Read, and not checked: whoever takes it in knows the skill and the bands.
        result: Box<GradingResult>,
        /// The transcript; of speaking.
        transcript: Option<String>,
    },
    /// It has ended without one.
    Error(Failure),
}

/// Word of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callback {
    /// The attempt's.
    pub request_id: Uuid,
    /// The submission's.
    pub submission_id: Uuid,
    /// The job's.
    pub job_id: Uuid,
    /// The job's claim number.
    pub r#try: u32,
    /// Number of the callback within its try.
    pub seq: u32,
    /// When it happened.
    pub event_at: Timestamp,
    /// The event.
    pub said: Said,
}

/// A callback as it is written.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    request_id: Uuid,
    submission_id: Uuid,
    job_id: Uuid,
    r#try: u32,
    seq: u32,
    event_id: Uuid,
    kind: CallbackKind,
    event_at: Timestamp,
    #[serde(deserialize_with = "object")]
    data: Data,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Data {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_object")]
    result: Option<GradingResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    transcript: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_object")]
    error: Option<Failure>,
}

/// The id of an event: of the same, always the same.
#[must_use]
pub fn event_id(job: Uuid, r#try: u32, kind: CallbackKind, seq: u32) -> Uuid {
    Uuid::new_v5(&NAMESPACE, format!("{job}/{try}/{kind}/{seq}").as_bytes())
}

/// A transcript, cut to what a message takes.
#[must_use]
pub fn cut_transcript(transcript: &str) -> &str {
    // As JSON writes it: an escaped character is two bytes, a control character six.
    let width = |c: char| match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => c.len_utf8(),
    };
    let mut written = 2;
    let end = transcript.char_indices().find(|(_, c)| {
        written += width(*c);
        written > MOST_TRANSCRIPT
    });
    end.and_then(|(end, _)| transcript.get(..end)).unwrap_or(transcript)
}

impl Said {
    /// The callback's kind.
    #[must_use]
    pub const fn kind(&self) -> CallbackKind {
        match self {
            Self::Progress { .. } => CallbackKind::Progress,
            Self::Completed { .. } => CallbackKind::Completed,
            Self::Error(_) => CallbackKind::Error,
        }
    }

    fn of(kind: CallbackKind, data: Data) -> Result<Self, BadMessage> {
        let Data { status, result, transcript, error } = data;
        bound(error.as_ref().is_none_or(|it| is_plain(&it.code, MOST_CODE)), "data.error.code")?;
        match kind {
            CallbackKind::Progress => {
                absent(result.as_ref(), "data.result")?;
                absent(transcript.as_ref(), "data.transcript")?;
                let status = needed(status, "data.status")?;
                match status {
                    Status::Processing => absent(error.as_ref(), "data.error")?,
                    Status::Error | Status::Retrying => {}
                }
                Ok(Self::Progress { status, error })
            }
            CallbackKind::Completed => {
                absent(status.as_ref(), "data.status")?;
                absent(error.as_ref(), "data.error")?;
                let fits = transcript.as_ref().is_none_or(|it| cut_transcript(it).len() == it.len());
                bound(fits, "data.transcript")?;
                Ok(Self::Completed { result: Box::new(needed(result, "data.result")?), transcript })
            }
            CallbackKind::Error => {
                absent(status.as_ref(), "data.status")?;
                absent(result.as_ref(), "data.result")?;
                absent(transcript.as_ref(), "data.transcript")?;
                Ok(Self::Error(needed(error, "data.error")?))
            }
        }
    }

    fn data(&self) -> Data {
        let (mut status, mut result, mut transcript, mut error) = (None, None, None, None);
        match self {
            Self::Progress { status: it, error: failure } => (status, error) = (Some(*it), failure.clone()),
            Self::Completed { result: it, transcript: heard } => {
                (result, transcript) = (Some(it.as_ref().clone()), heard.clone());
            }
            Self::Error(failure) => error = Some(failure.clone()),
        }
        Data { status, result, transcript, error }
    }
}

impl Callback {
    /// Its id.
    #[must_use]
    pub fn event_id(&self) -> Uuid {
        event_id(self.job_id, self.r#try, self.said.kind(), self.seq)
    }

    /// Reads a callback, and checks that its id is its own and its data are its kind's. A result is not checked.
    ///
    /// # Errors
    /// [`BadMessage`]: the first fault.
    pub fn parse(message: &[u8]) -> Result<Self, BadMessage> {
        let wire: Wire = read(message)?;
        bound(wire.r#try <= MOST_COUNT, "try")?;
        bound(wire.seq <= MOST_COUNT, "seq")?;
        bound(wire.event_id == event_id(wire.job_id, wire.r#try, wire.kind, wire.seq), "eventId")?;
        Ok(Self {
            request_id: wire.request_id,
            submission_id: wire.submission_id,
            job_id: wire.job_id,
            r#try: wire.r#try,
            seq: wire.seq,
            event_at: wire.event_at,
            said: Said::of(wire.kind, wire.data)?,
        })
    }

    /// Its bytes, if they are a callback that [`Callback::parse`] takes.
    ///
    /// # Errors
    /// [`BadMessage`]: a transcript that was not cut, or any other fault.
    pub fn to_bytes(&self) -> Result<Vec<u8>, BadMessage> {
        let written = write(&Wire {
            request_id: self.request_id,
            submission_id: self.submission_id,
            job_id: self.job_id,
            r#try: self.r#try,
            seq: self.seq,
            event_id: self.event_id(),
            kind: self.said.kind(),
            event_at: self.event_at,
            data: self.said.data(),
        })?;
        Self::parse(&written).map(|_| written)
    }
}

impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Progress { status, error } => {
                f.debug_struct("Progress").field("status", status).field("error", error).finish()
            }
            Self::Completed { result, transcript } => {
                let transcript = transcript.as_ref().map(String::len);
                f.debug_struct("Completed").field("result", result).field("transcript", &transcript).finish()
            }
            Self::Error(failure) => f.debug_tuple("Error").field(failure).finish(),
        }
    }
}
