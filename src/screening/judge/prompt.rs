//! The question to a judge: instructions that are ours, and content that is nobody's instruction.
//!
//! The content is a JSON document of its own, in a message of its own. Every line of it begins with a mark that is drawn for
//! this question alone, so that no line of the content passes for one of ours; what cannot be seen is written as an escape.
//! None of this keeps a judge from being talked round: the bars of [`decide`](super::decide) do.

use std::fmt;

use serde::Serialize;

pub use super::texts::{ANSWER_TOKENS, version};

use super::texts::{SHAPE, schema, system};
use super::verdict::{self, Verdict};
use crate::gateway::judge::marking::{escaped, is_nonce, marked};
use crate::ports::{Chat, Inquiry, InvalidAnswer, Reading};
use crate::screening::run::Profile;

/// Longest content that is asked about, in bytes; longer content is for a person.
pub const LARGEST: usize = 256 * 1024;
/// Longest message, in bytes: content of nothing but line breaks grows by its marks.
const LARGEST_MESSAGE: usize = 1024 * 1024;

/// A question that cannot be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unaskable {
    /// More than [`LARGEST`]; the run goes to a person.
    #[error("the content is longer than a judge is asked about; a person has to look at it")]
    TooLarge,
    /// The nonce is too short, or not of letters and digits.
    #[error("the nonce must be 16 to 64 ASCII letters and digits")]
    Nonce,
    /// The nonce stands in the content; another one has to be drawn.
    #[error("the nonce stands in the content; draw another")]
    NonceInContent,
}

/// What is to be judged.
#[derive(Clone, PartialEq, Eq)]
pub struct Question {
    /// Kind of content.
    pub profile: Profile,
    /// A word drawn for this question alone: 16 to 64 ASCII letters and digits.
    pub nonce: String,
    /// Texts, each with its place: a field's name, a file's path.
    pub blocks: Vec<(String, String)>,
    /// What tier 1 found: rule and place.
    pub tier1: Vec<(String, String)>,
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question")
            .field("profile", &self.profile)
            .field("blocks", &self.blocks.len())
            .field("tier1", &self.tier1.len())
            .finish_non_exhaustive()
    }
}

/// A question in the words that are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Composed {
    chat: Chat,
    nonce: Hidden,
    places: Vec<Hidden>,
}

/// A text that `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
struct Hidden(String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Question {
    /// Composes the messages.
    ///
    /// # Errors
    /// [`Unaskable`].
    pub fn compose(&self) -> Result<Composed, Unaskable> {
        if !is_nonce(&self.nonce) {
            return Err(Unaskable::Nonce);
        }
        let content = self.blocks.iter().map(|(place, text)| place.len() + text.len());
        if content.fold(0, usize::saturating_add) > LARGEST {
            return Err(Unaskable::TooLarge);
        }
        let asked = self.blocks.iter().chain(&self.tier1);
        if asked.into_iter().any(|(one, other)| one.contains(&self.nonce) || other.contains(&self.nonce)) {
            return Err(Unaskable::NonceInContent);
        }
        let user = self.user();
        if user.len() > LARGEST_MESSAGE {
            return Err(Unaskable::TooLarge);
        }
        let system = system(self.profile);
        let chat = Chat { system, user, shape: SHAPE, schema: schema(), max_tokens: ANSWER_TOKENS };
        let places = self.blocks.iter().map(|(place, _)| place);
        let places = places.chain(self.tier1.iter().map(|(_, place)| place)).cloned().map(Hidden).collect();
        Ok(Composed { chat, nonce: Hidden(self.nonce.clone()), places })
    }

    fn user(&self) -> String {
        let blocks: Vec<Block<'_>> = self
            .blocks
            .iter()
            .map(|(place, text)| Block { place, text: marked(&self.nonce, text) })
            .collect();
        let tier1 = self.tier1.iter().map(|(rule, place)| Found { rule, place }).collect();
        let sent = Sent { nonce: &self.nonce, profile: self.profile.label(), tier1, blocks };
        // Texts alone: there is nothing in it that has no JSON.
        escaped(&serde_json::to_string(&sent).unwrap_or_default())
    }
}

impl Composed {
    /// Bytes of both messages, for an estimate of their tokens.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.chat.system.len() + self.chat.user.len()
    }
}

impl Inquiry for Composed {
    type Verdict = Verdict;

    fn chat(&self) -> &Chat {
        &self.chat
    }

    fn read(&self, body: &[u8]) -> Result<Reading<Verdict>, InvalidAnswer> {
        let places: Vec<&str> = self.places.iter().map(|place| place.0.as_str()).collect();
        verdict::read(body, &self.nonce.0, &places)
    }
}

#[derive(Serialize)]
struct Sent<'a> {
    nonce: &'a str,
    profile: &'a str,
    tier1: Vec<Found<'a>>,
    blocks: Vec<Block<'a>>,
}

#[derive(Serialize)]
struct Found<'a> {
    rule: &'a str,
    place: &'a str,
}

#[derive(Serialize)]
struct Block<'a> {
    place: &'a str,
    text: String,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::gateway::judge::marking::ends_a_line;

    const N: &str = "0123456789abcdef";

    fn question(blocks: &[(&str, &str)]) -> Question {
        let owned = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect()
        };
        Question {
            profile: Profile::Fields,
            nonce: N.to_owned(),
            blocks: owned(blocks),
            tier1: owned(&[("shortener", "message")]),
        }
    }

    #[test]
    fn content_is_one_json_document_of_marked_lines() {
        let composed = question(&[("message", "one\r\n\"two\"\u{2028}three\r"), ("empty", "")])
            .compose()
            .expect("asked");
        let sent: Value = serde_json::from_str(&composed.chat().user).expect("JSON");
        let text = format!("{N}| one\n{N}| \"two\"\n{N}| three\n{N}| ");
        assert_eq!(
            sent,
            json!({
                "nonce": N,
                "profile": "fields",
                "tier1": [{"rule": "shortener", "place": "message"}],
                "blocks": [{"place": "message", "text": text}, {"place": "empty", "text": format!("{N}| ")}],
            })
        );
        assert!(!composed.chat().user.contains('\n'), "lines of the content are no lines of the message");
        assert!(!composed.chat().system.contains("two"));
    }

    #[test]
    fn what_cannot_be_seen_is_an_escape() {
        let hidden = "a\u{202e}b\u{e0041}c\u{200b}d\u{0}e";
        let composed = question(&[("message", hidden)]).compose().expect("asked");
        let user = &composed.chat().user;
        assert!(user.contains(r"a\u202eb\udb40\udc41c\u200bd\u0000e"), "{user}");
        let sent: Value = serde_json::from_str(user).expect("JSON");
        assert_eq!(sent["blocks"][0]["text"], json!(format!("{N}| {hidden}")));
    }

    #[test]
    fn too_much_is_not_asked() {
        let long = "x".repeat(LARGEST - "message".len());
        assert!(question(&[("message", &long)]).compose().is_ok());
        let longer = format!("{long}x");
        assert_eq!(question(&[("message", &longer)]).compose(), Err(Unaskable::TooLarge));
        let breaks = "\n".repeat(LARGEST / 2);
        assert_eq!(question(&[("message", &breaks)]).compose(), Err(Unaskable::TooLarge));
    }

    #[test]
    fn a_nonce_is_a_word_that_the_content_has_not() {
        for nonce in
            ["", "short", "0123456789abcde\"", "0123456789abcdef\n", "ünfzehnzeichen00", &"a".repeat(65)]
        {
            let asked = Question { nonce: nonce.to_owned(), ..question(&[]) };
            assert_eq!(asked.compose(), Err(Unaskable::Nonce), "{nonce}");
        }
        for blocks in [[("message", "see 0123456789abcdef|")], [("0123456789abcdef", "x")]] {
            assert_eq!(question(&blocks).compose(), Err(Unaskable::NonceInContent));
        }
    }

    #[test]
    fn no_content_is_shown_by_debug() {
        let asked = question(&[("planted-place", "planted-text")]);
        let shown = format!(
            "{asked:?} {:?} {:?}",
            asked.compose().expect("asked"),
            asked.compose().expect("asked").chat()
        );
        assert!(!shown.contains("planted") && !shown.contains(N), "{shown}");
    }

    proptest! {
        #[test]
        fn every_line_is_marked_and_nothing_is_lost(text in any::<String>()) {
            let composed = question(&[("message", &text)]).compose().expect("asked");
            let sent: Value = serde_json::from_str(&composed.chat().user).expect("JSON");
            let found = sent["blocks"][0]["text"].as_str().expect("a text");
            let mark = format!("{N}| ");
            let mut bare = Vec::new();
            for line in found.split('\n') {
                prop_assert!(line.starts_with(&mark));
                prop_assert!(!line.contains(ends_a_line));
                bare.push(&line[mark.len()..]);
            }
            prop_assert_eq!(bare.join("\n"), text.replace("\r\n", "\n").replace(ends_a_line, "\n"));
        }
    }
}
