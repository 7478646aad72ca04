use proptest::prelude::*;
use serde_json::{Map, Value};

use super::tests::{N, PLACES, good, said};
use super::*;

/// Some JSON, of every kind.
fn some_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-200_i64..400).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-10.0_f64..200.0).prop_map(Value::from),
        prop_oneof![Just(N.to_owned()), Just("score".to_owned()), Just("92".to_owned()), "[a-z0-9\"{}]{0,8}"]
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let key =
            prop_oneof![Just("nonce"), Just("score"), Just("concerns"), Just("injection"), Just("note")];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..4)
                .prop_map(|pairs| pairs
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect::<Map<_, _>>())
                .prop_map(Value::from),
        ]
    })
}

/// Every place of a document.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    if let Value::Object(map) = value {
        map.iter().for_each(|(key, value)| pointers(value, &format!("{at}/{key}"), found));
    }
    if let Value::Array(list) = value {
        list.iter().enumerate().for_each(|(key, value)| pointers(value, &format!("{at}/{key}"), found));
    }
}

/// What stands in a text as its score, by another reader than ours: exactly one key on the top level, and its digits.
fn standing(text: &str) -> Option<i64> {
    let document: Value = serde_json::from_str(text).ok()?;
    document.as_object()?.get("score")?.as_i64()
}

proptest! {
    #[test]
    fn a_changed_answer_has_the_score_that_stands_there_or_none(
        place in any::<prop::sample::Index>(),
        value in some_json(),
        again in prop::option::of((any::<prop::sample::Index>(), some_json())),
    ) {
        let mut answer = good();
        for (place, value) in [Some((place, value)), again].into_iter().flatten() {
            let mut places = Vec::new();
            pointers(&answer, "", &mut places);
            if let Some(found) = answer.pointer_mut(place.get(&places[..]).as_str()) {
                *found = value;
            }
        }
        let text = answer.to_string();
        if let Ok(verdict) = said(&text) {
            prop_assert_eq!(Some(i64::from(verdict.score.get())), standing(&text));
            prop_assert_eq!(answer["nonce"].as_str(), Some(N));
        }
    }

    #[test]
    fn a_text_that_was_tampered_with_has_the_score_that_stands_there_or_none(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..4_u8, "[0-9\"{}\\[\\],:.eE+\\- a-z\\\\]{0,6}"), 1..4),
    ) {
        let mut text = good().to_string();
        for (place, kind, piece) in edits {
            let at = place.index(text.len() + 1);
            let end = text.len().min(at + usize::from(kind));
            if text.is_char_boundary(at) && text.is_char_boundary(end) {
                text.replace_range(at..end, &piece);
            }
        }
        if let Ok(verdict) = said(&text) {
            prop_assert_eq!(Some(i64::from(verdict.score.get())), standing(&text));
            let keys = text.matches("\"score\":").count() + text.matches("\"score\" ").count();
            prop_assert!(keys <= 1, "{}", text);
        }
    }

    #[test]
    fn a_key_that_is_there_twice_is_no_answer(value in some_json(), first in any::<bool>(), key in 0..4_usize) {
        let key = ["nonce", "score", "concerns", "injection"][key];
        let good = good().to_string();
        let inner = &good[1..good.len() - 1];
        let text = if first {
            format!("{{\"{key}\":{value},{inner}}}")
        } else {
            format!("{{{inner},\"{key}\":{value}}}")
        };
        prop_assert!(said(&text).is_err(), "{}", text);
    }

    #[test]
    fn anything_else_is_no_answer(body in prop::collection::vec(any::<u8>(), 0..200), text in any::<String>()) {
        prop_assert!(read(&body, N, &PLACES).is_err());
        prop_assert!(said(&text).is_err());
    }
}
