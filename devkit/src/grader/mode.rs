//! What the grader does with a question, and the transcriber with a recording.

use serde_json::Value;

use crate::judge::Mishap;

/// A sample, or the way in which there is none.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Grading {
    /// By markers in the work, or by its length.
    #[default]
    ByContent,
    /// This score for each criterion.
    Scored(f64),
    /// By content, and that the work speaks to its grader.
    Injected,
    /// A good answer with this for its first score: 11, `"7.5"`, 7.3, null.
    ScoreIs(Value),
    /// A good answer without its last criterion.
    MissingCriterion,
    /// A good answer with its first criterion twice.
    TwiceCriterion,
    /// A good answer with a criterion of another skill for its last.
    ForeignCriterion,
    /// A good answer that quotes what nobody wrote.
    FalseQuote,
    /// A good answer with this for its first feedback.
    Feedback(String),
    /// A good answer with one more key, the score that nobody asked for.
    UnknownKey,
    /// A good answer with its nonce there twice.
    DuplicateKey,
    /// A good answer with another nonce.
    WrongNonce,
    /// A good answer without a nonce.
    MissingNonce,
    /// This text.
    Text(String),
    /// A good answer with prose around it.
    Prose,
    /// A good answer in a code fence.
    Fenced,
    /// A good answer that was cut: `finish_reason` is `length`. Its text is whole by chance.
    Cut,
    /// The call of a tool instead of a text.
    ToolCall,
    /// A refusal instead of a text.
    Refusal,
    /// No choices.
    NoChoices,
    /// Two good answers as two choices.
    TwoChoices,
    /// A choice without a text.
    NullContent,
    /// A good answer, and what befalls it.
    Mishap(Mishap),
}

/// A transcript, or the way in which there is none.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Hearing {
    /// By the text in the recording, or silence.
    #[default]
    ByContent,
    /// Words where every segment is probably no speech.
    Noise,
    /// A good answer with this for one of its keys.
    With(&'static str, Value),
    /// A good answer without one of its keys.
    Without(&'static str),
    /// This body, as JSON by its type.
    Body(String),
    /// A good answer, and what befalls it.
    Mishap(Mishap),
}
