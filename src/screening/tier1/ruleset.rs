//! Rule sets: compiled once, named by everything that decides.
//!
//! A rule set that does not compile is one error, and nothing is scanned with it: the caller keeps the row.

use std::collections::BTreeMap;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::engine::{Engine, Spec};
use super::fault::RulesetError;
use super::fields::FieldRules;
use super::finding::Severity;
use super::gitleaks::{self, WrittenRule};
use super::policy::FieldsPolicy;
use super::tree::TreeRules;
use crate::screening::run::Profile;

/// Version of the code that decides. It goes up with every change of what a scan finds.
pub const CODE: u32 = 1;

/// What an operator adds to the rules that are built in.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Extra {
    /// Severities by id of a rule.
    severity: BTreeMap<String, Severity>,
    /// Rules in gitleaks' format, with a `severity`; without one they review.
    rules: Vec<WrittenRule>,
}

/// Rules of a profile, compiled.
pub struct Ruleset {
    profile: Profile,
    version: String,
    pub(super) rules: Compiled,
    pub(super) severity: BTreeMap<String, Severity>,
}

/// The rules, by profile.
pub(super) enum Compiled {
    Fields(Box<FieldRules>),
    Git(Box<TreeRules>),
}

impl std::fmt::Debug for Ruleset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ruleset")
            .field("profile", &self.profile)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl Ruleset {
    /// Rules that are built in, with the default policy.
    ///
    /// # Errors
    ///
    /// See [`RulesetError`].
    pub fn builtin(profile: Profile) -> Result<Self, RulesetError> {
        Self::with(profile, &FieldsPolicy::default(), "")
    }

    /// Rules that are built in, a form's policy (of no effect for [`Profile::Git`]), and an operator's document, in TOML:
    /// `[severity]` by rule id, and `[[rules]]` as gitleaks' with a `severity`.
    ///
    /// # Errors
    ///
    /// See [`RulesetError`].
    pub fn with(profile: Profile, policy: &FieldsPolicy, extra: &str) -> Result<Self, RulesetError> {
        let Extra { severity, rules } = toml::from_str(extra).map_err(|error| {
            let before = error.span().and_then(|span| extra.as_bytes().get(..span.start));
            let line = before.map(|before| memchr::memchr_iter(b'\n', before).count() + 1);
            RulesetError::document(&error, line)
        })?;
        let added = rules
            .into_iter()
            .map(|rule| rule.spec(|_| Severity::Review))
            .collect::<Result<Vec<Spec>, _>>()?;
        let own: Vec<String> = added.iter().map(|spec| spec.id.to_string()).collect();
        let added = Engine::new(added, Vec::new())?;
        let rules = match profile {
            Profile::Fields => Compiled::Fields(Box::new(FieldRules::new(policy, added)?)),
            Profile::Git => Compiled::Git(Box::new(TreeRules::new(added)?)),
        };
        let version = version(profile, policy, extra);
        let ruleset = Self { profile, version, rules, severity };
        let mut ids = ruleset.rule_ids();
        ids.sort_unstable();
        if let Some(twice) = ids.windows(2).find(|two| two[0] == two[1] && own.contains(&two[0])) {
            return Err(RulesetError::Twice { rule: twice[0].clone() });
        }
        let mut unknown = ruleset.severity.keys().filter(|id| ids.binary_search(id).is_err()).peekable();
        if unknown.peek().is_some() {
            // One document is written for both profiles.
            let other = match profile {
                Profile::Fields => Profile::Git,
                Profile::Git => Profile::Fields,
            };
            let others = Self::builtin(other)?.rule_ids();
            if let Some(nowhere) = unknown.find(|id| !others.contains(id)) {
                return Err(RulesetError::Unknown { rule: nowhere.chars().take(64).collect() });
            }
        }
        Ok(ruleset)
    }

    /// The profile.
    #[must_use]
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// 12 hexadecimal digits of the SHA-256 of everything that decides.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Ids of all rules that may be found.
    #[must_use]
    pub fn rule_ids(&self) -> Vec<String> {
        match &self.rules {
            Compiled::Fields(rules) => rules.ids(),
            Compiled::Git(rules) => rules.ids(),
        }
    }
}

/// Digest of everything that decides.
fn version(profile: Profile, policy: &FieldsPolicy, extra: &str) -> String {
    let mut sha = Sha256::new();
    let mut part = |name: &str, bytes: &[u8]| {
        sha.update((name.len() as u64).to_be_bytes());
        sha.update(name);
        sha.update((bytes.len() as u64).to_be_bytes());
        sha.update(bytes);
    };
    part("code", &CODE.to_be_bytes());
    part("profile", profile.label().as_bytes());
    match profile {
        Profile::Fields => {
            part("policy", format!("{policy:?}").as_bytes());
            FieldRules::written(&mut part);
        }
        Profile::Git => {
            part("gitleaks", gitleaks::VENDORED.as_bytes());
            TreeRules::written(&mut part);
        }
    }
    part("extra", extra.as_bytes());
    hex::encode(&sha.finalize()[..6])
}
