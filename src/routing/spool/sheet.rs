//! Content of one spool file: the facts of one send, as they are to be recorded.
//!
//! Invariant: nothing here does I/O. A file is believed only where its version is ours and every part that a record needs is
//! there; any other file is set aside by the caller, never dropped.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// File version written and understood.
const VERSION: u64 = 1;

/// Facts of one send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sheet {
    v: u64,
    /// The submission.
    pub submission_id: Uuid,
    /// Token of the claim under which the facts happened.
    pub token: String,
    /// `{key: {fact, audit}}`, as the store records them.
    pub facts: Map<String, Value>,
}

impl Sheet {
    /// The facts of a send; `None` where there are none.
    #[must_use]
    pub fn of(submission_id: Uuid, token: &str, facts: &Map<String, Value>) -> Option<Self> {
        (!facts.is_empty()).then(|| Self {
            v: VERSION,
            submission_id,
            token: token.to_owned(),
            facts: facts.clone(),
        })
    }

    /// Name of the file, made of the submission and the send's nonce: the same send is the same file.
    #[must_use]
    pub fn file_name(&self) -> String {
        let nonce = self.facts.values().next().and_then(|fact| fact["fact"]["nonce"].as_str());
        let nonce: String = nonce.unwrap_or_default().chars().filter(char::is_ascii_alphanumeric).collect();
        format!("{}.{nonce}.json", self.submission_id)
    }

    /// The file's content.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        serde_json::json!(self).to_string().into_bytes()
    }

    /// Reads a file's content.
    ///
    /// # Errors
    /// The fault of the content, without a quotation from it.
    pub fn decode(content: &[u8]) -> Result<Self, String> {
        let value: Value =
            serde_json::from_slice(content).map_err(|error| format!("it is no JSON: {error}"))?;
        match value["v"].as_u64() {
            Some(VERSION) => {}
            Some(other) => return Err(format!("it is of version {other}, this program knows {VERSION}")),
            None => return Err("it has no version".to_owned()),
        }
        let sheet: Self =
            serde_json::from_value(value).map_err(|_| "its parts are not those of a spool file")?;
        let is_whole = |entry: &Value| {
            let fact = &entry["fact"];
            fact["state"] == "accepted" && fact["nonce"].is_string() && entry["audit"].is_object()
        };
        if sheet.facts.is_empty() || !sheet.facts.values().all(is_whole) {
            return Err("a fact in it is incomplete".to_owned());
        }
        if content_has_nul(&sheet.facts) {
            return Err("a text in it holds a NUL, which no database takes".to_owned());
        }
        if !sheet.facts.keys().all(|key| crate::routing::submission::ledger::order_of(key).is_some()) {
            return Err("a fact in it names no delivery".to_owned());
        }
        Ok(sheet)
    }
}

/// Whether a key or a text contains U+0000, which jsonb cannot.
fn content_has_nul(facts: &Map<String, Value>) -> bool {
    fn is_in(value: &Value) -> bool {
        match value {
            Value::String(text) => text.contains('\0'),
            Value::Array(values) => values.iter().any(is_in),
            Value::Object(map) => content_has_nul(map),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
    facts.iter().any(|(key, value)| key.contains('\0') || is_in(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn facts() -> Map<String, Value> {
        let fact = json!({"fact": {"state": "accepted", "nonce": "n1", "token": "t"}, "audit": {"v": 1}});
        let Value::Object(facts) = json!({"1|a@x.test": fact}) else { unreachable!("an object") };
        facts
    }

    #[test]
    fn what_is_written_is_read_and_one_send_is_one_file() {
        let sheet = Sheet::of(Uuid::nil(), "t", &facts()).expect("facts");
        assert_eq!(Sheet::decode(&sheet.encode()), Ok(sheet.clone()));
        assert_eq!(sheet.file_name(), format!("{}.n1.json", Uuid::nil()));
        assert_eq!(Sheet::of(Uuid::nil(), "t", &Map::new()), None);
    }

    #[test]
    fn anything_else_is_not_believed() {
        let good: Value =
            serde_json::from_slice(&Sheet::of(Uuid::nil(), "t", &facts()).expect("facts").encode())
                .expect("JSON");
        let without = |path: &str| {
            let mut broken = good.clone();
            let (parent, name) = path.rsplit_once('/').expect("a path");
            broken.pointer_mut(parent).and_then(Value::as_object_mut).expect("an object").remove(name);
            broken
        };
        let mut newer = good.clone();
        newer["v"] = json!(2);
        let mut nameless = good.clone();
        nameless["facts"] = json!({"a@x.test": good["facts"]["1|a@x.test"]});
        let mut with_nul = good.clone();
        with_nul["facts"]["1|a@x.test"]["fact"]["queue_id"] = json!("4\0X");
        for broken in [
            json!([]),
            with_nul,
            newer,
            nameless,
            without("/v"),
            without("/submission_id"),
            without("/facts"),
            without("/facts/1|a@x.test"),
            without("/facts/1|a@x.test/audit"),
            without("/facts/1|a@x.test/fact/nonce"),
            without("/facts/1|a@x.test/fact/state"),
        ] {
            assert!(Sheet::decode(broken.to_string().as_bytes()).is_err(), "{broken}");
        }
        let half = good.to_string();
        assert!(Sheet::decode(&half.as_bytes()[..half.len() / 2]).is_err());
        assert!(Sheet::decode(b"").is_err());
    }
}
