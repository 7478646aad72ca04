//! A reason why a configuration cannot work, with its remedy.

use std::fmt;

/// Something that keeps the daemon from starting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The keys concerned with their values, as `section.key`.
    pub keys: Vec<(String, String)>,
    /// The rule that is broken, or the missing value.
    pub rule: String,
    /// Remedy.
    pub remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        write!(f, "{}: {}; {}", keys.join(", "), self.rule, self.remedy)
    }
}
