//! Completions, good and bad.

use serde_json::{Value, json};

use super::by_content;
use super::completion::{Choice, Completion};
use super::mode::Mode;
use super::question::Question;

/// The score of a good answer that a mode does not name.
const GOOD: u8 = 92;

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
        Mode::Cut => one(Choice::cut(good())),
        Mode::ToolCall => one(Choice::called("screening_verdict", &good())),
        Mode::Refusal => one(Choice::refused(Some("I cannot help with that."))),
        Mode::NoChoices => Completion { choices: Vec::new() },
        Mode::TwoChoices => Completion { choices: vec![Choice::said(good()), Choice::said(good())] },
        Mode::NullContent => one(Choice::refused(None)),
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
