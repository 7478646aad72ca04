//! Samples, good and bad.

use serde_json::{Value, json};

use super::SHAPE;
use super::by_content::{score, speaks};
use super::mode::Grading;
use crate::judge::completion::{Choice, Completion};

/// Longest quote, in bytes.
const QUOTE: usize = 120;
/// Words of a quote.
const QUOTED: usize = 6;
const WRITING: [&str; 4] =
    ["task_achievement", "coherence_cohesion", "lexical_resource", "grammatical_range"];
const SPEAKING: [&str; 4] = ["fluency", "pronunciation", "content", "vocabulary"];

/// A question about a work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) nonce: String,
    pub(super) work: String,
    is_spoken: bool,
}

impl Question {
    /// By the last message of a user, where a question about a work is asked for.
    pub(super) fn of(messages: &[(String, String)]) -> Option<Self> {
        let (_, last) = messages.iter().rev().find(|(role, _)| role == "user")?;
        let document: Value = serde_json::from_str(last).ok()?;
        let text = |key: &str| document.get(key).and_then(Value::as_str);
        let (nonce, work) = (text("nonce")?, text("work")?);
        let mark = format!("{nonce}| ");
        let lines: Vec<&str> =
            work.split('\n').map(|line| line.strip_prefix(&mark).unwrap_or(line)).collect();
        let is_spoken = text("skill") == Some("speaking");
        Some(Self { nonce: nonce.to_owned(), work: lines.join("\n"), is_spoken })
    }

    fn criteria(&self) -> [&'static str; 4] {
        if self.is_spoken { SPEAKING } else { WRITING }
    }

    /// Some words of the work that stand there in a row.
    fn quote(&self) -> Option<String> {
        let words: Vec<&str> = self.work.split_whitespace().take(QUOTED).collect();
        let quote = words.join(" ");
        (quote.len() <= QUOTE && quote.chars().any(char::is_alphanumeric)).then_some(quote)
    }

    /// A sample with this score for each criterion.
    fn sample(&self, score: f64, injection: bool) -> Value {
        let quote: Vec<String> = self.quote().into_iter().collect();
        let rated = |criterion: &&str| {
            json!({
                "criterion": criterion,
                "score": score,
                "feedback": format!("As scripted: a marker or a count of words says {score} for {criterion}."),
                "evidence": quote,
            })
        };
        json!({
            "nonce": self.nonce,
            "criteria": self.criteria().iter().map(rated).collect::<Vec<_>>(),
            "strengths": ["As scripted: there are words."],
            "weaknesses": ["As scripted: nobody has read them."],
            "suggestions": ["Ask somebody who can read."],
            "injection": injection,
        })
    }
}

/// The answer of a mode to a work's nth sample.
pub(super) fn completion(grading: &Grading, question: &Question, nth: u64) -> Completion {
    let one = |choice| Completion { choices: vec![choice] };
    let by_content = || question.sample(score(&question.work, nth), speaks(&question.work));
    let good = || by_content().to_string();
    let but = |change: &dyn Fn(&mut Value)| {
        let mut answer = by_content();
        change(&mut answer);
        one(Choice::said(answer.to_string()))
    };
    let criteria = |change: &dyn Fn(&mut Vec<Value>)| {
        but(&|answer| {
            if let Some(list) = answer["criteria"].as_array_mut() {
                change(list);
            }
        })
    };
    match grading {
        // What befalls it is not what it says.
        Grading::ByContent | Grading::Mishap(_) => one(Choice::said(good())),
        Grading::Scored(score) => {
            one(Choice::said(question.sample(*score, speaks(&question.work)).to_string()))
        }
        Grading::Injected => but(&|answer| answer["injection"] = json!(true)),
        Grading::ScoreIs(value) => but(&|answer| answer["criteria"][0]["score"] = value.clone()),
        Grading::MissingCriterion => criteria(&|list| list.truncate(list.len().saturating_sub(1))),
        Grading::TwiceCriterion => criteria(&|list| list.extend_from_within(..1)),
        Grading::ForeignCriterion => {
            let foreign = if question.is_spoken { WRITING[3] } else { SPEAKING[3] };
            but(&|answer| answer["criteria"][3]["criterion"] = json!(foreign))
        }
        Grading::FalseQuote => {
            but(&|answer| answer["criteria"][0]["evidence"] = json!(["Nobody wrote these words."]))
        }
        Grading::Feedback(words) => but(&|answer| answer["criteria"][0]["feedback"] = json!(words)),
        Grading::UnknownKey => but(&|answer| answer["overallScore"] = json!(10)),
        Grading::DuplicateKey => {
            one(Choice::said(format!("{{\"nonce\":\"{}\",{}", question.nonce, &good()[1..])))
        }
        Grading::WrongNonce => but(&|answer| answer["nonce"] = json!("fedcba9876543210")),
        Grading::MissingNonce => but(&|answer| {
            if let Some(answer) = answer.as_object_mut() {
                answer.remove("nonce");
            }
        }),
        Grading::Text(text) => one(Choice::said(text.clone())),
        Grading::Prose => one(Choice::said(format!("Here is my assessment: {} I hope this helps.", good()))),
        Grading::Fenced => one(Choice::said(format!("```json\n{}\n```", good()))),
        Grading::Cut => one(Choice::cut(good())),
        Grading::ToolCall => one(Choice::called(SHAPE, &good())),
        Grading::Refusal => one(Choice::refused(Some("I cannot help with that."))),
        Grading::NoChoices => Completion { choices: Vec::new() },
        Grading::TwoChoices => Completion { choices: vec![Choice::said(good()), Choice::said(good())] },
        Grading::NullContent => one(Choice::refused(None)),
    }
}

/// The answer to a chat about anything else.
pub(super) fn other() -> Completion {
    Completion { choices: vec![Choice::said("As scripted: I count words of works, and nothing else.")] }
}
