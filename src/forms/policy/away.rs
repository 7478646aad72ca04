//! Why there is no decision. Pure.
//!
//! Away is not denied: a denial is about the form, and its owner mends it; this is about the policy, and whoever keeps the
//! router's configuration mends it. Either way nothing is published.

use std::time::Duration;

/// Reason that the policy is away. Each message is one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Away {
    /// No directory is named.
    #[error("there is no policy: forms.policy_dir names no directory")]
    NotConfigured,
    /// The directory or one of its files could not be read.
    #[error("the policy cannot be read: {path}: {why}")]
    Unreadable {
        /// What was read.
        path: String,
        /// The system's word.
        why: String,
    },
    /// No file that decides.
    #[error("there is no policy: no file of {from} ends in .rego, hidden files and _test.rego aside")]
    Empty {
        /// The directory.
        from: String,
    },
    /// More or longer files than are read.
    #[error("the policy is too large: {what}")]
    TooLarge {
        /// What has which length, and how much may be.
        what: String,
    },
    /// The engine does not understand it.
    #[error("the policy does not compile: {at}: {what}")]
    Syntax {
        /// File, line and column, as far as the engine says them.
        at: String,
        /// The engine's word.
        what: String,
    },
    /// It compiles, and asking it could end this process or give another answer each time.
    #[error("the policy may not be asked: {at}: {what}")]
    Refused {
        /// File, line and column.
        at: String,
        /// What is in the way.
        what: String,
    },
    /// `allow` is undefined: there is no such rule in this package, or none of its bodies is true and it has no default.
    #[error("the policy says nothing: data.maple.publish.allow is undefined")]
    Undefined,
    /// `allow` is something else than true or false.
    #[error("the policy's data.maple.publish.allow is {found}, and only a boolean is an answer")]
    NotBoolean {
        /// Its type.
        found: &'static str,
    },
    /// `deny` is no set or array, or has an element that is no string.
    #[error("the policy's data.maple.publish.deny {found}, and only a set or array of strings gives reasons")]
    NotReasons {
        /// "is an object", "has a number".
        found: String,
    },
    /// Evaluation ended in an error, or in a panic of the engine.
    #[error("the policy failed: {at}: {what}")]
    Failed {
        /// File, line and column, as far as the engine says them.
        at: String,
        /// The engine's word.
        what: String,
    },
    /// Evaluation took longer than it may.
    #[error("the policy is slow: it did not answer within {} ms", .limit.as_millis())]
    Slow {
        /// Time that it had.
        limit: Duration,
    },
    /// It allows what every policy must deny.
    #[error("the policy is not to be believed: it allows {which}")]
    CanaryAllowed {
        /// What it allows.
        which: &'static str,
    },
    /// It denies what every policy must allow.
    #[error("the policy is not to be believed: it denies a form that is good{}", because(.reasons))]
    CanaryDenied {
        /// What it says of it.
        reasons: Vec<String>,
    },
}

impl Away {
    /// What to do next, as one sentence.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NotConfigured => {
                "Set [forms] policy_dir to a directory of .rego files, e.g. with contrib/policy/publish.rego."
            }
            Self::Unreadable { .. } => {
                "Let [forms] policy_dir name a directory that the router's user may read, with its files."
            }
            Self::Empty { .. } => "Put a policy there; contrib/policy/publish.rego is one to begin with.",
            Self::TooLarge { .. } => "Shorten it; data and notes belong elsewhere.",
            Self::Syntax { .. } => "Mend the line, then run maple-router policy test.",
            Self::Refused { .. } => "Write the rule without it, then run maple-router policy test.",
            Self::Undefined => {
                "Let the files be of package maple.publish, and have `default allow := false` beside `allow if { ... }`."
            }
            Self::NotBoolean { .. } => {
                "Let `allow` be a rule without value, as `allow if { ... }`, and give reasons in `deny`."
            }
            Self::NotReasons { .. } => "Write reasons as `deny contains \"text\" if { ... }`.",
            Self::Failed { .. } => {
                "Mend the line, so that it is undefined or false where a value is missing or odd, then run maple-router policy test."
            }
            Self::Slow { .. } => {
                "Look for rules that combine every element with every other, then run maple-router policy test."
            }
            Self::CanaryAllowed { .. } => {
                "Deny by default and demand each key that is read: a rule about a missing key is undefined, and denies nothing."
            }
            Self::CanaryDenied { .. } => {
                "Narrow the rule that gives these reasons, then run maple-router policy test."
            }
        }
    }
}

fn because(reasons: &[String]) -> String {
    if reasons.is_empty() { " and gives no reason".to_owned() } else { format!(": {}", reasons.join(" | ")) }
}
