//! Our own rules as constants, for the same engine as gitleaks'.

use super::engine::{Engine, Spec};
use super::fault::RulesetError;
use super::finding::Severity;

/// A rule of ours. Its expression knows no case.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pattern {
    /// Id of the rule.
    pub(super) id: &'static str,
    /// Weight of it.
    pub(super) severity: Severity,
    /// Words of which one must be there, in lower case; none for "always".
    pub(super) keywords: &'static [&'static str],
    /// Expression.
    pub(super) regex: &'static str,
}

/// Compiles rules of ours.
///
/// # Errors
///
/// A rule that does not compile.
pub(super) fn engine(patterns: &[Pattern]) -> Result<Engine, RulesetError> {
    let spec = |pattern: &Pattern| Spec {
        id: pattern.id.into(),
        severity: pattern.severity,
        regex: Some(format!("(?i){}", pattern.regex)),
        path: None,
        keywords: pattern.keywords.iter().map(|&word| word.to_owned()).collect(),
        entropy: 0.0,
        secret_group: 0,
        allowlists: Vec::new(),
    };
    Engine::new(patterns.iter().map(spec).collect(), Vec::new())
}

/// Tells a digest of the rules, as they are written.
pub(super) fn written(patterns: &[Pattern], part: &mut impl FnMut(&str, &[u8])) {
    for Pattern { id, severity, keywords, regex } in patterns {
        part(id, format!("{} {keywords:?} {regex}", severity.label()).as_bytes());
    }
}
