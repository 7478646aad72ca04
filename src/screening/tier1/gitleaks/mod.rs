//! The reader of gitleaks' rule sets, and the vendored one (`gitleaks.toml`; its origin is told in `README.md`).
//!
//! Differences from gitleaks: a file is searched whole, `gitleaks:allow` in a line is ignored (the author of a hostile skill
//! would write it), and encoded text is not decoded.

mod severity;

use serde::Deserialize;

use super::allowlist::{Allowlist, Written};
use super::engine::{Engine, Hits, Spec};
use super::fault::RulesetError;
use super::finding::Severity;
use super::lines::Lines;

/// The vendored rule set.
pub(super) const VENDORED: &str = include_str!("gitleaks.toml");

/// A rule set as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Document {
    #[serde(rename = "title")]
    _title: String,
    allowlist: Option<Written>,
    allowlists: Vec<Written>,
    rules: Vec<WrittenRule>,
}

/// A rule as written. `severity` is ours.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct WrittenRule {
    pub(super) id: String,
    description: String,
    regex: Option<String>,
    path: Option<String>,
    entropy: f64,
    secret_group: usize,
    keywords: Vec<String>,
    tags: Vec<String>,
    allowlist: Option<Written>,
    allowlists: Vec<Written>,
    severity: Option<Severity>,
}

impl WrittenRule {
    /// The rule, with the severity that is written, or else the one given.
    ///
    /// # Errors
    ///
    /// No id, or one that is not a closed code, and an allowlist that does not compile.
    pub(super) fn spec(self, otherwise: impl Fn(&Self) -> Severity) -> Result<Spec, RulesetError> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if self.id.is_empty() || self.id.len() > 64 || !self.id.bytes().all(plain) {
            return Err(RulesetError::Id);
        }
        let severity = self.severity.unwrap_or_else(|| otherwise(&self));
        let Self {
            id,
            description: _,
            regex,
            path,
            entropy,
            secret_group,
            keywords,
            tags: _,
            allowlist,
            allowlists,
            ..
        } = self;
        let allowlists = allowlist
            .into_iter()
            .chain(allowlists)
            .map(|list| list.compiled(&id))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Spec { id: id.into(), severity, regex, path, keywords, entropy, secret_group, allowlists })
    }
}

/// Reads a rule set of gitleaks, with our severities.
///
/// # Errors
///
/// What cannot be read, and the first rule that does not compile.
pub(super) fn read(text: &str) -> Result<(Vec<Spec>, Vec<Allowlist>), RulesetError> {
    let document: Document = toml::from_str(text).map_err(|error| RulesetError::document(&error, None))?;
    let specs = document
        .rules
        .into_iter()
        .map(|rule| rule.spec(|rule| severity::of(&rule.id, rule.regex.as_deref())))
        .collect::<Result<Vec<_>, _>>()?;
    let global = document
        .allowlist
        .into_iter()
        .chain(document.allowlists)
        .map(|list| list.compiled("allowlist"))
        .collect::<Result<Vec<_>, _>>()?;
    Ok((specs, global))
}

/// Drops what a rule of ours or a precise one has found better, as gitleaks does: a generic finding whose secret is part of
/// another's that begins in the same line.
pub(super) fn without_echoes(engine: &Engine, text: &[u8], lines: &Lines<'_>, found: &mut Hits) {
    /// Precise findings of a line that are compared.
    const COMPARED: usize = 32;
    let is_generic = |rule: usize| engine.rule(rule).id.contains("generic");
    if !found.hits.iter().any(|hit| is_generic(hit.rule)) {
        return;
    }
    let mut precise: std::collections::BTreeMap<u32, Vec<std::ops::Range<usize>>> =
        std::collections::BTreeMap::new();
    for hit in found.hits.iter().filter(|hit| !is_generic(hit.rule)) {
        let of_line = precise.entry(lines.number(hit.span.start)).or_default();
        if of_line.len() < COMPARED {
            of_line.push(hit.secret.clone());
        }
    }
    found.hits.retain(|hit| {
        let echoes = |other: &std::ops::Range<usize>| {
            memchr::memmem::find(&text[other.clone()], &text[hit.secret.clone()]).is_some()
        };
        !is_generic(hit.rule)
            || !precise.get(&lines.number(hit.span.start)).is_some_and(|of_line| of_line.iter().any(echoes))
    });
}
