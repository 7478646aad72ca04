//! The answer of a judge: read exactly, or not at all. Pure.
//!
//! Whoever is judged may have written a part of the answer, so nothing is guessed, repaired or looked for in it: one choice that
//! ended by itself, one JSON object and nothing around it, no key too many, too few or twice, the nonce of this question, an
//! integer for a score. **There is no default score.** What is kept of the answer's own words is scrubbed first.

use std::fmt;

use serde::Deserialize;

use super::note;
use crate::gateway::judge::completion::{self, Object};
use crate::kernel::words;
use crate::ports::{InvalidAnswer, Reading};
use crate::scrub::is_bidi_control;

/// Most concerns of an answer.
pub const MOST_CONCERNS: usize = 10;
/// Longest text of an answer, in bytes, and its deepest nesting.
const LONGEST_TEXT: usize = 64 * 1024;
const DEEPEST_TEXT: usize = 4;
/// Longest place, in characters.
const LONGEST_PLACE: usize = 200;
/// A place that was not asked about: its words may be content.
pub const ELSEWHERE: &str = "elsewhere";

/// A score, 0 to 100. Only an answer has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Score(u8);

impl Score {
    /// The highest.
    pub const MAX: u8 = 100;

    /// The score of this number, if it is one.
    #[must_use]
    pub fn new(number: i64) -> Option<Self> {
        u8::try_from(number).ok().filter(|number| *number <= Self::MAX).map(Self)
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u8 {
        self.0
    }
}

words! {
    /// Kind of a concern.
    Code {
        /// Advertising, bulk text.
        Spam = "spam",
        /// Asks for credentials or money under a pretext.
        Phishing = "phishing",
        /// Malware, or a way to it.
        Malware = "malware",
        /// A credential stands in the content, or is read by it.
        Credential = "credential",
        /// Instructions to whoever judges, or to an agent.
        Injection = "injection",
        /// Sends data away.
        Exfiltration = "exfiltration",
        /// Is not what it says.
        Deception = "deception",
        /// Rights beyond the purpose.
        Privilege = "privilege",
        /// Of no use to anybody.
        Quality = "quality",
        /// None of these.
        Other = "other",
    }
}

words! {
    /// Weight of a concern.
    Severity {
        /// Worth a word.
        Low = "low",
        /// Worth a look.
        Medium = "medium",
        /// Worth a no.
        High = "high",
    }
}

/// One concern of a judge.
#[derive(Clone, PartialEq, Eq)]
pub struct Concern {
    /// Its kind.
    pub code: Code,
    /// Its weight.
    pub severity: Severity,
    /// A place that was asked about, with a line where one is named; or [`ELSEWHERE`].
    pub place: String,
    /// The judge's words, scrubbed, at most 300 characters. Purged with the subject; for no event and no log.
    pub note: String,
}

impl fmt::Debug for Concern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Concern")
            .field("code", &self.code)
            .field("severity", &self.severity)
            .finish_non_exhaustive()
    }
}

/// What a judge said. Only [`read`] makes one of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The score.
    pub score: Score,
    /// At most [`MOST_CONCERNS`].
    pub concerns: Vec<Concern>,
    /// The content speaks to its judge.
    pub injection: bool,
}

/// Reads the body of a chat completion that answers the question with this nonce and these places.
///
/// # Errors
/// [`InvalidAnswer`].
pub fn read(body: &[u8], nonce: &str, places: &[&str]) -> Result<Reading<Verdict>, InvalidAnswer> {
    completion::read(body, |text| verdict(text, nonce, places))
}

/// Reads the text of an answer.
///
/// # Errors
/// [`InvalidAnswer`].
pub fn verdict(text: &str, nonce: &str, places: &[&str]) -> Result<Verdict, InvalidAnswer> {
    let answer: Answer = completion::document(text, LONGEST_TEXT, DEEPEST_TEXT)?;
    if answer.nonce != nonce {
        return Err(InvalidAnswer::Nonce);
    }
    let score = Score::new(answer.score).ok_or(InvalidAnswer::Score)?;
    if answer.concerns.len() > MOST_CONCERNS {
        return Err(InvalidAnswer::Concerns);
    }
    let concern = |Object(Spoken { code, severity, place, note })| {
        let place = placed(&place, places).ok_or(InvalidAnswer::Place)?;
        Ok(Concern { code, severity, place, note: note::scrubbed(&note) })
    };
    let concerns = answer.concerns.into_iter().map(concern).collect::<Result<_, _>>()?;
    Ok(Verdict { score, concerns, injection: answer.injection })
}

/// The place as it may be shown: as it was asked about, with a line behind it; [`ELSEWHERE`] for every other; `None` where it
/// is no place at all.
fn placed(place: &str, places: &[&str]) -> Option<String> {
    let asked = |place: &str| places.contains(&place);
    let whole = place.strip_suffix(|c: char| c.is_ascii_digit()).map_or(place, |_| {
        place.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-').strip_suffix(':').unwrap_or(place)
    });
    let line = &place[whole.len()..];
    if place.chars().count() > LONGEST_PLACE {
        return None;
    }
    let shown = |c: char| !c.is_control() && !is_bidi_control(c);
    if asked(place) || asked(whole) && line.len() <= LONGEST_LINE {
        let is_shown = place.chars().all(shown);
        return Some(if is_shown { place } else { ELSEWHERE }.to_owned());
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || " _./-:[]()#@+,".contains(c);
    place.chars().all(plain).then(|| ELSEWHERE.to_owned())
}

/// Longest `:line-line` behind a place, in bytes.
const LONGEST_LINE: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    nonce: String,
    score: i64,
    concerns: Vec<Object<Spoken>>,
    injection: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spoken {
    code: Code,
    severity: Severity,
    place: String,
    note: String,
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "verdict_properties.rs"]
mod properties;
