//! What the routing knows of a submission's grading: how far its attempt is, and the grade that its mail may show. Pure.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// An attempt at grading, in codes and counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GradingAttempt {
    /// Its id.
    pub id: Uuid,
    /// Its number, from 1.
    pub attempt: u32,
    /// Its state, as the lifecycle `grading` calls it.
    pub state: String,
    /// Since when.
    pub since: Timestamp,
    /// Whether the mail waits for the grade.
    pub gate: bool,
    /// Time by which there is a grade, or none.
    pub deadline: Timestamp,
    /// Why there is none.
    pub failed: Option<String>,
    /// Whether the mail goes without it.
    pub released: bool,
}

/// A final grade, as templates see it. It quotes what was handed in, so that its `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Grade(Value);

impl Grade {
    /// The grade in a result of schema `assessment`. What it leaves open (`null`) is not there, so that a mail that prints it has a gap
    /// and not the word for nothing.
    #[must_use]
    pub fn of(result: Value) -> Option<Self> {
        let Value::Object(mut result) = result else { return None };
        result.retain(|_, value| !value.is_null());
        Some(Self(Value::Object(result)))
    }

    /// The grade as a document.
    #[must_use]
    pub fn document(&self) -> &Value {
        &self.0
    }
}

impl fmt::Debug for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Grade(<redacted>)")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_grade_is_an_object_without_what_it_leaves_open_and_shows_nothing() {
        let grade =
            Grade::of(json!({"overallScore": 7.0, "reviewPriority": null, "band": "B2"})).expect("a grade");
        assert_eq!(*grade.document(), json!({"overallScore": 7.0, "band": "B2"}));
        assert!(!format!("{grade:?}").contains("B2"));
        assert_eq!(Grade::of(json!("7.0")), None);
    }

    #[test]
    fn an_attempt_is_read_as_the_database_writes_it() {
        let stored = json!({
            "id": Uuid::nil(), "attempt": 2, "state": "FAILED", "since": "2026-11-01T12:00:00.123456+00:00", "gate": true,
            "deadline": "2026-11-01T12:20:00+00:00", "failed": "timeout", "released": false,
        });
        let attempt: GradingAttempt = serde_json::from_value(stored).expect("an attempt");
        assert_eq!(
            (attempt.attempt, attempt.failed.as_deref(), attempt.released),
            (2, Some("timeout"), false)
        );
    }
}
