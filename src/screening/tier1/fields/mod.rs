//! Tier 1 of a form's fields: links and their domains, markup, hidden characters, markers, and what the form decides.

mod abroad;
mod domains;
mod frauds;
mod links;
mod lists;
mod phrases;
mod spam;

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::collect::{Collector, Items};
use super::content::Fields;
use super::engine::Engine;
use super::fault::RulesetError;
use super::finding::{Report, Severity};
use super::lines::Lines;
use super::pattern;
use super::policy::FieldsPolicy;
use super::{hidden, injection};
use domains::{Domains, Likeness};
use links::{Host, Link};
use spam::Seen;

/// Rules that are no pattern.
const OTHERS: [&str; 31] = [
    "bidi-characters",
    "disguised-words",
    "disposable-mail",
    "hidden-text",
    "honeypot",
    "link-consent",
    "link-count",
    "link-bidi",
    "link-flood",
    "link-ip-host",
    "link-login",
    "link-mixed-scripts",
    "link-only",
    "link-private-host",
    "link-program",
    "link-script",
    "link-shortener",
    "link-userinfo",
    "lookalike-confusable",
    "lookalike-name",
    "lookalike-spelling",
    "lookalike-subdomain",
    "lookalike-suffix",
    "markup-flood",
    "markup-form",
    "markup-links",
    "markup-mismatch",
    "markup-script",
    "same-digest",
    "tag-characters",
    "too-many-matches",
];

/// Rules of a form's fields.
pub(crate) struct FieldRules {
    phrases: Engine,
    added: Engine,
    domains: Domains,
    policy: FieldsPolicy,
}

/// What all fields have together.
#[derive(Default)]
struct Sum {
    links: u32,
    /// Links to domains that are not known.
    strange: u32,
    link_bytes: usize,
    text_bytes: usize,
}

impl FieldRules {
    /// Compiles the rules.
    ///
    /// # Errors
    ///
    /// The first that does not compile, or a domain that is none.
    pub(super) fn new(policy: &FieldsPolicy, added: Engine) -> Result<Self, RulesetError> {
        Ok(Self {
            phrases: pattern::engine(
                &[
                    &injection::PATTERNS[..],
                    &phrases::PATTERNS[..],
                    &frauds::PATTERNS[..],
                    &abroad::PATTERNS[..],
                ]
                .concat(),
            )?,
            added,
            domains: Domains::new(&policy.protected_domains, &policy.known_domains)?,
            policy: policy.clone(),
        })
    }

    /// Ids of all rules.
    pub(super) fn ids(&self) -> Vec<String> {
        let markers = injection::PATTERNS.iter().map(|pattern| pattern.id);
        let engines = markers.chain(self.added.ids()).chain(spam::IDS);
        engines.chain(OTHERS).map(str::to_owned).collect()
    }

    /// Tells a digest of the rules, as they are written.
    pub(super) fn written(part: &mut impl FnMut(&str, &[u8])) {
        pattern::written(&injection::PATTERNS, part);
        pattern::written(&phrases::PATTERNS, part);
        pattern::written(&frauds::PATTERNS, part);
        pattern::written(&abroad::PATTERNS, part);
        part("disposable", lists::DISPOSABLE.join(" ").as_bytes());
        part("shorteners", lists::SHORTENERS.join(" ").as_bytes());
    }

    /// Screens the fields.
    pub(super) fn scan(&self, fields: &Fields, same: u32, severity: &BTreeMap<String, Severity>) -> Report {
        let mut found = Collector::new(severity);
        let (mut sum, mut seen) = (Sum::default(), Seen::default());
        let texts: Vec<_> = fields.values.iter().map(|(_, text)| hidden::seen(text)).collect();
        // What is said anywhere decides what a link is taken for.
        for (text, number) in texts.iter().zip(1..) {
            self.patterns(text, number, &mut seen, &mut found);
        }
        for (((name, raw), text), number) in fields.values.iter().zip(&texts).zip(1..) {
            if self.policy.honeypot_fields.iter().any(|trap| trap == name) && !raw.trim().is_empty() {
                found.add("honeypot", Severity::Block, number, 0);
            }
            hidden_characters(raw, number, &seen, &mut found);
            self.links(text, number, &seen, &mut sum, &mut found);
            self.markup(text, number, &seen, &mut found);
            sum.text_bytes += text.len();
        }
        self.whole(&sum, same, &seen, &mut found);
        let names: Vec<&str> = fields.values.iter().map(|(name, _)| name.as_str()).collect();
        found.report(Items::Fields, &names)
    }

    /// Markers, phrases, and the rules of an operator.
    fn patterns(&self, text: &str, number: u32, seen: &mut Seen, found: &mut Collector<'_>) {
        let folded = fold(text);
        let bytes = folded.as_bytes();
        let lines = Lines::of(bytes);
        for (engine, ours) in [(&self.phrases, true), (&self.added, false)] {
            let hits = engine.search("", bytes, &lines, &mut found.work);
            if hits.gave_up {
                found.add("too-many-matches", Severity::Review, number, 0);
            }
            for hit in hits.hits {
                if let Some(phrase) = hit.rule.checked_sub(injection::PATTERNS.len()).filter(|_| ours) {
                    seen.add(phrase, number);
                    continue;
                }
                let rule = engine.rule(hit.rule);
                found.add(rule.id.clone(), rule.severity, number, lines.number(hit.span.start));
                found.secret(&bytes[hit.secret]);
                found.injection |= ours;
                seen.injected |= ours;
            }
        }
    }

    /// Links of a text, and the domains of mail addresses.
    fn links(&self, text: &str, number: u32, seen: &Seen, sum: &mut Sum, found: &mut Collector<'_>) {
        found.work.bytes += text.len() as u64;
        let block = seen.block();
        let lines = Lines::of(text.as_bytes());
        for link in links::of(text) {
            found.work.matches += 1;
            let Link { span, host, mail, userinfo, script, program, macros, login, consent } = link;
            let line = lines.number(span.start);
            let mut add = |rule, severity| found.add(rule, severity, number, line);
            if script {
                // An address that carries a page instead of naming one.
                let page = text[span.clone()].len() > 60;
                add("link-script", if page { block } else { Severity::Review });
                continue;
            }
            let likeness = match &host {
                Host::Name(host) => self.domains.likeness(host),
                Host::None | Host::Public | Host::Private => Likeness::None,
            };
            if !mail {
                sum.links += 1;
                if likeness != Likeness::Known {
                    sum.strange += 1;
                    sum.link_bytes += span.len();
                }
            }
            if userinfo {
                add("link-userinfo", block);
            }
            if program {
                add("link-program", if macros || seen.demands() { block } else { Severity::Review });
            }
            let strange = !mail && matches!(host, Host::Name(_)) && likeness != Likeness::Known;
            if strange && consent {
                add("link-consent", block);
            }
            if strange && login && seen.demands() {
                add("link-login", block);
            }
            match host {
                Host::None => {}
                // Logs and reports name addresses, too.
                Host::Public if login || userinfo || program || seen.demands() => add("link-ip-host", block),
                Host::Public => add("link-ip-host", Severity::Review),
                Host::Private => add("link-private-host", Severity::Note),
                Host::Name(host) => {
                    match likeness {
                        Likeness::Known => continue,
                        Likeness::None => {}
                        Likeness::Confusable => add("lookalike-confusable", block),
                        Likeness::Spelling { sure: true } => add("lookalike-spelling", block),
                        Likeness::Spelling { sure: false } => add("lookalike-spelling", Severity::Review),
                        Likeness::Subdomain => add("lookalike-subdomain", block),
                        Likeness::Name { lures: true } => add("lookalike-name", block),
                        Likeness::Name { lures: false } => add("lookalike-name", Severity::Review),
                        Likeness::Suffix => add("lookalike-suffix", Severity::Note),
                    }
                    if domains::mixes_scripts(&host) {
                        add("link-mixed-scripts", Severity::Review);
                    }
                    let registered = domains::registered(&host);
                    if mail && lists::has(&lists::DISPOSABLE, registered) {
                        add("disposable-mail", Severity::Note);
                    }
                    if !mail && lists::has(&lists::SHORTENERS, registered) {
                        add("link-shortener", Severity::Note);
                    }
                }
            }
        }
    }

    /// Links in markup, which a form's fields do not render.
    fn markup(&self, text: &str, number: u32, seen: &Seen, found: &mut Collector<'_>) {
        let markup = spam::markup(text, &mut found.work);
        let block = seen.block();
        // Whoever writes links both ways does not know what the form takes, and does not care.
        let both = markup.html > 0 && markup.bbcode > 0;
        if both || markup.html + markup.bbcode >= self.policy.markup_flood.max(1) || markup.bbcode >= 2 {
            found.add("markup-flood", block, number, 0);
        } else if markup.html + markup.bbcode > 0 {
            found.add("markup-links", Severity::Review, number, 0);
        }
        if markup.misled > 0 {
            found.add("markup-mismatch", block, number, 0);
        }
        if markup.form > 0 {
            found.add("markup-form", block, number, 0);
        }
        match spam::disguised_words(text) {
            0 => {}
            1 | 2 => found.add("disguised-words", Severity::Review, number, 0),
            _ => found.add("disguised-words", block, number, 0),
        }
        if markup.script > 0 {
            found.add("markup-script", Severity::Review, number, 0);
        }
    }

    /// What all fields tell together.
    fn whole(&self, sum: &Sum, same: u32, seen: &Seen, found: &mut Collector<'_>) {
        seen.judge(sum.strange, found);
        if sum.links >= self.policy.links_noted.max(1) {
            found.add("link-count", Severity::Note, 0, 0);
        }
        if sum.strange >= self.policy.links_flood.max(1) && sum.link_bytes * 2 > sum.text_bytes {
            // Whoever writes nothing beside links has nothing to say.
            let only = sum.link_bytes * 10 > sum.text_bytes * 7;
            found.add(
                if only { "link-only" } else { "link-flood" },
                if only { seen.block() } else { Severity::Review },
                0,
                0,
            );
        }
        if same > self.policy.same_digest_per_hour {
            found.add("same-digest", Severity::Block, 0, 0);
        }
    }
}

/// A text as it reads: letters of mathematics and wide ones are the letters they stand for, and letters beside ASCII are small, since
/// expressions know no case of ASCII alone.
fn fold(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut folded = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{FF01}'..='\u{FF5E}' => folded.extend(char::from_u32(u32::from(c) - 0xFEE0)),
            '\u{1D400}'..='\u{1D6A3}' => folded.extend(plain((u32::from(c) - 0x1D400) % 52)),
            '\u{1D7CE}'..='\u{1D7FF}' => folded.extend(char::from_digit((u32::from(c) - 0x1D7CE) % 10, 10)),
            c if c.is_ascii() => folded.push(c),
            c => folded.extend(c.to_lowercase()),
        }
    }
    Cow::Owned(folded)
}

/// A letter by its number: capitals, then small ones.
fn plain(number: u32) -> Option<char> {
    let first = if number < 26 { 'A' } else { 'a' };
    char::from_u32(u32::from(first) + number % 26)
}

/// Characters that are not seen. Nobody writes them into a form by hand; some are pasted.
fn hidden_characters(text: &str, number: u32, seen: &Seen, found: &mut Collector<'_>) {
    let hidden = hidden::hidden(text);
    if let Some(at) = hidden.bidi {
        let severity = if hidden.right_to_left { Severity::Note } else { Severity::Review };
        found.add("bidi-characters", severity, number, 0);
        if !hidden.right_to_left && is_in_link(text, at) {
            found.add("link-bidi", seen.block(), number, 0);
        }
    }
    if hidden.tags.is_some() {
        found.add("tag-characters", seen.block(), number, 0);
        found.injection = true;
    }
    if hidden.zero_width.is_some() {
        found.add("hidden-text", Severity::Review, number, 0);
    }
}

/// Whether an offset is in a word that is a link.
fn is_in_link(text: &str, at: usize) -> bool {
    /// Longest word that is looked at, to either side.
    const WORD: usize = 300;
    let from = text.ceil_char_boundary(at.saturating_sub(WORD));
    let to = text.floor_char_boundary(at + WORD);
    let before = text[from..at].rsplit(char::is_whitespace).next().unwrap_or_default();
    let after = text[at..to].split(char::is_whitespace).next().unwrap_or_default();
    [before, after].iter().any(|part| part.contains("://") || part.contains("www."))
}
