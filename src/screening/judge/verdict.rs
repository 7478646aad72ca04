//! The answer of a judge: read exactly, or not at all. Pure.
//!
//! Whoever is judged may have written a part of the answer, so nothing is guessed, repaired or looked for in it: one choice that
//! ended by itself, one JSON object and nothing around it, no key too many, too few or twice, the nonce of this question, an
//! integer for a score. **There is no default score.** What is kept of the answer's own words is scrubbed first.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::note;
use crate::kernel::words;
use crate::ports::{InvalidAnswer, Reading};
use crate::scrub::is_bidi_control;

/// Most concerns of an answer.
pub const MOST_CONCERNS: usize = 10;
/// Longest text of an answer, in bytes.
const LONGEST_TEXT: usize = 64 * 1024;
/// Deepest nesting of a completion, and of the text in it.
const DEEPEST_ENVELOPE: usize = 32;
const DEEPEST_TEXT: usize = 4;
/// Longest place, in characters.
const LONGEST_PLACE: usize = 200;
/// Longest name of a model, in bytes.
const LONGEST_MODEL: usize = 128;
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
    if depth(body) > DEEPEST_ENVELOPE {
        return Err(InvalidAnswer::TooDeep);
    }
    let Object(completion) =
        serde_json::from_slice::<Object<Completion>>(body).map_err(|_| InvalidAnswer::Envelope)?;
    if !is_model(&completion.model) {
        return Err(InvalidAnswer::Model);
    }
    let Ok([Object(choice)]) = <[Object<Choice>; 1]>::try_from(completion.choices) else {
        return Err(InvalidAnswer::Choices);
    };
    let verdict = verdict(&said(choice)?, nonce, places)?;
    let Object(usage) = completion.usage.unwrap_or_default();
    let Usage { prompt_tokens, completion_tokens } = usage;
    Ok(Reading { verdict, model: completion.model, prompt_tokens, completion_tokens })
}

/// Reads the text of an answer.
///
/// # Errors
/// [`InvalidAnswer`].
pub fn verdict(text: &str, nonce: &str, places: &[&str]) -> Result<Verdict, InvalidAnswer> {
    if text.len() > LONGEST_TEXT {
        return Err(InvalidAnswer::TooLong);
    }
    if depth(text.as_bytes()) > DEEPEST_TEXT {
        return Err(InvalidAnswer::TooDeep);
    }
    let Object(answer) = serde_json::from_str::<Object<Answer>>(text)
        .map_err(|error| if error.is_data() { InvalidAnswer::Shape } else { InvalidAnswer::NotJson })?;
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

/// The text of a choice that is a whole answer.
fn said(choice: Choice) -> Result<String, InvalidAnswer> {
    let Object(message) = choice.message;
    if message.tool_calls.is_some_and(|calls| !calls.is_empty()) || message.function_call.is_some() {
        return Err(InvalidAnswer::ToolCall);
    }
    if choice.finish_reason.as_deref() != Some("stop") {
        return Err(InvalidAnswer::Finish);
    }
    if message.refusal.is_some_and(|refusal| !refusal.is_empty()) {
        return Err(InvalidAnswer::Refusal);
    }
    if message.role.is_some_and(|role| role != "assistant") {
        return Err(InvalidAnswer::Envelope);
    }
    message.content.filter(|text| !text.is_empty()).ok_or(InvalidAnswer::NoContent)
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

fn is_model(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._:/@+-".contains(&b);
    (1..=LONGEST_MODEL).contains(&name.len()) && name.bytes().all(plain)
}

/// Deepest nesting of brackets outside of strings.
fn depth(document: &[u8]) -> usize {
    let (mut open, mut deepest, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in document {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => {
                open += 1;
                deepest = deepest.max(open);
            }
            b'}' | b']' if !quoted => open = open.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// A JSON object: a derived reading alone would take the list of its values, too.
#[derive(Default)]
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Keys<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(Keys(PhantomData))
    }
}

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

/// Servers add keys of their own to these; what is read of them may not be there twice either.
#[derive(Deserialize)]
struct Completion {
    model: String,
    choices: Vec<Object<Choice>>,
    usage: Option<Object<Usage>>,
}

#[derive(Deserialize)]
struct Choice {
    finish_reason: Option<String>,
    message: Object<Message>,
}

#[derive(Deserialize)]
struct Message {
    role: Option<String>,
    content: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<IgnoredAny>>,
    function_call: Option<IgnoredAny>,
}

#[derive(Deserialize, Default)]
struct Usage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "verdict_properties.rs"]
mod properties;
