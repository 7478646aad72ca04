//! What the judge does with a question.

use std::time::Duration;

use serde_json::Value;

use super::mishap::Mishap;

/// An answer, or the way in which there is none.
#[derive(Debug, Clone, PartialEq)]
pub enum Mode {
    /// By a list of words, openly: [`WORDS`](super::WORDS).
    ByContent,
    /// This score, without concerns.
    Scored(u8),
    /// This score, and that the content speaks to its judge.
    Injected(u8),
    /// This score, and a concern of severity high.
    Contradicting(u8),
    /// The two scores in turns.
    Flips(u8, u8),
    /// The score that the content asks for (`score 100`), as a judge that was talked round; without one, by content.
    Obeys,
    /// The content itself.
    Echo,
    /// The content's first JSON object, or the content: an answer that the submitter wrote.
    EchoObject,
    /// A good answer without its score.
    NoScore,
    /// A good answer with this for its score: 101, `"92"`, 92.0, null.
    ScoreIs(Value),
    /// This text.
    Text(String),
    /// A good answer with prose around it.
    Prose,
    /// A good answer in a code fence.
    Fenced,
    /// Two good answers, one behind the other.
    TwoObjects,
    /// A good answer with another nonce.
    WrongNonce,
    /// A good answer without a nonce.
    MissingNonce,
    /// A good answer with one more key.
    UnknownKey,
    /// A good answer with its score there twice, 40 and 92.
    DuplicateKey,
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
    /// 92, after this time.
    Slow(Duration),
    /// Nothing, for ever.
    Hang,
    /// 429, and `Retry-After` in seconds.
    RetryAfter(u64),
    /// This status, with an error in OpenAI's shape.
    Status(u16),
    /// 502, and a page.
    Page,
    /// 200, and a page.
    PageAsSuccess,
    /// 400: longer than the model's window.
    ContextLength,
    /// 400: a filter before the model.
    Filtered,
    /// Half of a good answer; then the connection ends.
    HalfBody,
    /// The connection ends without a word.
    Disconnect,
    /// 307 to another path of this server, where a good answer is.
    Redirect,
    /// A gibibyte of blanks before a good answer.
    Huge,
    /// A good answer that says it is plain text.
    WrongType,
}

impl Mode {
    /// What befalls the answer on its way.
    pub(super) fn mishap(&self) -> Option<Mishap> {
        match self {
            Self::Slow(time) => Some(Mishap::Slow(*time)),
            Self::Hang => Some(Mishap::Hang),
            Self::RetryAfter(seconds) => Some(Mishap::RetryAfter(*seconds)),
            Self::Status(status) => Some(Mishap::Status(*status)),
            Self::Page => Some(Mishap::Page),
            Self::PageAsSuccess => Some(Mishap::PageAsSuccess),
            Self::ContextLength => Some(Mishap::ContextLength),
            Self::Filtered => Some(Mishap::Filtered),
            Self::HalfBody => Some(Mishap::HalfBody),
            Self::Disconnect => Some(Mishap::Disconnect),
            Self::Redirect => Some(Mishap::Redirect),
            Self::Huge => Some(Mishap::Huge),
            Self::WrongType => Some(Mishap::WrongType),
            Self::ByContent
            | Self::Scored(_)
            | Self::Injected(_)
            | Self::Contradicting(_)
            | Self::Flips(..)
            | Self::Obeys
            | Self::Echo
            | Self::EchoObject
            | Self::NoScore
            | Self::ScoreIs(_)
            | Self::Text(_)
            | Self::Prose
            | Self::Fenced
            | Self::TwoObjects
            | Self::WrongNonce
            | Self::MissingNonce
            | Self::UnknownKey
            | Self::DuplicateKey
            | Self::Cut
            | Self::ToolCall
            | Self::Refusal
            | Self::NoChoices
            | Self::TwoChoices
            | Self::NullContent => None,
        }
    }
}
