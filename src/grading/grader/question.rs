//! The question to a judge about one work, for one sample: instructions that are ours, and content that is nobody's instruction.
//!
//! Task and work are one JSON document in a message of its own, each line marked with a word that is drawn for this question
//! alone; what cannot be seen is written as an escape. None of this keeps a judge from being talked round: that samples agree,
//! rules and people do. Each sample has a nonce of its own.

use std::fmt;

use serde::Serialize;

use super::answer;
use super::texts::{ANSWER_TOKENS, SHAPE, schema, system};
use crate::gateway::judge::marking::{escaped, is_nonce, marked};
use crate::grading::core::assess::Sample;
use crate::grading::core::skill::{Skill, Task};
use crate::ports::{Chat, Inquiry, InvalidAnswer, Reading};

/// Longest content that is asked about, in bytes: rubric, task and work together.
pub const LARGEST: usize = 96 * 1024;
/// Longest message, in bytes: content of nothing but line breaks grows by its marks.
const LARGEST_MESSAGE: usize = 512 * 1024;

/// A question that cannot be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unaskable {
    /// More than [`LARGEST`].
    #[error("the work is longer than a judge is asked about; a person has to grade it")]
    TooLarge,
    /// The skill is graded by a key.
    #[error("this skill is graded by an answer key; no judge is asked")]
    Keyed,
    /// Nothing is there to grade.
    #[error("the work is empty")]
    Empty,
    /// The nonce is too short, or not of letters and digits.
    #[error("the nonce must be 16 to 64 ASCII letters and digits")]
    Nonce,
    /// The nonce stands in the content; another one has to be drawn.
    #[error("the nonce stands in the content; draw another")]
    NonceInContent,
}

/// A work, and the question to a judge about it.
#[derive(Clone, PartialEq, Eq)]
pub struct Question {
    /// The skill that is graded.
    pub skill: Skill,
    /// The task of a text.
    pub task: Option<Task>,
    /// The exam's part, of a recording.
    pub part: Option<u8>,
    /// Length of a recording, in seconds.
    pub seconds: Option<u32>,
    /// The exam's own words on how to grade; may be empty.
    pub rubric: String,
    /// The task, as the learner saw it.
    pub prompt: String,
    /// The text, or the transcript.
    pub work: String,
    /// A word drawn for this question alone: 16 to 64 ASCII letters and digits.
    pub nonce: String,
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question")
            .field("skill", &self.skill)
            .field("task", &self.task)
            .field("part", &self.part)
            .field("bytes", &self.work.len())
            .finish_non_exhaustive()
    }
}

/// A question in the words that are sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Composed {
    chat: Chat,
    skill: Skill,
    work: String,
    nonce: String,
}

impl fmt::Debug for Composed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Composed")
            .field("skill", &self.skill)
            .field("chat", &self.chat)
            .finish_non_exhaustive()
    }
}

impl Question {
    /// Composes the messages.
    ///
    /// # Errors
    /// [`Unaskable`].
    pub fn compose(&self) -> Result<Composed, Unaskable> {
        if self.skill.is_keyed() {
            return Err(Unaskable::Keyed);
        }
        if !is_nonce(&self.nonce) {
            return Err(Unaskable::Nonce);
        }
        let texts = [&self.rubric, &self.prompt, &self.work];
        if texts.iter().map(|text| text.len()).fold(0, usize::saturating_add) > LARGEST {
            return Err(Unaskable::TooLarge);
        }
        if self.work.trim().is_empty() {
            return Err(Unaskable::Empty);
        }
        if texts.iter().any(|text| text.contains(&self.nonce)) {
            return Err(Unaskable::NonceInContent);
        }
        let user = self.user();
        if user.len() > LARGEST_MESSAGE {
            return Err(Unaskable::TooLarge);
        }
        let (system, schema) = (system(self.skill), schema(self.skill));
        let chat = Chat { system, user, shape: SHAPE, schema, max_tokens: ANSWER_TOKENS };
        Ok(Composed { chat, skill: self.skill, work: self.work.clone(), nonce: self.nonce.clone() })
    }

    fn user(&self) -> String {
        let marked = |text: &str| marked(&self.nonce, text);
        let sent = Sent {
            nonce: &self.nonce,
            skill: self.skill.label(),
            task: self.task.map(Task::label),
            part: self.part,
            words: self.work.split_whitespace().count(),
            seconds: self.seconds,
            rubric: marked(&self.rubric),
            prompt: marked(&self.prompt),
            work: marked(&self.work),
        };
        // Texts and numbers alone: there is nothing in it that has no JSON.
        escaped(&serde_json::to_string(&sent).unwrap_or_default())
    }
}

impl Composed {
    /// Bytes of both messages, for an estimate of their tokens.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.chat.system.len() + self.chat.user.len()
    }
}

impl Inquiry for Composed {
    type Verdict = Sample;

    fn chat(&self) -> &Chat {
        &self.chat
    }

    fn read(&self, body: &[u8]) -> Result<Reading<Sample>, InvalidAnswer> {
        answer::read(body, &self.nonce, self.skill, &self.work)
    }
}

#[derive(Serialize)]
struct Sent<'a> {
    nonce: &'a str,
    skill: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<u8>,
    words: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<u32>,
    rubric: String,
    prompt: String,
    work: String,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const N: &str = "0123456789abcdef";

    fn question(work: &str) -> Question {
        Question {
            skill: Skill::Writing,
            task: Some(Task::Email),
            part: None,
            seconds: None,
            rubric: String::new(),
            prompt: "Write to Anna.\nTell her about your job.".to_owned(),
            work: work.to_owned(),
            nonce: N.to_owned(),
        }
    }

    #[test]
    fn task_and_work_are_one_json_document_of_marked_lines() {
        let composed = question("Dear Anna,\r\nhello\u{202e}!").compose().expect("asked");
        let chat = composed.chat();
        let sent: Value = serde_json::from_str(&chat.user).expect("JSON");
        assert_eq!(
            sent,
            json!({
                "nonce": N,
                "skill": "writing",
                "task": "email",
                "words": 3,
                "rubric": format!("{N}| "),
                "prompt": format!("{N}| Write to Anna.\n{N}| Tell her about your job."),
                "work": format!("{N}| Dear Anna,\n{N}| hello\u{202e}!"),
            })
        );
        assert!(chat.user.contains(r"hello\u202e!") && !chat.user.contains('\n'));
        assert!(!chat.system.contains("Anna") && !chat.system.contains(N));
        assert_eq!((chat.shape, composed.bytes()), (SHAPE, chat.system.len() + chat.user.len()));
        let spoken = Question {
            skill: Skill::Speaking,
            task: None,
            part: Some(2),
            seconds: Some(95),
            ..question("x")
        };
        let sent: Value = serde_json::from_str(&spoken.compose().expect("asked").chat().user).expect("JSON");
        assert_eq!((&sent["part"], &sent["seconds"], &sent["task"]), (&json!(2), &json!(95), &Value::Null));
    }

    #[test]
    fn what_cannot_be_asked_is_told() {
        let long = "x".repeat(LARGEST);
        let breaks = format!("x{}", "\n".repeat(LARGEST / 2));
        for (work, expected) in [
            (long.as_str(), Unaskable::TooLarge),
            (&breaks, Unaskable::TooLarge),
            (" \n", Unaskable::Empty),
            ("see 0123456789abcdef|", Unaskable::NonceInContent),
        ] {
            assert_eq!(question(work).compose().map(|_| ()), Err(expected));
        }
        let keyed = Question { skill: Skill::Reading, ..question("x") };
        assert_eq!(keyed.compose().map(|_| ()), Err(Unaskable::Keyed));
        let short = Question { nonce: "short".to_owned(), ..question("x") };
        assert_eq!(short.compose().map(|_| ()), Err(Unaskable::Nonce));
    }

    #[test]
    fn no_content_is_shown_by_debug() {
        let asked = question("planted-work");
        let composed = asked.compose().expect("asked");
        let shown = format!("{asked:?} {composed:?} {:?}", composed.chat());
        assert!(!shown.contains("planted") && !shown.contains("Anna") && !shown.contains(N), "{shown}");
    }
}
