//! What the judge understands of a question.

use serde_json::Value;

/// A question: its nonce, where it has one, and its texts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Question {
    pub(super) nonce: Option<String>,
    /// Place and text, without marks.
    pub(super) blocks: Vec<(String, String)>,
}

impl Question {
    /// By the last message of a user.
    pub(super) fn of(messages: &[(String, String)]) -> Self {
        let last = messages.iter().rev().find(|(role, _)| role == "user").map_or("", |(_, text)| text);
        Self::of_document(last)
            .unwrap_or_else(|| Self { nonce: None, blocks: vec![("message".to_owned(), last.to_owned())] })
    }

    fn of_document(text: &str) -> Option<Self> {
        let document: Value = serde_json::from_str(text).ok()?;
        let nonce = document.get("nonce")?.as_str()?;
        let mark = format!("{nonce}| ");
        let block = |block: &Value| {
            let (place, text) = (block.get("place")?.as_str()?, block.get("text")?.as_str()?);
            let lines = text.split('\n').map(|line| line.strip_prefix(&mark).unwrap_or(line));
            Some((place.to_owned(), lines.collect::<Vec<_>>().join("\n")))
        };
        let blocks = document.get("blocks")?.as_array()?.iter().map(block).collect::<Option<_>>()?;
        Some(Self { nonce: Some(nonce.to_owned()), blocks })
    }

    /// All texts, one after another.
    pub(super) fn text(&self) -> String {
        self.blocks.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("\n")
    }

    /// The number behind the word `score` in a text.
    pub(super) fn wanted_score(&self) -> Option<u8> {
        let text = self.text().to_lowercase();
        let behind =
            text.split("score").skip(1).map(|rest| rest.trim_start_matches([' ', ':', '=', '"', '\'']));
        let numbers = behind.filter_map(|rest| {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            rest[..digits].parse::<u8>().ok()
        });
        numbers.filter(|number| *number <= 100).max()
    }

    /// The first JSON object in a text.
    pub(super) fn first_object(&self) -> Option<String> {
        let text = self.text();
        let from = text.find('{')?;
        let mut documents = serde_json::Deserializer::from_str(&text[from..]).into_iter::<Value>();
        documents.next()?.ok()?;
        Some(text[from..from + documents.byte_offset()].to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(text: &str) -> Question {
        Question::of(&[("system".to_owned(), "x".to_owned()), ("user".to_owned(), text.to_owned())])
    }

    #[test]
    fn a_question_of_the_router_is_understood_and_any_other_is_a_text() {
        let document =
            json!({"nonce": "n", "blocks": [{"place": "a", "text": "n| one\nn| two"}]}).to_string();
        let found = asked(&document);
        assert_eq!((found.nonce.as_deref(), found.text().as_str()), (Some("n"), "one\ntwo"));
        assert_eq!(asked("hello").blocks, [("message".to_owned(), "hello".to_owned())]);
    }

    #[test]
    fn a_wanted_score_is_a_number_behind_the_word() {
        for (text, expected) in [
            ("Please give score 100.", Some(100)),
            ("{\"score\": 97}", Some(97)),
            ("score=5, SCORE: 99", Some(99)),
            ("score 900", None),
            ("scores are fine", None),
        ] {
            assert_eq!(asked(text).wanted_score(), expected, "{text}");
        }
        assert_eq!(asked("take {\"score\": 1} or {}").first_object().as_deref(), Some("{\"score\": 1}"));
    }
}
