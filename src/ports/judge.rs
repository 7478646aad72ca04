//! Questions to a judge, as the room that asks and the gateway exchange them. Content of a submission is in them: `Debug`
//! shows none.

use std::fmt;

use serde_json::Value;

use crate::kernel::words;

/// What is sent of a question: two messages and the shape of the answer. No tools.
#[derive(Clone, PartialEq, Eq)]
pub struct Chat {
    /// The instructions.
    pub system: String,
    /// The content, marked as such.
    pub user: String,
    /// Name of the answer's shape, of `[a-z_]`.
    pub shape: &'static str,
    /// JSON schema of the answer. A server may ignore it.
    pub schema: Value,
    /// Longest answer, in tokens.
    pub max_tokens: u32,
}

impl fmt::Debug for Chat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chat")
            .field("shape", &self.shape)
            .field("bytes", &self.user.len())
            .finish_non_exhaustive()
    }
}

/// A question: what is sent, and how its answer is read. The gateway knows neither content nor verdict.
pub trait Inquiry: Sync {
    /// What an answer says.
    type Verdict;

    /// The messages.
    fn chat(&self) -> &Chat;

    /// Reads the body of a 200, whole.
    ///
    /// # Errors
    /// [`InvalidAnswer`]: the answer says nothing then, whatever stands in it.
    fn read(&self, body: &[u8]) -> Result<Reading<Self::Verdict>, InvalidAnswer>;
}

/// An answer that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading<V> {
    /// What it says.
    pub verdict: V,
    /// The model's name, by its own words.
    pub model: String,
    /// Tokens of the question, where the answer counts them.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the answer, likewise.
    pub completion_tokens: Option<u64>,
}

words! {
    /// Why an answer with status 200 is none.
    InvalidAnswer {
        /// Another success than 200.
        Status = "status",
        /// No `application/json`.
        ContentType = "content_type",
        /// Longer than is read, or than a verdict can be.
        TooLong = "too_long",
        /// Nested deeper than any answer is.
        TooDeep = "too_deep",
        /// No chat completion.
        Envelope = "envelope",
        /// The model's name is missing, or none that can be shown.
        Model = "model",
        /// Not exactly one choice.
        Choices = "choices",
        /// The answer did not end by itself: cut, filtered, or a tool is wanted.
        Finish = "finish",
        /// A tool or function is called.
        ToolCall = "tool_call",
        /// The model, or a filter before it, answers nothing about this content.
        Refusal = "refusal",
        /// The choice has no text.
        NoContent = "no_content",
        /// The text is not one JSON document and nothing else.
        NotJson = "not_json",
        /// A key is missing, unknown or there twice, or a value is of another type.
        Shape = "shape",
        /// The nonce is another.
        Nonce = "nonce",
        /// The score is beyond 100.
        Score = "score",
        /// More concerns than may be.
        Concerns = "concerns",
        /// A place that is none.
        Place = "place",
        /// Other criteria than were asked about, or one of them twice.
        Criteria = "criteria",
        /// A quote that does not stand in what was asked about.
        Quote = "quote",
        /// No language, or none that can be one.
        Language = "language",
        /// A duration, or a place in it, that is none.
        Duration = "duration",
        /// A text without its words, or words without a text.
        Words = "words",
    }
}
