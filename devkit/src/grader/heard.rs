//! Transcripts, good and bad.

use serde_json::{Value, json};

use super::by_content::marker;
use super::mode::Hearing;

/// What stands in a recording before its text.
pub(super) const SPEECH: &str = "speech:";
/// Length of a word and of silence, in seconds.
const WORD: f64 = 0.4;
const SILENCE: f64 = 3.0;

/// The text in a recording; empty where nobody speaks.
pub(super) fn text(recording: &[u8]) -> String {
    let all = String::from_utf8_lossy(recording);
    all.split_once(SPEECH).map_or(String::new(), |(_, text)| text.trim().to_owned())
}

/// A transcript in full, with what a mode makes of it.
pub(super) fn verbose(hearing: &Hearing, text: &str) -> Value {
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = |place: usize| WORD * f64::from(u32::try_from(place).unwrap_or_default());
    let marked = marker(text, "seconds").and_then(|seconds| seconds.parse::<f64>().ok());
    let spoken = if words.is_empty() { SILENCE } else { at(words.len()) };
    let duration = marked.unwrap_or(spoken);
    // Words fit into the recording, however long it is said to be.
    let pace = if spoken > duration { duration / spoken } else { 1.0 };
    let times = words
        .iter()
        .enumerate()
        .map(|(place, word)| json!({"word": word, "start": at(place) * pace, "end": at(place + 1) * pace}));
    let no_speech = if words.is_empty() || *hearing == Hearing::Noise { 0.97 } else { 0.01 };
    let segment = json!({
        "id": 0,
        "seek": 0,
        "start": 0.0,
        "end": duration,
        "text": text,
        "tokens": [],
        "temperature": 0.0,
        "avg_logprob": -0.2,
        "compression_ratio": 1.0,
        "no_speech_prob": no_speech,
    });
    let mut document = json!({
        "task": "transcribe",
        "language": marker(text, "language").unwrap_or("english"),
        "duration": duration,
        "text": text,
        "words": times.collect::<Vec<_>>(),
        "segments": [segment],
        "usage": {"type": "duration", "seconds": duration.ceil()},
    });
    match hearing {
        Hearing::With(key, value) => document[*key] = value.clone(),
        Hearing::Without(key) => {
            if let Some(document) = document.as_object_mut() {
                document.remove(*key);
            }
        }
        Hearing::ByContent | Hearing::Noise | Hearing::Body(_) | Hearing::Mishap(_) => {}
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_says_its_text_or_nothing() {
        assert_eq!(text(b"ID3\xff\x00speech: Good morning. "), "Good morning.");
        assert_eq!(text(b"ID3\xff\x00"), "");
        let said = verbose(&Hearing::ByContent, "Good morning. [[seconds 95]]");
        assert_eq!(
            (said["duration"].as_f64(), said["words"].as_array().map(Vec::len)),
            (Some(95.0), Some(4))
        );
        let silence = verbose(&Hearing::ByContent, "");
        assert!(silence["segments"][0]["no_speech_prob"].as_f64().is_some_and(|p| p > 0.6));
        assert_eq!(verbose(&Hearing::Without("words"), "x").get("words"), None);
    }
}
