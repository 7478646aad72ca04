//! Completions, good and bad.

use serde_json::{Value, json};

use super::mode::Mode;
use super::question::Question;
use super::{MODEL, by_content};

/// Bytes of a token, here.
const BYTES_OF_A_TOKEN: usize = 4;
/// The score of a good answer that a mode does not name.
const GOOD: u8 = 92;

/// A completion before it is sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Completion {
    pub(super) choices: Vec<Choice>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Choice {
    pub(super) message: Value,
    pub(super) finish_reason: &'static str,
}

/// Tokens of a text.
pub(super) fn tokens(text: &str) -> usize {
    text.len().div_ceil(BYTES_OF_A_TOKEN)
}

impl Choice {
    fn said(text: impl Into<String>) -> Self {
        let text: String = text.into();
        Self {
            message: json!({"role": "assistant", "content": text, "refusal": null}),
            finish_reason: "stop",
        }
    }

    /// The same, no longer than so many tokens.
    pub(super) fn within(self, most: Option<u64>) -> Self {
        let (Some(text), Some(most)) = (self.message["content"].as_str(), most) else { return self };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if tokens(text) <= most {
            return self;
        }
        let cut: String = text.chars().take(most.saturating_mul(BYTES_OF_A_TOKEN)).collect();
        Self { finish_reason: "length", ..Self::said(cut) }
    }
}

/// The answer of a mode that answers with a completion.
pub(super) fn completion(mode: &Mode, question: &Question, flips: u64) -> Completion {
    let one = |choice| Completion { choices: vec![choice] };
    let good = || scored(question, GOOD).to_string();
    let but = |change: &dyn Fn(&mut Value)| {
        let mut answer = scored(question, GOOD);
        change(&mut answer);
        one(Choice::said(answer.to_string()))
    };
    match mode {
        Mode::Scored(score) => one(Choice::said(scored(question, *score).to_string())),
        Mode::Injected(score) => one(Choice::said(answer(question, *score, &[], true).to_string())),
        Mode::Contradicting(score) => {
            let place = question.blocks.first().map_or("", |(place, _)| place);
            let concern =
                json!({"code": "malware", "severity": "high", "place": place, "note": "As scripted."});
            one(Choice::said(answer(question, *score, &[concern], false).to_string()))
        }
        Mode::Flips(first, second) => {
            let score = if flips.is_multiple_of(2) { first } else { second };
            one(Choice::said(scored(question, *score).to_string()))
        }
        Mode::Obeys => one(Choice::said(match question.wanted_score() {
            Some(score) => scored(question, score).to_string(),
            None => by_words(question).to_string(),
        })),
        Mode::Echo => one(Choice::said(question.text())),
        Mode::EchoObject => one(Choice::said(question.first_object().unwrap_or_else(|| question.text()))),
        Mode::NoScore => but(&|answer| without(answer, "score")),
        Mode::ScoreIs(value) => but(&|answer| answer["score"] = value.clone()),
        Mode::Text(text) => one(Choice::said(text.clone())),
        Mode::Prose => one(Choice::said(format!("Here is my judgement: {} I hope this helps.", good()))),
        Mode::Fenced => one(Choice::said(format!("```json\n{}\n```", good()))),
        Mode::TwoObjects => one(Choice::said(format!("{}\n{}", scored(question, 40), good()))),
        Mode::WrongNonce => but(&|answer| answer["nonce"] = json!("fedcba9876543210")),
        Mode::MissingNonce => but(&|answer| without(answer, "nonce")),
        Mode::UnknownKey => but(&|answer| answer["approved"] = json!(true)),
        Mode::DuplicateKey => {
            let good = good();
            one(Choice::said(format!("{{\"score\":40,{}", &good[1..])))
        }
        Mode::Cut => one(Choice { finish_reason: "length", ..Choice::said(good()) }),
        Mode::ToolCall => one(Choice {
            message: json!({
                "role": "assistant",
                "content": null,
                "refusal": null,
                "tool_calls": [{
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "screening_verdict", "arguments": good()},
                }],
            }),
            finish_reason: "tool_calls",
        }),
        Mode::Refusal => one(Choice {
            message: json!({"role": "assistant", "content": null, "refusal": "I cannot help with that."}),
            finish_reason: "stop",
        }),
        Mode::NoChoices => Completion { choices: Vec::new() },
        Mode::TwoChoices => Completion { choices: vec![Choice::said(good()), Choice::said(good())] },
        Mode::NullContent => one(Choice {
            message: json!({"role": "assistant", "content": null, "refusal": null}),
            finish_reason: "stop",
        }),
        Mode::ByContent => one(Choice::said(by_words(question).to_string())),
        // What is bad about these is not what they say.
        Mode::Slow(_)
        | Mode::Hang
        | Mode::RetryAfter(_)
        | Mode::Status(_)
        | Mode::Page
        | Mode::PageAsSuccess
        | Mode::ContextLength
        | Mode::Filtered
        | Mode::HalfBody
        | Mode::Disconnect
        | Mode::Redirect
        | Mode::Huge
        | Mode::WrongType => one(Choice::said(good())),
    }
}

impl Completion {
    /// The document, and its tokens of question and answer.
    pub(super) fn document(&self, number: u64, prompt: usize) -> (Value, usize) {
        let choices: Vec<Value> = self
            .choices
            .iter()
            .enumerate()
            .map(|(index, choice)| {
                json!({
                    "index": index,
                    "message": choice.message,
                    "logprobs": null,
                    "finish_reason": choice.finish_reason,
                })
            })
            .collect();
        let spent = self.choices.iter().map(|choice| tokens(&choice.message.to_string())).sum::<usize>();
        let document = json!({
            "id": format!("chatcmpl-scripted-{number}"),
            "object": "chat.completion",
            "created": 0,
            "model": MODEL,
            "choices": choices,
            "usage": {"prompt_tokens": prompt, "completion_tokens": spent, "total_tokens": prompt + spent},
            "system_fingerprint": "fp_devkit_scripted",
        });
        (document, spent)
    }
}

fn by_words(question: &Question) -> Value {
    let (score, concerns, injected) = by_content::judged(question);
    answer(question, score, &concerns, injected)
}

fn scored(question: &Question, score: u8) -> Value {
    answer(question, score, &[], false)
}

fn answer(question: &Question, score: u8, concerns: &[Value], injection: bool) -> Value {
    let nonce = question.nonce.as_deref().unwrap_or_default();
    json!({"nonce": nonce, "score": score, "concerns": concerns, "injection": injection})
}

fn without(answer: &mut Value, key: &str) {
    if let Some(answer) = answer.as_object_mut() {
        answer.remove(key);
    }
}
