//! A chat completion that answers: read exactly, or not at all, whatever was asked. Pure.
//!
//! Whoever is judged may have written a part of the answer, so nothing is guessed, repaired or looked for in it: one choice that
//! ended by itself, a text and neither tool nor refusal, and in that text one JSON object with nothing around it and no key too
//! many, too few or twice. What the object says is for whoever asked.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::ports::{InvalidAnswer, Reading};

/// Deepest nesting of a completion.
const DEEPEST: usize = 32;
/// Longest name of a model, in bytes.
const LONGEST_MODEL: usize = 128;

/// Reads the body of a chat completion, and its text by `verdict`. The text is handed to nobody else.
///
/// # Errors
/// [`InvalidAnswer`], its own or `verdict`'s.
pub fn read<V>(
    body: &[u8],
    verdict: impl FnOnce(&str) -> Result<V, InvalidAnswer>,
) -> Result<Reading<V>, InvalidAnswer> {
    if depth(body) > DEEPEST {
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
    let verdict = verdict(&said(choice)?)?;
    let Object(usage) = completion.usage.unwrap_or_default();
    let Usage { prompt_tokens, completion_tokens } = usage;
    Ok(Reading { verdict, model: completion.model, prompt_tokens, completion_tokens })
}

/// The one JSON object that a text is, of so many bytes and so many levels at most.
///
/// # Errors
/// [`InvalidAnswer`]: too long, too deep, no JSON, or of another shape.
pub fn document<T: DeserializeOwned>(text: &str, longest: usize, deepest: usize) -> Result<T, InvalidAnswer> {
    if text.len() > longest {
        return Err(InvalidAnswer::TooLong);
    }
    if depth(text.as_bytes()) > deepest {
        return Err(InvalidAnswer::TooDeep);
    }
    let Object(document) = serde_json::from_str::<Object<T>>(text)
        .map_err(|error| if error.is_data() { InvalidAnswer::Shape } else { InvalidAnswer::NotJson })?;
    Ok(document)
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

fn is_model(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._:/@+-".contains(&b);
    (1..=LONGEST_MODEL).contains(&name.len()) && name.bytes().all(plain)
}

/// Deepest nesting of brackets outside of strings: told before a parser that recurses is asked.
#[must_use]
pub fn depth(document: &[u8]) -> usize {
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
pub struct Object<T>(pub T);

/// What it holds may be content.
impl<T> fmt::Debug for Object<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Object").finish_non_exhaustive()
    }
}

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
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::ports::InvalidAnswer as Wrong;

    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct One {
        a: u8,
    }

    #[test]
    fn a_text_is_one_object_or_none() {
        let one = |text: &str| document::<One>(text, 64, 2);
        assert_eq!(one(" {\"a\": 1}\n"), Ok(One { a: 1 }));
        for (text, expected) in [
            ("", Wrong::NotJson),
            ("[1]", Wrong::Shape),
            ("1", Wrong::Shape),
            ("{}", Wrong::Shape),
            ("{\"a\":1,\"a\":1}", Wrong::Shape),
            ("{\"a\":1,\"b\":1}", Wrong::Shape),
            ("{\"a\":1}{\"a\":1}", Wrong::NotJson),
            ("a {\"a\":1}", Wrong::NotJson),
            ("{\"a\":[[1]]}", Wrong::TooDeep),
        ] {
            assert_eq!(one(text), Err(expected), "{text}");
        }
        assert_eq!(one(&format!("{{\"a\": 1{}}}", " ".repeat(64))), Err(Wrong::TooLong));
    }

    #[test]
    fn only_a_whole_completion_has_its_text_read() {
        let body = |finish: &str, content: Value| {
            let message = json!({"role": "assistant", "content": content});
            let choice = json!({"index": 0, "message": message, "finish_reason": finish});
            json!({"model": "m", "choices": [choice], "usage": {"prompt_tokens": 3}}).to_string()
        };
        let length = |body: &str| read(body.as_bytes(), |text| Ok(text.len()));
        let found = length(&body("stop", json!("four"))).expect("read");
        assert_eq!((found.verdict, found.prompt_tokens, found.completion_tokens), (4, Some(3), None));
        assert_eq!(length(&body("length", json!("four"))), Err(Wrong::Finish));
        assert_eq!(length(&body("stop", json!(null))), Err(Wrong::NoContent));
        let refused = read(body("stop", json!("x")).as_bytes(), |_| Err::<(), _>(Wrong::Nonce));
        assert_eq!(refused, Err(Wrong::Nonce));
        assert_eq!(depth(br#"{"[[[": "\"[["}"#), 1);
        assert!(!format!("{:?}", Object("planted")).contains("planted"));
    }
}
