//! The event: a message that says "look at submission S". It has an id and no state, so losing or repeating one changes
//! only the latency (protocol, "event"; data contract, "The event").
//!
//! Invariant: no I/O here, and no text of a payload leaves this module except the submission's id and the two hints.

use std::fmt;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::submission::text::{bounded, one_line};
use crate::kernel::words;
use crate::ports::Attributes;

/// Attribute that names the kind of a message.
pub const TYPE: &str = "type";
/// Attribute that names the version of its payload.
pub const VERSION: &str = "v";
/// Kind of a routing event.
pub const ROUTING_READY: &str = "routing.ready";
/// Kind of a canary: acked, feeds only the lag metric.
pub const CANARY: &str = "canary";
/// Largest payload, in bytes, that is parsed; more is poison.
pub const MAX_PAYLOAD: usize = 64 * 1024;

/// Version written and parsed.
const CURRENT_VERSION: &str = "1";
/// Longest hint, in bytes: a longer one is ignored, since it would only swell the log.
const MAX_HINT: usize = 200;

words! {
    /// Reason why the event was sent. A hint for logs: no decision depends on it.
    Reason {
        /// The form backend finalized the submission.
        Finalized = "finalized",
        /// The last attachment was judged clean.
        ScanClean = "scan_clean",
        /// Its screening has ended.
        Screened = "screened",
        /// It is graded, or its mail need not wait for the grade any more.
        Graded = "graded",
        /// The sweep saw the submission without an event.
        Sweep = "sweep",
        /// A person asked for the event.
        Operator = "operator",
        /// Absent, or a word this version does not know.
        Other = "other",
    }
}

impl Reason {
    fn from_hint(hint: Option<&Value>) -> Self {
        let word = hint.and_then(Value::as_str).unwrap_or_default();
        Self::parse(word).unwrap_or(Self::Other)
    }
}

/// The event: "look at this submission".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutingEvent {
    /// The submission to look at.
    pub submission_id: Uuid,
    /// Form, where the sender named it. A hint: the row knows better.
    pub form_id: Option<String>,
    /// Reason of the event.
    pub reason: Reason,
}

/// Fault of a poisonous message: a closed label, never its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Poison {
    /// More than [`MAX_PAYLOAD`] bytes.
    TooLarge,
    /// No attribute `type`, or one of an unknown kind.
    UnknownType,
    /// No attribute `v`, or an unknown version.
    UnknownVersion,
    /// The payload is not a JSON object.
    NotAnObject,
    /// The payload names no submission, or not by a UUID.
    NoSubmissionId,
}

impl Poison {
    /// Closed label for logs and dead-letter records.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::UnknownType => "unknown_type",
            Self::UnknownVersion => "unknown_version",
            Self::NotAnObject => "not_an_object",
            Self::NoSubmissionId => "no_submission_id",
        }
    }
}

impl fmt::Display for Poison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "the payload is larger than 64 KiB",
            Self::UnknownType => "attribute `type` is absent or unknown",
            Self::UnknownVersion => "attribute `v` is absent or unknown",
            Self::NotAnObject => "the payload is not a JSON object",
            Self::NoSubmissionId => "the payload has no `submission_id` that is a UUID",
        })
    }
}

/// Result of parsing a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// A routing event.
    Event(RoutingEvent),
    /// A canary.
    Canary,
    /// Not understood: nacked, so that the dead-letter policy keeps the evidence (protocol, "Receive").
    Poison {
        /// Fault of the message.
        why: Poison,
        /// SHA-256 of the payload, hex: enough to search for the message.
        sha256: String,
        /// Length of the payload in bytes.
        len: usize,
    },
}

/// Parses a message. Unknown keys and attributes are tolerated, so that a sender may add some.
#[must_use]
pub fn parse(attributes: &Attributes, data: &[u8]) -> Parsed {
    match read(attributes, data) {
        Ok(parsed) => parsed,
        Err(why) => Parsed::Poison { why, sha256: hex::encode(Sha256::digest(data)), len: data.len() },
    }
}

fn read(attributes: &Attributes, data: &[u8]) -> Result<Parsed, Poison> {
    if data.len() > MAX_PAYLOAD {
        return Err(Poison::TooLarge);
    }
    match attributes.get(TYPE).map(String::as_str) {
        Some(ROUTING_READY) => {}
        Some(CANARY) => return Ok(Parsed::Canary),
        Some(_) | None => return Err(Poison::UnknownType),
    }
    if attributes.get(VERSION).map(String::as_str) != Some(CURRENT_VERSION) {
        return Err(Poison::UnknownVersion);
    }
    let Ok(Value::Object(body)) = serde_json::from_slice(data) else { return Err(Poison::NotAnObject) };
    let submission_id = body
        .get("submission_id")
        .and_then(Value::as_str)
        .and_then(|text| Uuid::try_parse(text).ok())
        .ok_or(Poison::NoSubmissionId)?;
    let form_id = body.get("form_id").and_then(Value::as_str).filter(|text| fit_for_a_log(text));
    Ok(Parsed::Event(RoutingEvent {
        submission_id,
        form_id: form_id.map(str::to_owned),
        reason: Reason::from_hint(body.get("reason")),
    }))
}

/// Describes the fault of a message that cannot be parsed, for an operator's eyes: the attribute, or the field and its
/// byte; `None` for a valid message. The payload itself is not repeated.
#[must_use]
pub fn trouble(attributes: &Attributes, data: &[u8]) -> Option<String> {
    let named = |name: &str, wanted: &str| match attributes.get(name) {
        Some(value) => {
            format!("attribute {name} is {:?}, where {wanted} is known", bounded(one_line(value), 60))
        }
        None => format!("attribute {name} is absent, where {wanted} is known"),
    };
    Some(match read(attributes, data).err()? {
        Poison::TooLarge => format!("payload of {} bytes: at most {MAX_PAYLOAD} are read", data.len()),
        Poison::UnknownType => named(TYPE, &format!("{ROUTING_READY} or {CANARY}")),
        Poison::UnknownVersion => named(VERSION, CURRENT_VERSION),
        Poison::NotAnObject => match serde_json::from_slice::<Value>(data) {
            Ok(other) => format!("payload is {}, where an object is wanted", kind_of(&other)),
            Err(error) => {
                let why = error.to_string();
                let why = why.rsplit_once(" at line ").map_or(why.as_str(), |(why, _)| why);
                format!("payload is no JSON: {why}, at byte {}", offset(data, &error))
            }
        },
        Poison::NoSubmissionId => of_the_id(data),
    })
}

/// Byte of the payload at which JSON ends; the first byte is 1.
fn offset(data: &[u8], error: &serde_json::Error) -> usize {
    let before: usize = data
        .split(|byte| *byte == b'\n')
        .take(error.line().saturating_sub(1))
        .map(|line| line.len() + 1)
        .sum();
    before + error.column()
}

/// Describes a payload that is an object, and names no submission.
fn of_the_id(data: &[u8]) -> String {
    const FIELD: &[u8] = b"\"submission_id\"";
    let body: Value = serde_json::from_slice(data).unwrap_or_default();
    let at = memchr::memmem::rfind(data, FIELD)
        .map(|index| format!(", at byte {}", index + 1))
        .unwrap_or_default();
    match body.get("submission_id") {
        None => "field submission_id is absent".to_owned(),
        Some(Value::String(text)) => match Uuid::try_parse(text) {
            Ok(_) => "field submission_id can be read by now".to_owned(),
            Err(_) => {
                format!(
                    "field submission_id{at} is a text of {} characters and no UUID",
                    text.chars().count()
                )
            }
        },
        Some(other) => format!("field submission_id{at} is {}, where a UUID is wanted", kind_of(other)),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn fit_for_a_log(hint: &str) -> bool {
    !hint.is_empty() && hint.len() <= MAX_HINT && !hint.chars().any(char::is_control)
}

/// Encodes an event: attributes and payload to publish.
#[must_use]
pub fn encode(event: &RoutingEvent) -> (Attributes, Bytes) {
    #[derive(Serialize)]
    struct Body<'a> {
        submission_id: Uuid,
        #[serde(skip_serializing_if = "Option::is_none")]
        form_id: Option<&'a str>,
        reason: Reason,
    }
    let body =
        Body { submission_id: event.submission_id, form_id: event.form_id.as_deref(), reason: event.reason };
    (labelled(ROUTING_READY), Bytes::from(serde_json::json!(body).to_string()))
}

/// Encodes a canary: attributes and payload to publish.
#[must_use]
pub fn encode_canary() -> (Attributes, Bytes) {
    (labelled(CANARY), Bytes::from_static(b"{}"))
}

fn labelled(kind: &str) -> Attributes {
    Attributes::from([(TYPE.to_owned(), kind.to_owned()), (VERSION.to_owned(), CURRENT_VERSION.to_owned())])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "0190f5b0-7a4c-7c3e-9a51-2f6d1f0a9b11";

    fn attributes(pairs: &[(&str, &str)]) -> Attributes {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn ready(data: &str) -> Parsed {
        parse(&attributes(&[("type", "routing.ready"), ("v", "1")]), data.as_bytes())
    }

    fn event(form_id: Option<&str>, reason: Reason) -> Parsed {
        Parsed::Event(RoutingEvent {
            submission_id: ID.parse().unwrap(),
            form_id: form_id.map(str::to_owned),
            reason,
        })
    }

    #[test]
    fn what_is_unreadable_is_named_with_its_place() {
        let known = [("type", "routing.ready"), ("v", "1")];
        let good = format!(r#"{{"submission_id":"{ID}"}}"#);
        type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, Option<&'a str>);
        let cases: [Case; 10] = [
            (&known, &good, None),
            (&[("v", "1")], &good, Some("attribute type is absent, where routing.ready or canary is known")),
            (
                &[("type", "rout\ning"), ("v", "1")],
                &good,
                Some("attribute type is \"rout ing\", where routing.ready or canary is known"),
            ),
            (&known[..1], &good, Some("attribute v is absent, where 1 is known")),
            (&known, "[1]", Some("payload is an array, where an object is wanted")),
            (&known, "{\n \"a\": 1,\n x", Some("payload is no JSON: key must be a string, at byte 13")),
            (&known, "", Some("payload is no JSON: EOF while parsing a value, at byte 0")),
            (&known, "{}", Some("field submission_id is absent")),
            (
                &known,
                r#"{"a":1,"submission_id":7}"#,
                Some("field submission_id, at byte 8 is a number, where a UUID is wanted"),
            ),
            (
                &known,
                r#"{"submission_id":"secret"}"#,
                Some("field submission_id, at byte 2 is a text of 6 characters and no UUID"),
            ),
        ];
        for (pairs, data, expected) in cases {
            assert_eq!(trouble(&attributes(pairs), data.as_bytes()).as_deref(), expected, "{data}");
        }
    }

    #[test]
    fn events_are_understood_with_and_without_hints() {
        let long = "f".repeat(MAX_HINT + 1);
        let cases = [
            (
                format!(r#"{{"submission_id":"{ID}","form_id":"f1","reason":"finalized"}}"#),
                Some("f1"),
                Reason::Finalized,
            ),
            (
                format!(r#"{{"submission_id":"{ID}","form_id":"f1","reason":"scan_clean"}}"#),
                Some("f1"),
                Reason::ScanClean,
            ),
            (format!(r#"{{"submission_id":"{ID}","reason":"sweep"}}"#), None, Reason::Sweep),
            (format!(r#"{{"submission_id":"{ID}","reason":"operator","more":[1]}}"#), None, Reason::Operator),
            (format!(r#"{{"submission_id":"{ID}","reason":"because"}}"#), None, Reason::Other),
            (format!(r#"{{"submission_id":"{ID}","form_id":7,"reason":{{}}}}"#), None, Reason::Other),
            (format!(r#"{{"submission_id":"{ID}","form_id":"a\nb"}}"#), None, Reason::Other),
            (format!(r#"{{"submission_id":"{ID}","form_id":""}}"#), None, Reason::Other),
            (format!(r#"{{"submission_id":"{ID}","form_id":"{long}"}}"#), None, Reason::Other),
            (format!(r#"{{"submission_id":"{}"}}"#, ID.to_uppercase()), None, Reason::Other),
        ];
        for (data, form_id, reason) in cases {
            assert_eq!(ready(&data), event(form_id, reason), "{data}");
        }
    }

    #[test]
    fn what_is_not_understood_is_poison_and_says_why() {
        let good = format!(r#"{{"submission_id":"{ID}"}}"#);
        let at_limit = format!(r#"{{"submission_id":"{ID}","x":"{}"}}"#, "y".repeat(MAX_PAYLOAD - 63));
        type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, Option<Poison>);
        let cases: &[Case] = &[
            (&[("type", "routing.ready"), ("v", "1")], &good, None),
            (&[("type", "routing.ready"), ("v", "1"), ("trace", "x")], &good, None),
            (&[], &good, Some(Poison::UnknownType)),
            (&[("v", "1")], &good, Some(Poison::UnknownType)),
            (&[("type", "routing.done"), ("v", "1")], &good, Some(Poison::UnknownType)),
            (&[("type", "routing.ready")], &good, Some(Poison::UnknownVersion)),
            (&[("type", "routing.ready"), ("v", "2")], &good, Some(Poison::UnknownVersion)),
            (&[("type", "routing.ready"), ("v", "1")], "", Some(Poison::NotAnObject)),
            (&[("type", "routing.ready"), ("v", "1")], "[]", Some(Poison::NotAnObject)),
            (&[("type", "routing.ready"), ("v", "1")], "{", Some(Poison::NotAnObject)),
            (&[("type", "routing.ready"), ("v", "1")], "{}", Some(Poison::NoSubmissionId)),
            (
                &[("type", "routing.ready"), ("v", "1")],
                r#"{"submission_id":"x"}"#,
                Some(Poison::NoSubmissionId),
            ),
            (
                &[("type", "routing.ready"), ("v", "1")],
                r#"{"submission_id":1}"#,
                Some(Poison::NoSubmissionId),
            ),
            (&[("type", "routing.ready"), ("v", "1")], &at_limit, None),
            (&[("type", "routing.ready"), ("v", "1")], &format!("{at_limit} "), Some(Poison::TooLarge)),
        ];
        assert_eq!(at_limit.len(), MAX_PAYLOAD);
        for (pairs, data, expected) in cases {
            let why = match parse(&attributes(pairs), data.as_bytes()) {
                Parsed::Event(_) => None,
                Parsed::Canary => panic!("not a canary"),
                Parsed::Poison { why, .. } => Some(why),
            };
            assert_eq!(why, *expected, "{pairs:?} {}", &data[..data.len().min(80)]);
        }
    }

    #[test]
    fn poison_shows_hash_and_length_and_no_content() {
        let parsed = ready("secret");
        assert_eq!(
            parsed,
            Parsed::Poison {
                why: Poison::NotAnObject,
                sha256: "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b".to_owned(),
                len: 6,
            }
        );
        assert!(!format!("{parsed:?}").contains("secret"));
    }

    #[test]
    fn a_canary_is_a_canary_in_any_version() {
        let (pairs, data) = encode_canary();
        assert_eq!(parse(&pairs, &data), Parsed::Canary);
        assert_eq!(parse(&attributes(&[("type", "canary"), ("v", "9")]), b"\xff"), Parsed::Canary);
    }

    #[test]
    fn the_payload_is_as_the_data_contract_shows_it() {
        let (pairs, data) = encode(&RoutingEvent {
            submission_id: ID.parse().unwrap(),
            form_id: Some("f1".to_owned()),
            reason: Reason::ScanClean,
        });
        assert_eq!(pairs, attributes(&[("type", "routing.ready"), ("v", "1")]));
        let body: Value = serde_json::from_slice(&data).unwrap();
        assert_eq!(body, serde_json::json!({"submission_id": ID, "form_id": "f1", "reason": "scan_clean"}));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            kind in prop_oneof![Just("routing.ready".to_owned()), Just("canary".to_owned()), ".*"],
            version in prop_oneof![Just("1".to_owned()), ".*"],
            data in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..512),
                r#"\{"submission_id":"[0-9a-fA-F{}-]{0,40}","form_id":.{0,20}\}"#.prop_map(String::into_bytes),
            ],
        ) {
            let parsed = parse(&attributes(&[("type", &kind), ("v", &version)]), &data);
            if let Parsed::Poison { len, sha256, .. } = parsed {
                prop_assert_eq!(len, data.len());
                prop_assert_eq!(sha256.len(), 64);
            }
        }

        #[test]
        fn what_is_encoded_is_understood(
            id in any::<u128>(),
            form_id in prop::option::of(r"\PC{1,50}"),
            reason in prop::sample::select(Reason::ALL.to_vec()),
        ) {
            let event = RoutingEvent { submission_id: Uuid::from_u128(id), form_id, reason };
            let (pairs, data) = encode(&event);
            prop_assert_eq!(parse(&pairs, &data), Parsed::Event(event));
        }
    }
}
