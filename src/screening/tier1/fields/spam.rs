//! What the phrases tell together, and links in markup.

use std::collections::BTreeSet;

use super::phrases::Phrase;
use super::{abroad, frauds, phrases};
use crate::screening::tier1::collect::Collector;
use crate::screening::tier1::finding::{Severity, Work};

/// What a pattern tells, of `phrases`, `frauds` and `abroad`, in this order.
pub(super) fn told(phrase: usize) -> Phrase {
    let behind = phrases::TOLD.len();
    let last = behind + frauds::TOLD.len();
    match phrase {
        phrase if phrase < behind => phrases::TOLD[phrase],
        phrase if phrase < last => frauds::TOLD[phrase - behind],
        phrase => abroad::TOLD[phrase - last],
    }
}

/// Several offers, or one that nobody writes about, with an address to go to.
const OFFERS: &str = "spam-offers";
/// A subject of mass mailings.
const OFFER: &str = "spam-offer";
/// A demand for what a thief needs, hurried.
const LURE: &str = "phishing-lure";
/// A secret is asked for, or the judge spoken to, with an address to go to.
const SECRET: &str = "phishing-secret";
/// A shame or an errand that is to be paid for where money cannot be had back.
const EXTORTION: &str = "extortion";
/// Ids of the rules.
pub(super) const IDS: [&str; 5] = [OFFERS, OFFER, LURE, SECRET, EXTORTION];

/// Phrases of the fields.
#[derive(Default)]
pub(super) struct Seen {
    subjects: BTreeSet<usize>,
    at: Option<u32>,
    demanded: Option<u32>,
    pressed: bool,
    pitched: bool,
    hushed: Option<u32>,
    ransomed: bool,
    /// What opens an account is asked for, in this field.
    secret: Option<u32>,
    priced: bool,
    /// Somebody speaks to whoever judges.
    pub(super) injected: bool,
    reported: bool,
}

impl Seen {
    /// Adds a phrase, by its pattern's number, of a field.
    pub(super) fn add(&mut self, phrase: usize, number: u32) {
        match told(phrase) {
            Phrase::Sold | Phrase::Offered => {
                self.subjects.insert(phrase);
                self.at.get_or_insert(number);
            }
            Phrase::Pitch => self.pitched = true,
            Phrase::Demand => {
                self.demanded.get_or_insert(number);
            }
            Phrase::Press => self.pressed = true,
            Phrase::Hush => {
                self.hushed.get_or_insert(number);
            }
            Phrase::Ransom => self.ransomed = true,
            Phrase::Secret => {
                self.secret.get_or_insert(number);
            }
            Phrase::Price => self.priced = true,
            Phrase::Report => self.reported = true,
        }
    }

    /// Block, or review where a fraud is reported: who reports one quotes it.
    pub(super) fn block(&self) -> Severity {
        if self.reported { Severity::Review } else { Severity::Block }
    }

    /// Whether something is demanded.
    pub(super) fn demands(&self) -> bool {
        self.demanded.is_some()
    }

    /// What follows. One subject alone may be what a person writes about. `links`: to domains that are not known.
    pub(super) fn judge(&self, links: u32, found: &mut Collector<'_>) {
        let sold = self.subjects.iter().any(|subject| told(*subject) == Phrase::Sold);
        if let Some(number) = self.at {
            let led = links > 0 || self.pitched;
            if led && (sold || self.subjects.len() >= 2 || self.priced || (links > 0 && self.pitched)) {
                found.add(OFFERS, self.block(), number, 0);
            } else {
                found.add(OFFER, Severity::Review, number, 0);
            }
        }
        if let Some(number) = self.demanded
            && self.pressed
        {
            found.add(LURE, if links > 0 { self.block() } else { Severity::Review }, number, 0);
        }
        // Whoever asks for a password, or speaks to the judge, and leads elsewhere, has no other end.
        if links > 0
            && let Some(number) = self.secret.or(self.demanded.filter(|_| self.injected))
        {
            found.add(SECRET, self.block(), number, 0);
        }
        if let Some(number) = self.hushed
            && self.ransomed
        {
            found.add(EXTORTION, self.block(), number, 0);
        }
    }
}

/// Links in markup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Markup {
    /// Of HTML.
    pub(super) html: u32,
    /// Of BBCode.
    pub(super) bbcode: u32,
    /// Elements that run or load something.
    pub(super) script: u32,
    /// Elements that ask for input.
    pub(super) form: u32,
    /// Links that show another host than they lead to.
    pub(super) misled: u32,
}

/// Counts links in markup.
pub(super) fn markup(text: &str, work: &mut Work) -> Markup {
    work.bytes += text.len() as u64;
    let bytes = text.as_bytes();
    let mut found = Markup::default();
    for at in memchr::memchr2_iter(b'<', b'[', bytes) {
        let starts = |with: &[u8]| {
            bytes.get(at + 1..at + 1 + with.len()).is_some_and(|next| next.eq_ignore_ascii_case(with))
        };
        let count = if bytes[at] == b'[' {
            (starts(b"url=") || starts(b"url]") || starts(b"link=") || starts(b"img]"))
                .then_some(&mut found.bbcode)
        } else if starts(b"a href") || starts(b"a\nhref") {
            found.misled += u32::from(misleads(&text[at..]));
            Some(&mut found.html)
        } else if starts(b"form ") || starts(b"form>") || starts(b"input ") {
            Some(&mut found.form)
        } else {
            let runs = starts(b"script") || starts(b"iframe") || starts(b"object") || starts(b"embed");
            runs.then_some(&mut found.script)
        };
        if let Some(count) = count {
            *count = count.saturating_add(1);
        }
    }
    found
}

/// Whether a link's text is an address of another host than the one it leads to.
fn misleads(element: &str) -> bool {
    /// Longest element that is looked at.
    const LONGEST: usize = 1_000;
    let element = &element[..element.floor_char_boundary(LONGEST)];
    let host = |text: &str| {
        let text = text.trim_start_matches(['"', '\'', ' ', '=']);
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '.' || c == '-')).unwrap_or(rest.len());
        let host = rest[..end].to_lowercase();
        Some(host.strip_prefix("www.").map_or(host.clone(), str::to_owned))
    };
    let Some((_, after)) = element.split_once("href") else { return false };
    let Some((_, shown)) = after.split_once('>') else { return false };
    match (host(after), host(shown)) {
        (Some(leads), Some(shown)) => leads != shown && !leads.ends_with(&format!(".{shown}")),
        _ => false,
    }
}

/// Words in which Latin letters are mixed with ones that look like them: nobody types that.
pub(super) fn disguised_words(text: &str) -> u32 {
    if text.is_ascii() {
        return 0;
    }
    let mut words = 0;
    for word in text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_ascii()) {
        let latin = word.chars().any(|c| c.is_ascii_alphabetic());
        let alike = word.chars().any(|c| matches!(c, '\u{370}'..='\u{3FF}' | '\u{400}'..='\u{4FF}'));
        words += u32::from(latin && alike && word.chars().count() >= 3);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screening::tier1::lines::Lines;
    use crate::screening::tier1::pattern;

    #[test]
    fn markup_is_counted() {
        let found =
            markup("<a href=x>[URL=y]z[/URL] <A HREF=\"\"> a < b [1] <script><form >", &mut Work::default());
        assert_eq!(found, Markup { html: 2, bbcode: 1, script: 1, form: 1, misled: 0 });
        let found = |text| markup(text, &mut Work::default()).misled;
        assert_eq!(found("<a href=\"https://evil.example/x\">https://bank.example/y</a>"), 1);
        assert_eq!(
            found("<a href='https://www.bank.example/x'>https://bank.example/y</a> <a href=x>here</a>"),
            0
        );
    }

    #[test]
    fn disguised_words_are_told_from_two_languages() {
        assert_eq!(disguised_words("l\u{43E}an \u{430}nd c\u{430}sh"), 3);
        assert_eq!(disguised_words("Москва and London, α-particle, naïve café"), 0);
    }

    #[test]
    fn a_pattern_runs_where_it_would_match() {
        let all = [&phrases::PATTERNS[..], &frauds::PATTERNS[..], &abroad::PATTERNS[..]].concat();
        let engine = pattern::engine(&all).unwrap();
        for (text, expected) in [
            ("I got a phishing mail", Phrase::Report),
            ("is this really you?", Phrase::Report),
            ("ein Betrüger, gefälschte Seite", Phrase::Report),
            ("Linkspam everywhere", Phrase::Report),
            ("V1agra", Phrase::Sold),
            ("онлайн казино", Phrase::Sold),
            ("最好的博彩", Phrase::Sold),
            ("earn $500 per day", Phrase::Sold),
            ("Bestätigen Sie bitte Ihr Konto", Phrase::Demand),
            ("Vérifiez votre compte", Phrase::Demand),
            ("Ihr Konto ist gesperrt", Phrase::Press),
            ("guest post", Phrase::Offered),
        ] {
            let bytes = text.as_bytes();
            let hits = engine.search("", bytes, &Lines::of(bytes), &mut Work::default()).hits;
            assert!(hits.iter().any(|hit| told(hit.rule) == expected), "{text}");
        }
    }
}
