//! The version of a form that a plan is of, as the ledger names it (data contract, "The ledger").
//!
//! Invariant: no I/O here, and no step of the routing depends on a version: an entry that is none is a value
//! ([`PlanVersion::Unreadable`]) and damages nothing beside it.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// Hex digits of a digest.
const DIGEST: usize = 64;
/// Hex digits of a digest by which people tell versions apart.
const SHORT: usize = 12;

/// A version of a form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FormVersion {
    /// Id of the version.
    pub id: Uuid,
    /// Number among the versions of its form, from 1.
    pub number: u32,
    /// SHA-256 of its content, 64 hex digits in lower case.
    pub digest: String,
}

impl FormVersion {
    /// Reads a version as the ledger and the statements have it. Further keys are allowed; nothing else is.
    #[must_use]
    pub fn read(stored: &Value) -> Option<Self> {
        let text = |key| stored.get(key).and_then(Value::as_str);
        // The database counts what follows a version by this very text.
        let id = text("id").and_then(|id| id.parse().ok().filter(|read: &Uuid| read.to_string() == id))?;
        let number =
            stored.get("number").and_then(Value::as_u64).and_then(|number| number.try_into().ok())?;
        let digest = text("digest").filter(|digest| is_digest(digest))?.to_owned();
        (number > 0).then_some(Self { id, number, digest })
    }

    /// The digest's beginning, for people.
    #[must_use]
    pub fn short_digest(&self) -> &str {
        self.digest.get(..SHORT).unwrap_or(&self.digest)
    }
}

fn is_digest(text: &str) -> bool {
    text.len() == DIGEST && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The version of a pinned plan, as far as the ledger tells it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PlanVersion {
    /// The form was not managed when the plan was pinned, or no plan is.
    #[default]
    None,
    /// The plan is of this version.
    Known(FormVersion),
    /// The entry is no version. It stays as it is until a plan is taken anew.
    Unreadable,
}

impl PlanVersion {
    /// The version, where it is known.
    #[must_use]
    pub fn known(&self) -> Option<&FormVersion> {
        match self {
            Self::Known(version) => Some(version),
            Self::None | Self::Unreadable => None,
        }
    }
}

impl From<Option<FormVersion>> for PlanVersion {
    fn from(version: Option<FormVersion>) -> Self {
        version.map_or(Self::None, Self::Known)
    }
}

impl<'de> Deserialize<'de> for PlanVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored = Value::deserialize(deserializer)?;
        Ok(FormVersion::read(&stored).map_or(Self::Unreadable, Self::Known))
    }
}

/// The version that a form follows at present.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CurrentVersion {
    /// The version.
    #[serde(flatten)]
    pub version: FormVersion,
    /// Time since which the form follows it.
    pub since: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_whole_version_is_one() {
        let whole =
            json!({"id": "00000000-0000-0000-0000-00000000000a", "number": 3, "digest": "1a".repeat(32)});
        let read = FormVersion::read(&whole).expect("a version");
        assert_eq!((read.number, read.short_digest()), (3, "1a1a1a1a1a1a"));
        assert_eq!(json!(read), whole, "as it was");
        let mut more = whole.clone();
        more["signed_by"] = json!("somebody");
        assert_eq!(FormVersion::read(&more), Some(read), "a later version of this program may say more");
        for (key, value) in [
            ("id", json!("0000000000000000000000000000000a")),
            ("id", json!("00000000-0000-0000-0000-00000000000A")),
            ("id", json!(7)),
            ("number", json!(0)),
            ("number", json!(-1)),
            ("number", json!(1.5)),
            ("number", json!("3")),
            ("number", json!(4_294_967_296_u64)),
            ("digest", json!("1A".repeat(32))),
            ("digest", json!("1a".repeat(31))),
            ("digest", json!("é".repeat(32))),
            ("digest", json!(null)),
        ] {
            let mut spoiled = whole.clone();
            spoiled[key] = value;
            assert_eq!(FormVersion::read(&spoiled), None, "{spoiled}");
        }
        for none in [json!(null), json!([]), json!("3"), json!({})] {
            assert_eq!(FormVersion::read(&none), None, "{none}");
        }
    }
}
