//! What a policy's words mean. Pure.

use serde_json::Value;

use super::away::Away;

/// Most reasons of a decision: an owner mends ten and asks again.
const MOST_REASONS: usize = 50;
/// Longest reason, in characters.
const LONGEST_REASON: usize = 300;

/// What a proven policy says of a document. The same bundle says the same of the same document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether the version may go on.
    pub allowed: bool,
    /// Reasons against it, sorted, each once and one line; may be empty where `allow` alone said no.
    pub reasons: Vec<String>,
    /// Digest of the bundle that decided.
    pub policy: [u8; 32],
}

/// The decision in an answer: the values of `allow` and of `deny`, each in an array that is empty where it is undefined.
///
/// # Errors
/// [`Away::Undefined`], [`Away::NotBoolean`], [`Away::NotReasons`].
pub(super) fn read(allow: &[Value], deny: &[Value], policy: [u8; 32]) -> Result<Decision, Away> {
    let allow = match allow {
        [Value::Bool(allow)] => *allow,
        [] => return Err(Away::Undefined),
        [odd, ..] => return Err(Away::NotBoolean { found: kind(odd) }),
    };
    let mut reasons = match deny {
        [] => Vec::new(),
        [Value::Array(given), ..] => given.iter().map(reason).collect::<Result<Vec<_>, _>>()?,
        [odd, ..] => return Err(Away::NotReasons { found: format!("is {}", kind(odd)) }),
    };
    let allowed = allow && reasons.is_empty();
    reasons.sort_unstable();
    reasons.dedup();
    reasons.truncate(MOST_REASONS);
    Ok(Decision { allowed, reasons, policy })
}

fn reason(given: &Value) -> Result<String, Away> {
    let text = given.as_str().ok_or_else(|| Away::NotReasons { found: format!("has {}", kind(given)) })?;
    Ok(one_line(text))
}

/// `text` on one line, its blanks as one each, cut where it is longer than a reason may be: it may come from a form.
#[must_use]
pub(super) fn one_line(text: &str) -> String {
    let blank = |c: char| c.is_whitespace() || c.is_control();
    let words: Vec<&str> = text.split(blank).filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    if line.chars().count() <= LONGEST_REASON {
        return line;
    }
    line.chars().take(LONGEST_REASON - 1).chain(['\u{2026}']).collect()
}

/// Type of a value, as people say it. A set is an array by now.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a set or array",
        Value::Object(_) => "an object",
    }
}
