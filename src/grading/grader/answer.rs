//! The answer of a judge about a work: read exactly, or not at all. Pure.
//!
//! Whoever is graded may have written a part of the answer, so nothing is guessed, repaired or looked for in it: the nonce of
//! this question, each criterion of the skill once and no other, a number on the scale for each, and no quote that the work does
//! not have. What is kept of the answer's own words is scrubbed first.

use serde::Deserialize;

use super::remark::{folded, scrubbed};
use crate::gateway::judge::completion::{self, Object};
use crate::grading::core::assess::Sample;
use crate::grading::core::score::Score;
use crate::grading::core::skill::{Criterion, Skill};
use crate::ports::{InvalidAnswer, Reading};

/// Longest feedback on one criterion, in characters.
pub const LONGEST_FEEDBACK: usize = 600;
/// Most quotes of a criterion, and the longest, in characters.
pub const MOST_QUOTES: usize = 3;
/// See [`MOST_QUOTES`].
pub const LONGEST_QUOTE: usize = 200;
/// Most strengths, weaknesses and suggestions, each, and the longest, in characters.
pub const MOST_POINTS: usize = 5;
/// See [`MOST_POINTS`].
pub const LONGEST_POINT: usize = 300;
/// Longest text of an answer, in bytes, and its deepest nesting.
const LONGEST_TEXT: usize = 64 * 1024;
const DEEPEST_TEXT: usize = 4;

/// Reads the body of a chat completion that answers the question with this nonce about this work.
///
/// # Errors
/// [`InvalidAnswer`].
pub fn read(body: &[u8], nonce: &str, skill: Skill, work: &str) -> Result<Reading<Sample>, InvalidAnswer> {
    let mut reading = completion::read(body, |text| sample(text, nonce, skill, work))?;
    reading.verdict.model.clone_from(&reading.model);
    Ok(reading)
}

/// Reads the text of an answer. Its model is not in it.
fn sample(text: &str, nonce: &str, skill: Skill, work: &str) -> Result<Sample, InvalidAnswer> {
    let answer: Answer = completion::document(text, LONGEST_TEXT, DEEPEST_TEXT)?;
    if answer.nonce != nonce {
        return Err(InvalidAnswer::Nonce);
    }
    let work = folded(work);
    let mut given: Vec<(Criterion, Spoken)> = answer
        .criteria
        .into_iter()
        .map(|Object(spoken)| Some((Criterion::parse(&spoken.criterion)?, spoken)))
        .collect::<Option<_>>()
        .ok_or(InvalidAnswer::Criteria)?;
    // In the skill's order: none is missing, and none is left, neither another skill's nor the same once more.
    let mut criteria = Vec::with_capacity(given.len());
    for criterion in skill.criteria() {
        let at = given.iter().position(|(other, _)| other == criterion).ok_or(InvalidAnswer::Criteria)?;
        criteria.push(rated(given.swap_remove(at), &work)?);
    }
    if !given.is_empty() {
        return Err(InvalidAnswer::Criteria);
    }
    Ok(Sample {
        criteria,
        strengths: points(&answer.strengths)?,
        weaknesses: points(&answer.weaknesses)?,
        suggestions: points(&answer.suggestions)?,
        injection: answer.injection,
        model: String::new(),
    })
}

/// A sample's part on one criterion: score, feedback, quotes.
type Rated = (Criterion, Score, String, Vec<String>);

fn rated((criterion, spoken): (Criterion, Spoken), work: &str) -> Result<Rated, InvalidAnswer> {
    let score = Score::of_half(spoken.score).ok_or(InvalidAnswer::Score)?;
    let feedback = remark(&spoken.feedback, LONGEST_FEEDBACK)?;
    if spoken.evidence.len() > MOST_QUOTES {
        return Err(InvalidAnswer::TooLong);
    }
    let evidence = spoken.evidence.iter().map(|quote| quoted(quote, work)).collect::<Result<_, _>>()?;
    Ok((criterion, score, feedback, evidence))
}

/// A quote as it stands in the work, which is folded as well; one that says nothing stands anywhere, and is none.
fn quoted(quote: &str, work: &str) -> Result<String, InvalidAnswer> {
    if quote.chars().count() > LONGEST_QUOTE {
        return Err(InvalidAnswer::TooLong);
    }
    let quote = folded(quote);
    let stands = quote.chars().any(char::is_alphanumeric) && work.contains(&quote);
    if stands { Ok(quote) } else { Err(InvalidAnswer::Quote) }
}

fn points(said: &[String]) -> Result<Vec<String>, InvalidAnswer> {
    if said.len() > MOST_POINTS {
        return Err(InvalidAnswer::TooLong);
    }
    said.iter().map(|point| remark(point, LONGEST_POINT)).collect()
}

/// The judge's own words, which are some.
fn remark(said: &str, longest: usize) -> Result<String, InvalidAnswer> {
    if said.chars().count() > longest {
        return Err(InvalidAnswer::TooLong);
    }
    let shown = scrubbed(said);
    if shown.is_empty() { Err(InvalidAnswer::Shape) } else { Ok(shown) }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    nonce: String,
    criteria: Vec<Object<Spoken>>,
    strengths: Vec<String>,
    weaknesses: Vec<String>,
    suggestions: Vec<String>,
    injection: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spoken {
    criterion: String,
    score: f64,
    feedback: String,
    evidence: Vec<String>,
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
