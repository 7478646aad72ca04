//! Rules with keywords over a whole text: one automaton finds the keywords, then the rules whose keyword is there run.
//!
//! Linear in the text: every rule searches it at most once from its start, and gives up after [`MATCHES`] matches, which the
//! caller is told of. Never a window: a rule may need what stands far apart.

use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind, MatchKind};
use regex::bytes::Regex;

use super::allowlist::{Allowlist, Candidate};
use super::collect::RuleId;
use super::fault::RulesetError;
use super::finding::{Severity, Work};
use super::lines::Lines;
use super::re2::compile;

/// Matches of one rule in one text that are looked at.
pub(super) const MATCHES: usize = 1_000;
/// Bytes of a line, before and after a match, that an allowlist of lines sees.
pub(super) const AROUND: usize = 4 * 1024;

/// A rule as written.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    /// Its id.
    pub(super) id: RuleId,
    /// Weight of what it finds.
    pub(super) severity: Severity,
    /// Expression; a rule without one is about paths only.
    pub(super) regex: Option<String>,
    /// Expression of the paths that it looks at.
    pub(super) path: Option<String>,
    /// Words of which one must be there, in lower case; none for "always".
    pub(super) keywords: Vec<String>,
    /// The secret must have more than this many bits a character.
    pub(super) entropy: f64,
    /// Group that is the secret; 0 for the first that is not empty.
    pub(super) secret_group: usize,
    /// What is none.
    pub(super) allowlists: Vec<Allowlist>,
}

/// A compiled rule.
pub(super) struct Rule {
    pub(super) id: RuleId,
    pub(super) severity: Severity,
    regex: Option<Regex>,
    path: Option<Regex>,
    entropy: f64,
    secret_group: usize,
    allowlists: Vec<Allowlist>,
}

/// Rules that are looked for together.
pub(super) struct Engine {
    keywords: Option<AhoCorasick>,
    of_keyword: Vec<Vec<usize>>,
    always: Vec<usize>,
    rules: Vec<Rule>,
    global: Vec<Allowlist>,
}

/// A match. Never printed: it is the offset of a secret.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Hit {
    /// Number of the rule.
    pub(super) rule: usize,
    /// The whole match, without line ends around it.
    pub(super) span: Range<usize>,
    /// The secret in it.
    pub(super) secret: Range<usize>,
}

/// What a search gave.
#[derive(Default)]
pub(super) struct Hits {
    /// The matches, by rule and place.
    pub(super) hits: Vec<Hit>,
    /// Rules about the path alone that matched.
    pub(super) paths: Vec<usize>,
    /// Whether a rule gave up.
    pub(super) gave_up: bool,
}

impl Engine {
    /// Compiles the rules.
    ///
    /// # Errors
    ///
    /// The first rule that does not compile.
    pub(super) fn new(specs: Vec<Spec>, global: Vec<Allowlist>) -> Result<Self, RulesetError> {
        let mut words: Vec<String> = Vec::new();
        let mut of_keyword: Vec<Vec<usize>> = Vec::new();
        let mut always = Vec::new();
        let mut rules = Vec::new();
        for (number, spec) in specs.into_iter().enumerate() {
            if spec.keywords.is_empty() {
                always.push(number);
            }
            for word in &spec.keywords {
                let word = word.to_ascii_lowercase();
                if word.is_empty() {
                    return Err(RulesetError::Keyword { rule: spec.id.into_owned() });
                }
                if let Some(at) = words.iter().position(|known| *known == word) {
                    of_keyword[at].push(number);
                } else {
                    words.push(word);
                    of_keyword.push(vec![number]);
                }
            }
            rules.push(Rule::new(spec)?);
        }
        let keywords = if words.is_empty() { None } else { Some(automaton(&words)?) };
        Ok(Self { keywords, of_keyword, always, rules, global })
    }

    /// A rule by its number.
    pub(super) fn rule(&self, number: usize) -> &Rule {
        &self.rules[number]
    }

    /// Ids of all rules.
    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| rule.id.as_ref())
    }

    /// Looks through a text. `path` is empty for what is no file.
    pub(super) fn search(&self, path: &str, text: &[u8], lines: &Lines<'_>, work: &mut Work) -> Hits {
        let mut found = Hits::default();
        if self.global.iter().any(|list| list.allows_path(path)) {
            return found;
        }
        for number in self.wanted(text, work) {
            let rule = &self.rules[number];
            if rule.allowlists.iter().any(|list| list.allows_path(path)) {
                continue;
            }
            if let Some(wanted) = &rule.path
                && (path.is_empty() || !wanted.is_match(path.as_bytes()))
            {
                continue;
            }
            match &rule.regex {
                None => found.paths.push(number),
                Some(regex) => {
                    work.bytes += text.len() as u64;
                    for (looked_at, whole) in regex.find_iter(text).enumerate() {
                        if looked_at == MATCHES {
                            found.gave_up = true;
                            break;
                        }
                        work.matches += 1;
                        let hit = rule.hit(number, regex, text, whole.range());
                        if self.counts(rule, path, text, lines, &hit) {
                            found.hits.push(hit);
                        }
                    }
                }
            }
        }
        found
    }

    /// Numbers of the rules to run, in order: those without keywords, and those whose keyword is there.
    fn wanted(&self, text: &[u8], work: &mut Work) -> Vec<usize> {
        let mut wanted = vec![false; self.rules.len()];
        for number in &self.always {
            wanted[*number] = true;
        }
        if let Some(keywords) = &self.keywords {
            work.bytes += text.len() as u64;
            let mut seen = vec![false; self.of_keyword.len()];
            for found in keywords.find_overlapping_iter(text) {
                let at = found.pattern().as_usize();
                if !std::mem::replace(&mut seen[at], true) {
                    for number in &self.of_keyword[at] {
                        wanted[*number] = true;
                    }
                }
            }
        }
        wanted.iter().enumerate().filter_map(|(number, wanted)| wanted.then_some(number)).collect()
    }

    /// Whether a match is one: its entropy is high enough, and no allowlist has it.
    fn counts(&self, rule: &Rule, path: &str, text: &[u8], lines: &Lines<'_>, hit: &Hit) -> bool {
        let secret = &text[hit.secret.clone()];
        // As gitleaks: a secret at the limit is none.
        if rule.entropy > 0.0 && entropy(secret) <= rule.entropy {
            return false;
        }
        let line = || lines.around(hit.span.start, AROUND);
        let candidate = Candidate { path, secret, whole: &text[hit.span.clone()], line: &line };
        !self.global.iter().chain(&rule.allowlists).any(|list| list.allows(&candidate))
    }
}

impl Rule {
    /// Compiles a rule.
    fn new(spec: Spec) -> Result<Self, RulesetError> {
        let Spec { id, severity, regex, path, keywords: _, entropy, secret_group, allowlists } = spec;
        let regex = regex.map(|expression| compile(&id, &expression)).transpose()?;
        let path = path.map(|expression| compile(&id, &expression)).transpose()?;
        if regex.is_none() && path.is_none() {
            return Err(RulesetError::Empty { rule: id.into_owned() });
        }
        if regex.as_ref().is_some_and(|regex| secret_group >= regex.captures_len()) {
            return Err(RulesetError::Group { rule: id.into_owned(), group: secret_group });
        }
        Ok(Self { id, severity, regex, path, entropy, secret_group, allowlists })
    }

    /// The secret of a match: the group of the rule, else the first group that is not empty, else all of it.
    ///
    /// As gitleaks, groups are those of the match by itself, without the text around it.
    fn hit(&self, number: usize, regex: &Regex, text: &[u8], whole: Range<usize>) -> Hit {
        let mut span = whole;
        while span.start < span.end && text[span.start] == b'\n' {
            span.start += 1;
        }
        while span.start < span.end && text[span.end - 1] == b'\n' {
            span.end -= 1;
        }
        let mut secret = span.clone();
        if regex.captures_len() > 1
            && let Some(groups) = regex.captures(&text[span.clone()])
        {
            let group = if self.secret_group > 0 {
                groups.get(self.secret_group)
            } else {
                groups.iter().skip(1).flatten().find(|group| !group.is_empty())
            };
            if let Some(group) = group {
                secret = span.start + group.start()..span.start + group.end();
            }
        }
        Hit { rule: number, span, secret }
    }
}

/// Automaton of the keywords, whatever their case.
fn automaton(words: &[String]) -> Result<AhoCorasick, RulesetError> {
    AhoCorasickBuilder::new()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::Standard)
        .kind(Some(AhoCorasickKind::DFA))
        .build(words)
        .map_err(|_| RulesetError::Keywords)
}

/// Shannon's entropy, in bits a byte.
fn entropy(secret: &[u8]) -> f64 {
    if secret.is_empty() {
        return 0.0;
    }
    let mut counts = [0_u32; 256];
    for byte in secret {
        counts[usize::from(*byte)] += 1;
    }
    let share = 1.0 / secret.len() as f64;
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| f64::from(*count) * share)
        .map(|p| -p * p.log2())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(id: &'static str, regex: &str, keywords: &[&str]) -> Spec {
        Spec {
            id: id.into(),
            severity: Severity::Block,
            regex: Some(regex.to_owned()),
            path: None,
            keywords: keywords.iter().map(|&word| word.to_owned()).collect(),
            entropy: 0.0,
            secret_group: 0,
            allowlists: Vec::new(),
        }
    }

    fn search(engine: &Engine, text: &[u8]) -> Hits {
        engine.search("a.txt", text, &Lines::of(text), &mut Work::default())
    }

    #[test]
    fn entropy_is_shannons() {
        assert!(entropy(b"aaaa").abs() < 1e-9);
        assert!((entropy(b"abcd") - 2.0).abs() < 1e-9);
        assert!((entropy(b"aabb") - 1.0).abs() < 1e-9);
    }

    #[test]
    fn keywords_that_overlap_each_wake_their_rule() {
        let engine =
            Engine::new(vec![spec("a", "key_live", &["key"]), spec("b", "y_li", &["y_li"])], Vec::new())
                .unwrap();
        let found = search(&engine, b"some KEY_live key_live");
        assert_eq!(found.hits.iter().map(|hit| hit.rule).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn a_rule_gives_up_and_says_so() {
        let engine = Engine::new(vec![spec("a", "x", &["x"])], Vec::new()).unwrap();
        let found = search(&engine, &vec![b'x'; MATCHES + 1]);
        assert!(found.gave_up);
        assert_eq!(found.hits.len(), MATCHES);
        assert!(!search(&engine, &vec![b'x'; MATCHES]).gave_up);
    }

    #[test]
    fn the_first_group_that_is_not_empty_is_the_secret() {
        let engine = Engine::new(vec![spec("a", "k=(a*)(b+);", &["k="])], Vec::new()).unwrap();
        let text = b"...k=bb;";
        let found = search(&engine, text);
        assert_eq!(&text[found.hits[0].secret.clone()], b"bb");
        assert_eq!(&text[found.hits[0].span.clone()], b"k=bb;");
    }
}
