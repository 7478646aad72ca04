//! Tier 1 of a skill repository: every file, in the order of its path.

mod binary;
mod commands;
mod context;
mod privilege;
mod prose;
mod threats;

use std::collections::BTreeMap;
use std::ops::Range;

use super::collect::{Collector, Items};
use super::content::{File, Mode, Tree};
use super::engine::{Engine, Rule};
use super::fault::RulesetError;
use super::finding::{Report, Severity};
use super::lines::Lines;
use super::pattern::{self, Pattern};
use super::{gitleaks, hidden, injection};
use binary::Bytes;
use context::{Context, Kind};

/// Bytes of a file that are searched; a larger one is unreadable, too.
const LARGEST: usize = 1024 * 1024;

/// Rules that are no pattern.
const OTHERS: [&str; 14] = [
    "bidi-characters",
    "executable-class",
    "executable-elf",
    "executable-mach-o",
    "executable-pe",
    HIDDEN_TEXT,
    "path-hostile",
    privilege::BASH,
    privilege::EVERY_TOOL,
    privilege::FRONT_MATTER,
    "symlink-out-of-tree",
    "tag-characters",
    "too-many-matches",
    UNREADABLE,
];
/// Runs of zero-width characters.
const HIDDEN_TEXT: &str = "hidden-text";
/// What cannot be read.
const UNREADABLE: &str = "unreadable";

/// Rules of a tree.
pub(crate) struct TreeRules {
    secrets: Engine,
    own: Engine,
    added: Engine,
    context: Context,
}

/// Our own patterns, in the order of [`group`].
fn patterns() -> Vec<Pattern> {
    [&commands::PATTERNS[..], &threats::PATTERNS[..], &privilege::PATTERNS[..], &injection::PATTERNS[..]]
        .concat()
}

/// What a pattern of ours is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Command,
    Privilege,
    Injection,
}

/// Group of a pattern, by its number.
fn group(rule: usize) -> Group {
    let commands = commands::PATTERNS.len() + threats::PATTERNS.len();
    if rule < commands {
        Group::Command
    } else if rule < commands + privilege::PATTERNS.len() {
        Group::Privilege
    } else {
        Group::Injection
    }
}

impl TreeRules {
    /// Compiles the rules.
    ///
    /// # Errors
    ///
    /// The first that does not compile.
    pub(super) fn new(added: Engine) -> Result<Self, RulesetError> {
        let (specs, global) = gitleaks::read(gitleaks::VENDORED)?;
        let secrets = Engine::new(specs, global)?;
        Ok(Self { secrets, own: pattern::engine(&patterns())?, added, context: Context::new()? })
    }

    /// Ids of all rules.
    pub(super) fn ids(&self) -> Vec<String> {
        let engines = self.secrets.ids().chain(self.own.ids()).chain(self.added.ids());
        engines.chain(OTHERS).map(str::to_owned).collect()
    }

    /// Tells a digest of the rules, as they are written.
    pub(super) fn written(part: &mut impl FnMut(&str, &[u8])) {
        pattern::written(&patterns(), part);
    }

    /// Screens a tree.
    pub(super) fn scan(&self, tree: &Tree, severity: &BTreeMap<String, Severity>) -> Report {
        let mut files: Vec<&File> = tree.files.iter().collect();
        files.sort_by(|a, b| a.path.cmp(&b.path).then_with(|| a.bytes.cmp(&b.bytes)));
        let mut found = Collector::new(severity);
        for (file, number) in files.iter().zip(1..) {
            self.path(file, number, &mut found);
            match file.mode {
                Mode::Symlink => symlink(file, number, &mut found),
                Mode::Regular | Mode::Executable => self.file(file, number, &mut found),
            }
        }
        let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        found.report(Items::Files, &names)
    }

    /// The path itself: what is in it would be shown wherever a place is.
    fn path(&self, file: &File, number: u32, found: &mut Collector<'_>) {
        let text = file.path.as_bytes();
        let lines = Lines::of(text);
        for engine in [&self.secrets, &self.added] {
            for hit in engine.search("", text, &lines, &mut found.work).hits {
                let rule = engine.rule(hit.rule);
                found.add(rule.id.clone(), rule.severity, number, 0);
                found.secret(&text[hit.secret]);
                found.conceal(number);
            }
        }
        let read = hidden::seen(&file.path).replace(['-', '_', '/', '.'], " ");
        for hit in self.own.search("", read.as_bytes(), &Lines::of(read.as_bytes()), &mut found.work).hits {
            if group(hit.rule) == Group::Injection {
                let rule = self.own.rule(hit.rule);
                found.add(rule.id.clone(), rule.severity, number, 0);
                found.injection = true;
                found.conceal(number);
            }
        }
        if file.path.chars().any(|c| c.is_control() || hidden::is_invisible(c)) {
            found.add("path-hostile", Severity::Review, number, 0);
        }
        if let Some(rule) = privilege::by_path(&file.path) {
            found.add(rule, Severity::Note, number, 0);
            found.privileged = true;
        }
    }

    /// A file that is no symlink.
    fn file(&self, file: &File, number: u32, found: &mut Collector<'_>) {
        let searched = &file.bytes[..file.bytes.len().min(LARGEST)];
        let look = binary::look(&file.path, &file.bytes);
        match look {
            Bytes::Executable(rule) => found.add(rule, Severity::Block, number, 0),
            Bytes::Unreadable => unreadable(number, found),
            Bytes::Text | Bytes::Harmless => {}
        }
        if searched.len() < file.bytes.len() && look == Bytes::Text {
            unreadable(number, found);
        }
        let lines = Lines::of(searched);
        self.secrets(file, number, searched, &lines, found);
        if look == Bytes::Text {
            self.text(file, number, &text_of(searched), found);
        }
    }

    /// Secrets, of text and of anything else.
    fn secrets(&self, file: &File, number: u32, bytes: &[u8], lines: &Lines<'_>, found: &mut Collector<'_>) {
        for engine in [&self.secrets, &self.added] {
            let mut hits = engine.search(&file.path, bytes, lines, &mut found.work);
            gitleaks::without_echoes(engine, bytes, lines, &mut hits);
            if hits.gave_up {
                found.add("too-many-matches", Severity::Review, number, 0);
            }
            for rule in hits.paths.into_iter().map(|rule| engine.rule(rule)) {
                found.add(rule.id.clone(), rule.severity, number, 0);
            }
            for hit in hits.hits {
                let rule = engine.rule(hit.rule);
                found.add(rule.id.clone(), rule.severity, number, lines.number(hit.span.start));
                found.secret(&bytes[hit.secret]);
            }
        }
    }

    /// Everything else of a text.
    fn text(&self, file: &File, number: u32, text: &str, found: &mut Collector<'_>) {
        hidden_characters(text, number, found);
        let kind = context::kind(&file.path, text.as_bytes());
        let read = hidden::seen(text);
        for rule in privilege::front_matter(kind, &read) {
            let severity = if rule == privilege::FRONT_MATTER { Severity::Review } else { Severity::Note };
            found.add(rule, severity, number, 1);
            found.privileged |= rule != privilege::FRONT_MATTER;
        }
        let read = read.as_bytes();
        let lines = Lines::of(read);
        let hits = self.own.search(&file.path, read, &lines, &mut found.work);
        if hits.gave_up {
            found.add("too-many-matches", Severity::Review, number, 0);
        }
        let mut prose = None;
        let mut told = Told::default();
        for hit in hits.hits {
            let rule = self.own.rule(hit.rule);
            let severity = match group(hit.rule) {
                Group::Command => self.command(kind, rule, read, &lines, &hit.span),
                Group::Injection => {
                    found.injection = true;
                    let prose = prose.get_or_insert_with(|| prose::Prose::of(read));
                    let hidden = prose.hides(&hit.span);
                    let ordered = match kind {
                        Kind::Instructions if !hidden => {
                            !prose.quotes(&lines, &hit.span)
                                && !self.context.mentioned(kind, read, &lines, &hit.span)
                        }
                        Kind::Instructions => true,
                        Kind::Documentation => hidden,
                        Kind::History | Kind::Shell | Kind::Settings | Kind::Ignored | Kind::Code => false,
                    };
                    if ordered && told.blocks(&rule.id, hidden) { Severity::Block } else { rule.severity }
                }
                Group::Privilege => {
                    if kind == Kind::Ignored || prose::is_about_ignoring(lines.around(hit.span.start, 200)) {
                        continue;
                    }
                    found.privileged = true;
                    rule.severity
                }
            };
            found.add(rule.id.clone(), severity, number, lines.number(hit.span.start));
        }
    }

    /// Severity of a command where it stands.
    fn command(
        &self,
        kind: Kind,
        rule: &Rule,
        text: &[u8],
        lines: &Lines<'_>,
        span: &Range<usize>,
    ) -> Severity {
        let piped = rule.id == commands::PIPE_TO_SHELL;
        // Tools are installed like that everywhere; in what people read, only the odd address blocks.
        let known = piped
            && (commands::is_known_installer(&text[span.clone()])
                || (kind == Kind::Documentation && commands::is_ordinary(&text[span.clone()])));
        if known || self.context.mentioned(kind, text, lines, span) {
            rule.severity.max(Severity::Review)
        } else {
            rule.severity
        }
    }
}

/// Orders of a file so far.
#[derive(Default)]
struct Told {
    others: bool,
    conceals: bool,
}

impl Told {
    /// Whether one more order blocks: to ignore what was said, a hidden one, or to conceal another.
    fn blocks(&mut self, rule: &str, hidden: bool) -> bool {
        let conceals = rule == injection::CONCEAL;
        let both = if conceals { self.others } else { self.conceals };
        self.conceals |= conceals;
        self.others |= !conceals;
        rule == injection::IGNORE || hidden || both
    }
}

/// The text of bytes that are one, cut where a character ends.
fn text_of(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(error) => String::from_utf8_lossy(&bytes[..error.valid_up_to()]),
    }
}

/// Notes a file that was not read whole.
fn unreadable(number: u32, found: &mut Collector<'_>) {
    found.add(UNREADABLE, Severity::Review, number, 0);
    found.unreadable = found.unreadable.saturating_add(1);
}

/// Characters that are not seen.
fn hidden_characters(text: &str, number: u32, found: &mut Collector<'_>) {
    let hidden = hidden::hidden(text);
    let line = |at: usize| {
        u32::try_from(memchr::memchr_iter(b'\n', &text.as_bytes()[..at]).count() + 1).unwrap_or(u32::MAX)
    };
    if let Some(at) = hidden.bidi {
        let severity = if hidden.right_to_left { Severity::Review } else { Severity::Block };
        found.add("bidi-characters", severity, number, line(at));
    }
    if let Some(at) = hidden.tags {
        found.add("tag-characters", Severity::Block, number, line(at));
        found.injection = true;
    }
    if let Some(at) = hidden.zero_width {
        found.add(HIDDEN_TEXT, Severity::Review, number, line(at));
    }
}

/// A symlink: its target stays in the tree.
fn symlink(file: &File, number: u32, found: &mut Collector<'_>) {
    let Ok(target) = std::str::from_utf8(&file.bytes) else {
        unreadable(number, found);
        return;
    };
    if leaves_tree(&file.path, target) {
        found.add("symlink-out-of-tree", Severity::Block, number, 0);
    }
}

/// Whether a target is absolute, or climbs above the root at any step.
fn leaves_tree(path: &str, target: &str) -> bool {
    if target.starts_with(['/', '\\', '~']) || target.as_bytes().get(1) == Some(&b':') {
        return true;
    }
    let mut depth = path.split('/').filter(|part| !part.is_empty()).count().saturating_sub(1);
    for part in target.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." if depth == 0 => return true,
            ".." => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symlink_leaves_the_tree_or_does_not() {
        for (path, target) in
            [("a", "/etc/passwd"), ("a/b", "../../x"), ("a", "b/../../c"), ("a", "C:\\x"), ("a", "~/.ssh")]
        {
            assert!(leaves_tree(path, target), "{target}");
        }
        for (path, target) in [("a/b/c", "../../x"), ("a", "b"), ("a/b", "../c"), ("a", "./b/../c")] {
            assert!(!leaves_tree(path, target), "{target}");
        }
    }

    #[test]
    fn a_pattern_is_of_its_group() {
        for (number, pattern) in patterns().iter().enumerate() {
            let expected = match pattern.id.split('-').next() {
                Some("privilege") => Group::Privilege,
                Some("injection") => Group::Injection,
                _ => Group::Command,
            };
            assert_eq!(group(number), expected, "{}", pattern.id);
        }
    }
}
