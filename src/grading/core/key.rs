//! Listening and reading: answers against a key. Pure.
//!
//! A key is read before it is used: one with a hole would mark a right answer wrong, and nobody would look. Answers are
//! compared as people read them: compatible characters, case and spaces make no difference; everything else does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;
use unicode_normalization::UnicodeNormalization as _;

use super::score::Score;

/// A key: of each item, the answers that are right.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(BTreeMap<String, BTreeSet<String>>);

/// Why a key is none. Names the item, and no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// Not a JSON object.
    #[error("the answer key is not an object of items")]
    NotAnObject,
    /// No item, or an item without a name.
    #[error("the answer key has no items, or one without a name")]
    Empty,
    /// An item is neither a text nor a list of texts.
    #[error("item {item:?} of the answer key is neither a text nor a list of texts")]
    NotAnswers {
        /// The item.
        item: String,
    },
    /// An item has no answer, or a blank one: nobody, or whoever says nothing, would be right.
    #[error("item {item:?} of the answer key has no answer, or a blank one")]
    Blank {
        /// The item.
        item: String,
    },
}

/// A key's verdict on answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marked {
    /// Items that were answered right.
    pub correct: u32,
    /// All items.
    pub total: u32,
    /// Correct ÷ total × 10, rounded half up to 0.1.
    pub score: Score,
}

impl Key {
    /// Reads a key: an object of items, each with its answer or a list of alternatives.
    ///
    /// # Errors
    /// [`KeyFault`], with the first item that is at fault.
    pub fn parse(key: &Value) -> Result<Self, KeyFault> {
        let items = key.as_object().ok_or(KeyFault::NotAnObject)?;
        if items.is_empty() || items.keys().any(|item| item.trim().is_empty()) {
            return Err(KeyFault::Empty);
        }
        items
            .iter()
            .map(|(item, answers)| Ok((item.clone(), alternatives(item, answers)?)))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Marks answers, by item. An item without an answer is wrong; an answer to no item counts for nothing.
    #[must_use]
    pub fn mark(&self, answers: &BTreeMap<String, String>) -> Marked {
        let right = |(item, alternatives): &(&String, &BTreeSet<String>)| {
            answers.get(*item).is_some_and(|answer| alternatives.contains(&folded(answer)))
        };
        let count = |items: usize| u32::try_from(items).unwrap_or(u32::MAX);
        let (correct, total) = (count(self.0.iter().filter(right).count()), count(self.0.len()));
        Marked { correct, total, score: share(correct, total) }
    }

    /// Items of the key.
    pub fn items(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("items", &self.0.len()).finish_non_exhaustive()
    }
}

fn alternatives(item: &str, answers: &Value) -> Result<BTreeSet<String>, KeyFault> {
    let wrong = || KeyFault::NotAnswers { item: item.to_owned() };
    let texts: Vec<&str> = match answers {
        Value::String(answer) => vec![answer],
        Value::Array(answers) => {
            answers.iter().map(|answer| answer.as_str().ok_or_else(wrong)).collect::<Result<_, _>>()?
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return Err(wrong()),
    };
    let folded: BTreeSet<String> = texts.into_iter().map(folded).collect();
    if folded.is_empty() || folded.contains("") {
        return Err(KeyFault::Blank { item: item.to_owned() });
    }
    Ok(folded)
}

/// A text as it is compared: NFKC, lower case, spaces folded and none around it.
pub(super) fn folded(text: &str) -> String {
    // Lower case can take a text out of its form (İ), and the form can make capitals (℡).
    let lower: String = text.nfkc().flat_map(char::to_lowercase).nfkc().collect();
    lower.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn share(correct: u32, total: u32) -> Score {
    let (correct, total) = (u64::from(correct), u64::from(total));
    let tenths = (200 * correct + total).checked_div(2 * total).and_then(|tenths| u8::try_from(tenths).ok());
    tenths.and_then(Score::from_tenths).unwrap_or(Score::MIN)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn answers(of: &[(&str, &str)]) -> BTreeMap<String, String> {
        of.iter().map(|(item, answer)| ((*item).to_owned(), (*answer).to_owned())).collect()
    }

    #[test]
    fn answers_are_compared_as_people_read_them() {
        let key =
            Key::parse(&json!({"1": "Café  au lait", "2": ["nine", "9"], "3": "İstanbul"})).expect("a key");
        for (item, answer, right) in [
            ("1", " cafe\u{301}\u{a0}AU\tlait ", true),
            ("1", "cafe au lait", false),
            ("2", "NINE", true),
            ("2", "\u{ff19}", true),
            ("2", "nine, 9", false),
            ("2", "", false),
            ("3", "İSTANBUL", true),
            ("4", "nine", false),
        ] {
            assert_eq!(key.mark(&answers(&[(item, answer)])).correct, u32::from(right), "{item} {answer:?}");
        }
    }

    #[test]
    fn a_score_is_the_share_to_a_tenth_half_up() {
        for (correct, total, tenths) in [
            (0, 3, 0),
            (1, 3, 33),
            (2, 3, 67),
            (3, 3, 100),
            (1, 8, 13),
            (33, 40, 83),
            (35, 35, 100),
            (1, 0, 0),
        ] {
            assert_eq!(share(correct, total).tenths(), tenths, "{correct} of {total}");
        }
    }

    #[test]
    fn missing_answers_are_wrong() {
        let key = Key::parse(&json!({"1": "a", "2": "b", "3": "c", "4": "d"})).expect("a key");
        let marked = key.mark(&answers(&[("1", "a"), ("2", "b"), ("3", "x"), ("5", "d")]));
        assert_eq!((marked.correct, marked.total, marked.score.tenths()), (2, 4, 50));
        assert_eq!(key.mark(&BTreeMap::new()).score, Score::MIN);
        assert_eq!(key.items().collect::<Vec<_>>(), ["1", "2", "3", "4"]);
    }

    #[test]
    fn a_key_with_a_hole_is_none() {
        let (not, blank) =
            (|| KeyFault::NotAnswers { item: "2".into() }, || KeyFault::Blank { item: "2".into() });
        for (key, fault) in [
            (json!([]), KeyFault::NotAnObject),
            (json!("a"), KeyFault::NotAnObject),
            (json!({}), KeyFault::Empty),
            (json!({" ": "a"}), KeyFault::Empty),
            (json!({"1": "a", "2": 3}), not()),
            (json!({"1": "a", "2": null}), not()),
            (json!({"1": "a", "2": ["a", 3]}), not()),
            (json!({"1": "a", "2": {"a": "b"}}), not()),
            (json!({"1": "a", "2": []}), blank()),
            (json!({"1": "a", "2": " \u{a0}"}), blank()),
            (json!({"1": "a", "2": ["a", ""]}), blank()),
        ] {
            assert_eq!(Key::parse(&key), Err(fault.clone()), "{key}");
            assert_eq!(fault.to_string().contains("\"2\""), key.get("2").is_some());
        }
    }

    #[test]
    fn a_key_shows_no_answer() {
        let key = Key::parse(&json!({"1": "secret"})).expect("a key");
        assert_eq!(format!("{key:?}"), "Key { items: 1, .. }");
    }

    proptest! {
        #[test]
        fn folding_twice_is_folding_once(text in "\\PC{0,40}") {
            let once = folded(&text);
            prop_assert_eq!(folded(&once), once);
        }

        #[test]
        fn a_right_answer_is_right_in_capitals(text in "[a-zà-ö0-9][a-zà-ö 0-9]{0,20}") {
            let key = Key::parse(&json!({"1": text.clone()})).expect("a key");
            prop_assert_eq!(key.mark(&answers(&[("1", &text.to_uppercase())])).score, Score::MAX);
        }
    }
}
