//! Where numbers and links stand in a text. Pure, and linear in its length: whoever submits it chooses the text.

use std::ops::Range;

/// Kind of a number that may be somebody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    /// A bank account's, by its checksum.
    Iban,
    /// Like a payment card's, by its checksum.
    Card,
    /// Written as telephone numbers are.
    Phone,
    /// Any other that is long enough to name somebody.
    Digits,
}

/// Digits of a number that is written with separators, and of one in a row, from which on it is hidden.
const SEPARATED: usize = 7;
const IN_A_ROW: usize = 5;
/// Longest telephone number, in digits, and some more for those who write it twice.
const LONGEST_PHONE: usize = 16;
/// Separators in a row within one number, e.g. `) - `.
const MOST_SEPARATORS: usize = 3;
const CARD: std::ops::RangeInclusive<usize> = 13..=19;
const IBAN: std::ops::RangeInclusive<usize> = 15..=34;

/// Every number that may be somebody's, in order.
pub(super) fn numbers(text: &str) -> Vec<(Range<usize>, Number)> {
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < chars.len() {
        let spot = iban(&chars, at).map(|end| (end, Some(Number::Iban))).or_else(|| number(&chars, at));
        let Some((end, kind)) = spot else {
            at += 1;
            continue;
        };
        if let Some(kind) = kind {
            let behind = chars.get(end).map_or(text.len(), |(index, _)| *index);
            found.push((chars[at].0..behind, kind));
        }
        at = end;
    }
    found
}

/// The end of a bank account's number that begins here.
fn iban(chars: &[(usize, char)], at: usize) -> Option<usize> {
    let here = |place: usize| chars.get(place).map(|(_, c)| *c);
    let (country, check) = (at..at + 2, at + 2..at + 4);
    let begins = at.checked_sub(1).and_then(here).is_none_or(|before| !before.is_alphanumeric())
        && country.into_iter().all(|place| here(place).is_some_and(|c| c.is_ascii_alphabetic()))
        && check.into_iter().all(|place| here(place).is_some_and(|c| c.is_ascii_digit()));
    if !begins {
        return None;
    }
    let (mut taken, mut place, mut end) = (Vec::new(), at, None);
    while let Some(c) = here(place) {
        if c.is_ascii_alphanumeric() {
            taken.push(c.to_ascii_uppercase());
            if taken.len() > *IBAN.end() {
                break;
            }
            let ends = here(place + 1).is_none_or(|next| !next.is_alphanumeric());
            if ends && IBAN.contains(&taken.len()) && remainder_of_97(&taken) == Some(1) {
                end = Some(place + 1);
            }
        } else if !is_separator(c) || here(place + 1).is_none_or(|next| !next.is_ascii_alphanumeric()) {
            break;
        }
        place += 1;
    }
    end
}

fn remainder_of_97(taken: &[char]) -> Option<u32> {
    let (head, rest) = taken.split_at_checked(4)?;
    rest.iter().chain(head).try_fold(0, |remainder, c| {
        let value = c.to_digit(36)?;
        Some((remainder * if value > 9 { 100 } else { 10 } + value) % 97)
    })
}

/// The end of a number that begins here, and its kind where it is long enough.
fn number(chars: &[(usize, char)], at: usize) -> Option<(usize, Option<Number>)> {
    let here = |place: usize| chars.get(place).map(|(_, c)| *c);
    let first = here(at)?;
    let dialled = matches!(first, '+' | '(' | '\u{ff0b}');
    let digit = |c: char| c.is_numeric();
    let begins = digit(first) || dialled && here(at + 1).is_some_and(|c| digit(c) || matches!(c, '(' | '+'));
    if !begins {
        return None;
    }
    let (mut digits, mut row, mut longest, mut separators) = (Vec::new(), 0, 0, 0);
    let (mut place, mut end) = (at + usize::from(dialled), at + 1);
    while let Some(c) = here(place) {
        if digit(c) {
            digits.push(c);
            (row, separators, end) = (row + 1, 0, place + 1);
            longest = longest.max(row);
        } else if is_separator(c) && separators < MOST_SEPARATORS {
            (row, separators) = (0, separators + 1);
        } else {
            break;
        }
        place += 1;
    }
    let card = CARD.contains(&digits.len()) && luhn(&digits);
    let phone = (dialled || first == '0') && (SEPARATED..=LONGEST_PHONE).contains(&digits.len());
    let kind = match (card, phone) {
        (true, _) => Some(Number::Card),
        (false, true) => Some(Number::Phone),
        (false, false) => (digits.len() >= SEPARATED || longest >= IN_A_ROW).then_some(Number::Digits),
    };
    Some((end, kind))
}

fn is_separator(c: char) -> bool {
    matches!(
        c,
        ' ' | '\u{a0}' | '\u{2009}' | '\u{202f}' | '-' | '\u{2010}'..='\u{2014}' | '.' | '/' | '(' | ')'
    )
}

fn luhn(digits: &[char]) -> bool {
    let sum = digits.iter().rev().zip([1, 2].into_iter().cycle()).try_fold(0, |sum, (c, weight)| {
        let product = c.to_digit(10)? * weight;
        Some(sum + product / 10 + product % 10)
    });
    sum.is_some_and(|sum| sum % 10 == 0)
}

/// A link: what of it may be told, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    /// All of it.
    pub(super) range: Range<usize>,
    /// Scheme and host, with marks where a user or a path was.
    pub(super) shown: String,
}

/// Every link, in order; those in another's query, too.
pub(super) fn links(text: &str) -> Vec<Link> {
    let (mut found, mut at) = (Vec::<Link>::new(), 0);
    for word in text.split(ends_a_link).filter(|word| !word.is_empty()) {
        // Pieces of one text, in order.
        let start = at + text[at..].find(word).unwrap_or_default();
        at = start + word.len();
        let schemes: Vec<usize> = word.match_indices("://").map(|(place, _)| scheme(word, place)).collect();
        let bounds = schemes.iter().copied().chain([word.len()]).collect::<Vec<_>>();
        let before_these = found.len();
        for pair in bounds.windows(2) {
            let [from, to] = *pair else { continue };
            found.extend(
                link(&word[from..to])
                    .map(|(length, shown)| Link { range: start + from..start + from + length, shown }),
            );
        }
        let before = &word[..bounds[0]];
        if let Some(host) = host_with_a_path(before) {
            let shown = format!("{host}/<path>");
            let link = Link { range: start..start + before.len(), shown };
            found.insert(before_these, link);
        }
    }
    found
}

/// Whether the word is a host and a path, without a scheme.
pub(super) fn is_path_of_a_host(word: &str) -> bool {
    host_with_a_path(word).is_some()
}

fn ends_a_link(c: char) -> bool {
    c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | '"' | '`' | '\u{201c}' | '\u{201d}')
}

/// Where the scheme before `://` begins.
fn scheme(word: &str, place: usize) -> usize {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-');
    word[..place].trim_end_matches(plain).len()
}

/// A link that begins here: its length, and what may be told of it.
fn link(text: &str) -> Option<(usize, String)> {
    let authority = text.find("://")? + "://".len();
    let (scheme, rest) = text.split_at(authority);
    let ends =
        |c: char| matches!(c, '/' | '?' | '#' | '\\' | ',' | ';' | '|' | '^' | '{' | '}' | '(' | ')' | '\'');
    let end = rest.find(ends).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let (user, host) = host.rsplit_once('@').map_or(("", host), |(_, host)| ("<userinfo>@", host));
    let has_path = path.starts_with(['/', '?', '#', '\\']);
    let length = if has_path { text.len() } else { authority + end };
    let path = if has_path && path != "/" { "/<path>" } else { "" };
    Some((length, format!("{scheme}{user}{host}{path}")))
}

/// The host of `example.org/path`.
fn host_with_a_path(word: &str) -> Option<&str> {
    let (host, _) = word.split_at(word.find(['/', '?', '#'])?);
    let host = host.trim_start_matches(['(', '[', '\'']);
    let (name, top) = host.rsplit_once('.')?;
    let label = |label: &str| !label.is_empty() && label.chars().all(|c| c.is_alphanumeric() || c == '-');
    let is_host =
        name.split('.').all(label) && top.chars().count() > 1 && top.chars().all(char::is_alphabetic);
    is_host.then_some(host)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_found_by_their_kind() {
        for (text, expected) in [
            ("pay DE89 3704 0044 0532 0130 00 please", vec![("DE89 3704 0044 0532 0130 00", Number::Iban)]),
            ("GB82WEST12345698765432.", vec![("GB82WEST12345698765432", Number::Iban)]),
            ("DE89 3704 0044 0532 0130 01", vec![("89 3704 0044 0532 0130 01", Number::Digits)]),
            ("4111 1111 1111 1111", vec![("4111 1111 1111 1111", Number::Card)]),
            ("4111-1111-1111-1112", vec![("4111-1111-1111-1112", Number::Digits)]),
            ("call +49 (0)171 / 123-45-67!", vec![("+49 (0)171 / 123-45-67", Number::Phone)]),
            ("(415) 555-0100", vec![("(415) 555-0100", Number::Phone)]),
            ("0171 1234567", vec![("0171 1234567", Number::Phone)]),
            ("born 1980-02-29", vec![("1980-02-29", Number::Digits)]),
            ("id 12345", vec![("12345", Number::Digits)]),
            ("x١٢٣٤٥x", vec![("١٢٣٤٥", Number::Digits)]),
            ("in 2026, 12 of 30", vec![]),
            ("v1.2.3 at 10:30", vec![]),
            ("+ ( 1 -", vec![]),
        ] {
            let found: Vec<_> = numbers(text).into_iter().map(|(range, kind)| (&text[range], kind)).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn of_a_link_its_host_stays() {
        for (text, expected) in [
            ("see https://evil.example/a?b=c#d now", vec!["https://evil.example/<path>"]),
            ("https://evil.example", vec!["https://evil.example"]),
            ("https://evil.example/", vec!["https://evil.example"]),
            ("https://ada:pw@evil.example:81/x", vec!["https://<userinfo>@evil.example:81/<path>"]),
            ("http://192.0.2.1/x", vec!["http://192.0.2.1/<path>"]),
            ("http://[2001:db8::1]:80/x", vec!["http://[2001:db8::1]:80/<path>"]),
            ("(https://a.example)", vec!["https://a.example"]),
            ("https://a.example,https://b.example/x", vec!["https://a.example", "https://b.example/<path>"]),
            (
                "https://a.example/r?u=https://b.example/y",
                vec!["https://a.example/<path>", "https://b.example/<path>"],
            ),
            ("www.evil.example/ada", vec!["www.evil.example/<path>"]),
            ("a.example/x?u=https://b.example/y", vec!["a.example/<path>", "https://b.example/<path>"]),
            ("and/or 1/2 z.B./x", vec![]),
        ] {
            let found: Vec<_> = links(text).into_iter().map(|link| link.shown).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn spans_are_in_order_and_of_the_text(text in "[ a-zA-Z0-9:/.@?#()+\\-\u{e4}\u{663}<>\"]{0,80}") {
            let ranges = |found: Vec<Range<usize>>| {
                found.windows(2).all(|pair| pair[0].end <= pair[1].start)
                    && found.iter().all(|range| text.get(range.clone()).is_some_and(|cut| !cut.is_empty()))
            };
            prop_assert!(ranges(numbers(&text).into_iter().map(|(range, _)| range).collect()));
            prop_assert!(ranges(links(&text).into_iter().map(|link| link.range).collect()));
        }
    }
}
