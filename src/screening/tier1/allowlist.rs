//! What is no secret, as gitleaks says it: expressions, paths and stop words, of which one is enough, or all are needed.

use regex::bytes::Regex;
use serde::Deserialize;

use super::fault::RulesetError;
use super::re2::compile;

/// An allowlist as written. Commits are read and ignored: a tree has none.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct Written {
    description: String,
    condition: Option<String>,
    commits: Vec<String>,
    paths: Vec<String>,
    regex_target: Option<String>,
    regexes: Vec<String>,
    stopwords: Vec<String>,
}

/// A compiled allowlist.
#[derive(Debug, Clone)]
pub(super) struct Allowlist {
    all: bool,
    target: Target,
    paths: Vec<Regex>,
    regexes: Vec<Regex>,
    stopwords: Vec<String>,
}

/// What expressions are matched with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Secret,
    Match,
    Line,
}

/// A match that may be none.
pub(super) struct Candidate<'a> {
    /// Path of the file.
    pub(super) path: &'a str,
    /// The secret.
    pub(super) secret: &'a [u8],
    /// The whole match.
    pub(super) whole: &'a [u8],
    /// The line that it begins in.
    pub(super) line: &'a dyn Fn() -> &'a [u8],
}

impl Written {
    /// Compiles the allowlist of a rule, or of all (`allowlist`).
    ///
    /// # Errors
    ///
    /// An expression that does not compile, and a condition or a target that there is not.
    pub(super) fn compiled(self, rule: &str) -> Result<Allowlist, RulesetError> {
        let Self { description: _, condition, commits: _, paths, regex_target, regexes, stopwords } = self;
        let unknown = |key, value: &str| RulesetError::Value {
            rule: rule.to_owned(),
            key,
            value: value.chars().take(40).collect(),
        };
        let all = match condition.as_deref().map(str::to_ascii_uppercase).as_deref() {
            None | Some("" | "OR" | "||") => false,
            Some("AND" | "&&") => true,
            Some(other) => return Err(unknown("condition", other)),
        };
        let target = match regex_target.as_deref() {
            None | Some("" | "secret") => Target::Secret,
            Some("match") => Target::Match,
            Some("line") => Target::Line,
            Some(other) => return Err(unknown("regexTarget", other)),
        };
        let compiled = |expressions: Vec<String>| {
            expressions.iter().map(|expression| compile(rule, expression)).collect::<Result<Vec<_>, _>>()
        };
        Ok(Allowlist {
            all,
            target,
            paths: compiled(paths)?,
            regexes: compiled(regexes)?,
            stopwords: stopwords.iter().map(|word| word.to_ascii_lowercase()).collect(),
        })
    }
}

impl Allowlist {
    /// Whether the path alone is enough.
    pub(super) fn allows_path(&self, path: &str) -> bool {
        let alone = !self.all || (self.regexes.is_empty() && self.stopwords.is_empty());
        alone && self.has_path(path)
    }

    /// Whether the match is none.
    pub(super) fn allows(&self, candidate: &Candidate<'_>) -> bool {
        let path = || self.has_path(candidate.path);
        let regex = || self.has_expression(candidate);
        let word = || self.has_stopword(candidate.secret);
        if self.all {
            let any = !self.paths.is_empty() || !self.regexes.is_empty() || !self.stopwords.is_empty();
            any && (self.paths.is_empty() || path())
                && (self.regexes.is_empty() || regex())
                && (self.stopwords.is_empty() || word())
        } else {
            path() || regex() || word()
        }
    }

    fn has_path(&self, path: &str) -> bool {
        !path.is_empty() && self.paths.iter().any(|wanted| wanted.is_match(path.as_bytes()))
    }

    fn has_expression(&self, candidate: &Candidate<'_>) -> bool {
        let text = match self.target {
            _ if self.regexes.is_empty() => return false,
            Target::Secret => candidate.secret,
            Target::Match => candidate.whole,
            Target::Line => (candidate.line)(),
        };
        self.regexes.iter().any(|regex| regex.is_match(text))
    }

    fn has_stopword(&self, secret: &[u8]) -> bool {
        if self.stopwords.is_empty() {
            return false;
        }
        let secret = secret.to_ascii_lowercase();
        self.stopwords.iter().any(|word| memchr::memmem::find(&secret, word.as_bytes()).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Allowlist {
        toml::from_str::<Written>(text).unwrap().compiled("r").unwrap()
    }

    fn candidate<'a>(path: &'a str, secret: &'a [u8], line: &'a dyn Fn() -> &'a [u8]) -> Candidate<'a> {
        Candidate { path, secret, whole: b"token = abc", line }
    }

    #[test]
    fn one_is_enough_unless_all_are_needed() {
        let line = || b"# LICENSE = token = abc".as_slice();
        let or = list("paths = ['\\.bb$']\nregexes = ['^abc$']");
        assert!(or.allows(&candidate("a.bb", b"xyz", &line)));
        assert!(or.allows(&candidate("a.rs", b"abc", &line)));
        assert!(!or.allows(&candidate("a.rs", b"abcd", &line)));
        let and = list("condition = 'AND'\npaths = ['\\.bb$']\nregexTarget = 'line'\nregexes = ['LICENSE']");
        assert!(and.allows(&candidate("a.bb", b"abc", &line)));
        assert!(!and.allows(&candidate("a.rs", b"abc", &line)));
        assert!(!and.allows_path("a.bb"), "the line is needed, too");
        assert!(or.allows_path("a.bb"));
    }

    #[test]
    fn targets_and_stop_words() {
        let line = || b"whole line".as_slice();
        assert!(list("regexTarget = 'match'\nregexes = ['token']").allows(&candidate("a", b"abc", &line)));
        assert!(!list("regexes = ['token']").allows(&candidate("a", b"abc", &line)));
        assert!(list("stopwords = ['Example']").allows(&candidate("a", b"my-EXAMPLE-1", &line)));
        assert!(!list("").allows(&candidate("a", b"abc", &line)));
        assert!(!list("condition = 'AND'").allows(&candidate("a", b"abc", &line)));
    }

    #[test]
    fn an_unknown_target_is_refused() {
        for text in ["regexTarget = 'page'", "condition = 'XOR'", "regexes = ['(']"] {
            assert!(toml::from_str::<Written>(text).unwrap().compiled("r").is_err(), "{text}");
        }
    }
}
