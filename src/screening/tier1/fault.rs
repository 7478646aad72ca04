//! Why a rule set is none: one error, which names the rule and the remedy.

use crate::screening::run::Profile;

/// Why a rule set is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RulesetError {
    /// The document cannot be read.
    #[error("the rule set cannot be read: {why}{}; correct it there, nothing is screened until then",
        .line.map(|line| format!(" (line {line})")).unwrap_or_default())]
    Document {
        /// Line, where it is known.
        line: Option<usize>,
        /// What is wrong, in a line.
        why: String,
    },
    /// An expression does not compile.
    #[error(
        "rule {rule:?} does not compile: {why}; correct its expression (RE2's syntax, bytes, no look-around) or remove the rule"
    )]
    Expression {
        /// Id of the rule.
        rule: String,
        /// What is wrong, in a line.
        why: String,
    },
    /// A key has a value that there is not.
    #[error("rule {rule:?} has {key} = {value:?}, which is not known; see gitleaks' documentation of {key}")]
    Value {
        /// Id of the rule.
        rule: String,
        /// The key.
        key: &'static str,
        /// Its value, 40 characters at most.
        value: String,
    },
    /// The secret's group is not in the expression.
    #[error("rule {rule:?} has secretGroup = {group}, and its expression has no such group; correct either")]
    Group {
        /// Id of the rule.
        rule: String,
        /// The group.
        group: usize,
    },
    /// There is nothing to look for.
    #[error("rule {rule:?} has neither a regex nor a path; give it one or remove the rule")]
    Empty {
        /// Id of the rule.
        rule: String,
    },
    /// A keyword is empty.
    #[error(
        "rule {rule:?} has an empty keyword; remove the keyword, or all of them for a rule that always runs"
    )]
    Keyword {
        /// Id of the rule.
        rule: String,
    },
    /// An id is not a closed code.
    #[error("a rule has no id, or one that is not of a-z, 0-9 and -, at most 64 of them; give it one")]
    Id,
    /// Two rules have one id.
    #[error("there are two rules {rule:?}; rename the one that was added")]
    Twice {
        /// Id of the rules.
        rule: String,
    },
    /// A severity is given for a rule that there is not.
    #[error(
        "severity is given for rule {rule:?}, which is not of this profile; correct its id or remove the line"
    )]
    Unknown {
        /// Id that was given.
        rule: String,
    },
    /// A domain is none.
    #[error("{key} has an entry that is no domain below a public suffix; write it as example.org")]
    Domain {
        /// The key.
        key: &'static str,
    },
    /// The keywords are too many for one automaton.
    #[error("the rules' keywords are too many for one automaton; remove rules that were added")]
    Keywords,
    /// The rule set is one of the other profile.
    #[error("the rule set is of profile {}, and the content of the other; this is an error of the caller", .0.label())]
    Profile(Profile),
}

impl RulesetError {
    /// A document that cannot be read, told by line and cause: the document itself is not in it.
    pub(super) fn document(error: &toml::de::Error, line: Option<usize>) -> Self {
        Self::Document { line, why: error.message().lines().next().unwrap_or_default().to_owned() }
    }

    /// An expression that does not compile.
    pub(super) fn expression(rule: &str, error: &regex::Error) -> Self {
        let said = error.to_string();
        let why = said.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        Self::Expression { rule: rule.to_owned(), why }
    }
}
