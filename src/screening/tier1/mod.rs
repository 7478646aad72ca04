//! Tier 1 of screening: a pure function of the content and the rule set.
//!
//! Invariant: nothing below does I/O, reads a clock or rolls a die, and no finding, error or `Debug` output has matched text.
//! If a scan never ends (it should not: every search is linear, and gives up after so many matches), the job's lease does.
//!
//! Reading order: [`scan`] → `tree` or `fields` (what is looked for) → `engine` (how) → `collect` (what may be shown of it) →
//! [`finding`] (what follows).

mod allowlist;
mod collect;
mod content;
mod engine;
mod fault;
mod fields;
pub mod finding;
mod gitleaks;
mod hidden;
mod injection;
mod lines;
mod pattern;
mod policy;
mod re2;
mod ruleset;
mod tree;
pub mod wire;

pub use content::{Content, Fields, File, Mode, Tree};
pub use fault::RulesetError;
pub use finding::{Dropped, Finding, Reason, Report, Severity, Verdict, Waiver, Work, bars};
pub use policy::FieldsPolicy;
pub use ruleset::{CODE, Ruleset};

pub use super::run::{Bar, Profile};

use ruleset::Compiled;

/// Screens a content. `same_digest_in_hour`: how often this very content came within an hour, this time among them; of no
/// effect for a tree.
///
/// # Errors
///
/// [`RulesetError::Profile`] where the rule set is one of the other profile: nothing was screened.
pub fn scan(content: &Content, ruleset: &Ruleset, same_digest_in_hour: u32) -> Result<Report, RulesetError> {
    match (content, &ruleset.rules) {
        (Content::Fields(fields), Compiled::Fields(rules)) => {
            Ok(rules.scan(fields, same_digest_in_hour, &ruleset.severity))
        }
        (Content::Tree(tree), Compiled::Git(rules)) => Ok(rules.scan(tree, &ruleset.severity)),
        (Content::Fields(_), Compiled::Git(_)) | (Content::Tree(_), Compiled::Fields(_)) => {
            Err(RulesetError::Profile(ruleset.profile()))
        }
    }
}
