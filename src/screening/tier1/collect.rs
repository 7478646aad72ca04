//! The collector of findings: bounded, deterministic, and the one that decides what of a name may be shown.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::finding::{Dropped, Finding, KEPT, Report, Severity, Work};
use super::hidden;

/// Longest path or field name that is shown, in characters.
const LONGEST_NAME: usize = 200;
/// Matched secrets that names are compared with; past that, no name is shown.
const SECRETS: usize = 1_000;

/// Id of a rule.
pub(super) type RuleId = Cow<'static, str>;

/// Where something is: the item's number, and its line, both from 1; line 0 is the whole item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    /// Number of the file or field; 0 is the whole submission.
    pub(super) item: u32,
    /// Line in it.
    pub(super) line: u32,
}

/// What the items are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Items {
    /// Fields of a form.
    Fields,
    /// Files of a tree.
    Files,
}

/// Findings so far.
pub(super) struct Collector<'r> {
    severities: &'r BTreeMap<String, Severity>,
    found: BTreeMap<(Severity, Spot, RuleId), u32>,
    per_severity: [usize; 3],
    dropped: [u32; 3],
    secrets: BTreeSet<Vec<u8>>,
    too_many_secrets: bool,
    hostile: BTreeSet<u32>,
    /// Whether the skill has high privilege.
    pub(super) privileged: bool,
    /// Whether a text addresses the judge or an agent.
    pub(super) injection: bool,
    /// Files that could not be read.
    pub(super) unreadable: u32,
    /// Work so far.
    pub(super) work: Work,
}

impl<'r> Collector<'r> {
    /// A collector of nothing yet; severities are an operator's, by id of a rule.
    pub(super) fn new(severities: &'r BTreeMap<String, Severity>) -> Self {
        Self {
            severities,
            found: BTreeMap::new(),
            per_severity: [0; 3],
            dropped: [0; 3],
            secrets: BTreeSet::new(),
            too_many_secrets: false,
            hostile: BTreeSet::new(),
            privileged: false,
            injection: false,
            unreadable: 0,
            work: Work::default(),
        }
    }

    /// Adds a match.
    pub(super) fn add(&mut self, rule: impl Into<RuleId>, severity: Severity, item: u32, line: u32) {
        let rule = rule.into();
        let severity = self.severities.get(rule.as_ref()).copied().unwrap_or(severity);
        let key = (severity, Spot { item, line }, rule);
        let of = severity as usize;
        if let Some(count) = self.found.get_mut(&key) {
            *count = count.saturating_add(1);
        } else if self.per_severity[of] < KEPT {
            self.per_severity[of] += 1;
            self.found.insert(key, 1);
        } else {
            self.dropped[of] = self.dropped[of].saturating_add(1);
        }
    }

    /// Remembers a matched secret, so that no shown name has it.
    pub(super) fn secret(&mut self, secret: &[u8]) {
        if self.secrets.len() < SECRETS {
            self.secrets.insert(secret.to_vec());
        } else if !self.secrets.contains(secret) {
            self.too_many_secrets = true;
        }
    }

    /// Never shows the item's name.
    pub(super) fn conceal(&mut self, item: u32) {
        self.hostile.insert(item);
    }

    /// The report; `names` are those of the items, in their order.
    pub(super) fn report(mut self, items: Items, names: &[&str]) -> Report {
        let mut dropped = self.dropped;
        let mut findings = Vec::new();
        let found = std::mem::take(&mut self.found);
        for ((severity, spot, rule), count) in found {
            if findings.len() < KEPT {
                let place = self.place(items, names, spot);
                findings.push(Finding { rule, severity, place, count, waived: None });
            } else {
                let of = severity as usize;
                dropped[of] = dropped[of].saturating_add(count);
            }
        }
        let [block, review, note] = dropped;
        Report {
            findings,
            dropped: Dropped { block, review, note },
            privileged: self.privileged,
            injection: self.injection,
            unreadable: self.unreadable,
            work: self.work,
        }
    }

    /// The place in words.
    fn place(&self, items: Items, names: &[&str], spot: Spot) -> String {
        let kind = match items {
            Items::Fields => "field ",
            Items::Files => "file ",
        };
        let at = usize::try_from(spot.item).unwrap_or(usize::MAX);
        let Some(name) = at.checked_sub(1).and_then(|at| names.get(at)) else {
            return "submission".to_owned();
        };
        let named = match (self.shows(items, spot.item, name), items) {
            (false, _) => format!("{kind}{}", spot.item),
            (true, Items::Fields) => format!("{kind}{name}"),
            (true, Items::Files) => (*name).to_owned(),
        };
        if spot.line == 0 { named } else { format!("{named}:{}", spot.line) }
    }

    /// Whether a name may be shown.
    fn shows(&self, items: Items, item: u32, name: &str) -> bool {
        let plain = match items {
            Items::Fields => name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.[] ".contains(&b)),
            Items::Files => !name.chars().any(|c| c.is_control() || hidden::is_invisible(c)),
        };
        plain
            && !name.is_empty()
            && name.chars().count() <= LONGEST_NAME
            && !self.hostile.contains(&item)
            && !self.too_many_secrets
            && !looks_random(name)
            && !self.secrets.iter().any(|secret| holds(name.as_bytes(), secret))
    }
}

/// Whether the name has the secret, or is part of it.
fn holds(name: &[u8], secret: &[u8]) -> bool {
    !secret.is_empty() && (memchr::memmem::find(name, secret).is_some() || part_of(name, secret))
}

/// Whether a part of the name that is long enough to tell something is one of the secret.
fn part_of(name: &[u8], secret: &[u8]) -> bool {
    name.split(|b| !b.is_ascii_alphanumeric())
        .any(|part| part.len() >= 12 && memchr::memmem::find(secret, part).is_some())
}

/// Whether a run of 20 or more letters and digits has both: a token rather than a word.
fn looks_random(name: &str) -> bool {
    name.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| {
        part.len() >= 20
            && part.bytes().any(|b| b.is_ascii_digit())
            && part.bytes().any(|b| b.is_ascii_alphabetic())
    })
}
