//! A transcript: read exactly, or not at all. Pure.
//!
//! Of the API's `verbose_json` only what is kept is read, and each of it once; servers add keys of their own. Whoever speaks
//! chooses the text, and nothing else in it is theirs.

use std::fmt;

use serde::Deserialize;

use super::classify::TranscriberError;
use crate::gateway::judge::completion::{Object, depth};
use crate::ports::InvalidAnswer;

/// Longest recording that is transcribed, in seconds (contract, "Grading").
pub const LONGEST: f64 = 15.0 * 60.0;
/// Longest text, in bytes: fifteen minutes of the fastest speech have a quarter of it.
const LONGEST_TEXT: usize = 64 * 1024;
/// Longest name of a language, in bytes.
const LONGEST_LANGUAGE: usize = 32;
/// Deepest nesting.
const DEEPEST: usize = 16;
/// Seconds that a word may be behind the end: times are rounded.
const ROUNDED: f64 = 1.0;
/// Probability above which a segment is no speech; Whisper's own threshold.
const NO_SPEECH: f64 = 0.6;

/// A transcript.
#[derive(Clone, PartialEq)]
pub struct Transcript {
    /// The words as one text. Purged with its submission; for no event and no log.
    pub text: String,
    /// The language, in the server's spelling (`english`, `en`); empty where nothing was said.
    pub language: String,
    /// Length of the recording, in seconds, by the server's count.
    pub duration: f64,
    /// Words.
    pub words: usize,
    /// Nobody speaks, or the server thinks so of every part of it.
    pub no_speech: bool,
}

impl fmt::Debug for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transcript")
            .field("duration", &self.duration)
            .field("words", &self.words)
            .field("no_speech", &self.no_speech)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Verbose {
    text: String,
    language: Option<String>,
    duration: f64,
    words: Option<Vec<Object<Word>>>,
    segments: Option<Vec<Object<Segment>>>,
}

#[derive(Deserialize)]
struct Word {
    word: String,
    start: f64,
    end: f64,
}

#[derive(Deserialize)]
struct Segment {
    no_speech_prob: Option<f64>,
}

/// Reads the body of a 200, whole.
///
/// # Errors
/// [`TranscriberError::Invalid`], and [`TranscriberError::TooLong`] by the answer's own count.
pub fn read(body: &[u8]) -> Result<Transcript, TranscriberError> {
    let wrong = |reason| Err(TranscriberError::Invalid(reason));
    if depth(body) > DEEPEST {
        return wrong(InvalidAnswer::TooDeep);
    }
    let Object(said) = serde_json::from_slice::<Object<Verbose>>(body).map_err(|error| {
        let reason = if error.is_data() { InvalidAnswer::Shape } else { InvalidAnswer::NotJson };
        TranscriberError::Invalid(reason)
    })?;
    let Verbose { text, language, duration, words, segments } = said;
    if !duration.is_finite() || duration < 0.0 {
        return wrong(InvalidAnswer::Duration);
    }
    if duration > LONGEST {
        return Err(TranscriberError::TooLong);
    }
    if text.len() > LONGEST_TEXT {
        return wrong(InvalidAnswer::TooLong);
    }
    let (words, is_blank) = (words.unwrap_or_default(), text.trim().is_empty());
    let in_time = |Object(word): &Object<Word>| {
        word.start >= 0.0 && word.start <= word.end && word.end <= duration + ROUNDED
    };
    if !words.iter().all(in_time) {
        return wrong(InvalidAnswer::Duration);
    }
    if words.is_empty() != is_blank || words.iter().any(|Object(word)| word.word.trim().is_empty()) {
        return wrong(InvalidAnswer::Words);
    }
    let language = language.unwrap_or_default();
    let is_named = is_language(&language) || is_blank && language.is_empty();
    if !is_named {
        return wrong(InvalidAnswer::Language);
    }
    let segments = segments.unwrap_or_default();
    let silent = |Object(segment): &Object<Segment>| segment.no_speech_prob.is_some_and(|p| p > NO_SPEECH);
    let no_speech = is_blank || !segments.is_empty() && segments.iter().all(silent);
    Ok(Transcript { text, language, duration, words: words.len(), no_speech })
}

fn is_language(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphabetic() || b == b'-' || b == b'_' || b == b' ';
    (1..=LONGEST_LANGUAGE).contains(&name.len()) && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::ports::InvalidAnswer as Wrong;

    fn good() -> Value {
        let segment =
            json!({"id": 0, "start": 0.0, "end": 1.5, "text": "Good morning.", "no_speech_prob": 0.01});
        json!({
            "task": "transcribe",
            "language": "english",
            "duration": 1.5,
            "text": "Good morning.",
            "words": [{"word": "Good", "start": 0.1, "end": 0.4}, {"word": "morning", "start": 0.5, "end": 1.2}],
            "segments": [segment],
            "usage": {"type": "duration", "seconds": 2},
        })
    }

    fn with(key: &str, value: Value) -> Value {
        let mut answer = good();
        answer[key] = value;
        answer
    }

    fn said(answer: &Value) -> Result<Transcript, TranscriberError> {
        read(answer.to_string().as_bytes())
    }

    #[test]
    fn a_good_answer_is_what_it_says() {
        let found = said(&good()).expect("good");
        assert_eq!(
            (found.text.as_str(), found.language.as_str(), found.words, found.no_speech),
            ("Good morning.", "english", 2, false)
        );
        assert!(!format!("{found:?}").contains("morning"));
        assert!(said(&with("segments", json!(null))).is_ok_and(|found| !found.no_speech));
        assert!(said(&with("duration", json!(900))).is_ok());
    }

    #[test]
    fn silence_is_told() {
        let silence = json!({"text": " ", "language": "", "duration": 3, "words": []});
        assert!(said(&silence).expect("good").no_speech);
        let segment = |p: f64| json!({"no_speech_prob": p});
        for (segments, expected) in [
            (json!([segment(0.9), segment(0.61)]), true),
            (json!([segment(0.9), segment(0.6)]), false),
            (json!([segment(0.9), {}]), false),
            (json!([]), false),
        ] {
            assert_eq!(
                said(&with("segments", segments.clone())).expect("good").no_speech,
                expected,
                "{segments}"
            );
        }
    }

    #[test]
    fn nothing_else_is_a_transcript() {
        let word = |start: f64, end: f64| json!([{"word": "Good", "start": start, "end": end}]);
        for (answer, expected) in [
            (json!([]), Wrong::Shape),
            (json!("Good morning."), Wrong::Shape),
            (json!({"text": "Good morning."}), Wrong::Shape),
            (with("text", json!(null)), Wrong::Shape),
            (with("text", json!(["Good"])), Wrong::Shape),
            (with("text", json!("")), Wrong::Words),
            (with("text", json!("x".repeat(LONGEST_TEXT + 1))), Wrong::TooLong),
            (with("duration", json!("1.5")), Wrong::Shape),
            (with("duration", json!(-1)), Wrong::Duration),
            (with("duration", json!(null)), Wrong::Shape),
            (with("words", json!([])), Wrong::Words),
            (with("words", json!(null)), Wrong::Words),
            (with("words", json!(["Good"])), Wrong::Shape),
            (with("words", json!([["Good", 0.1, 0.4]])), Wrong::Shape),
            (with("words", json!([{"word": " ", "start": 0, "end": 1}])), Wrong::Words),
            (with("words", word(-0.1, 0.4)), Wrong::Duration),
            (with("words", word(0.4, 0.1)), Wrong::Duration),
            (with("words", word(0.4, 9.0)), Wrong::Duration),
            (with("language", json!("")), Wrong::Language),
            (with("language", json!(null)), Wrong::Language),
            (with("language", json!("<b>english</b>")), Wrong::Language),
            (with("language", json!("e".repeat(33))), Wrong::Language),
            (with("segments", json!({})), Wrong::Shape),
            (with("segments", json!([{"no_speech_prob": "0.9"}])), Wrong::Shape),
        ] {
            let found = said(&answer).map(|_| ());
            assert_eq!(found, Err(TranscriberError::Invalid(expected)), "{answer}");
        }
        assert_eq!(said(&with("duration", json!(900.5))).map(|_| ()), Err(TranscriberError::TooLong));
        let invalid = |body: &[u8]| read(body).map(|_| ());
        assert_eq!(invalid(b"Good morning."), Err(TranscriberError::Invalid(Wrong::NotJson)));
        assert_eq!(invalid("[".repeat(99).as_bytes()), Err(TranscriberError::Invalid(Wrong::TooDeep)));
        let twice = good().to_string().replace("\"duration\":", "\"duration\":1,\"duration\":");
        assert_eq!(invalid(twice.as_bytes()), Err(TranscriberError::Invalid(Wrong::Shape)), "{twice}");
    }
}
