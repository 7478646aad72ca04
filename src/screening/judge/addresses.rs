//! Where e-mail addresses stand in a text. Pure, errs on the side of hiding, and linear in the text's length: whoever submits it
//! chooses the text.

use std::ops::Range;

/// Longest address literal, `[…]`, in characters.
const LONGEST_LITERAL: usize = 64;

/// Every address, in order: all around an at sign, quoted local parts, address literals and several at signs included.
pub(super) fn addresses(text: &str) -> Vec<Range<usize>> {
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let byte = |place: usize| chars.get(place).map_or(text.len(), |(index, _)| *index);
    let (mut found, mut kept, mut at) = (Vec::new(), 0, 0);
    while at < chars.len() {
        let Some(width) = at_sign(&chars[at..]) else {
            at += 1;
            continue;
        };
        let (start, end) = (local_part(&chars, kept, at), domain(&chars, at + width));
        found.push(byte(start)..byte(end));
        (kept, at) = (end, end);
    }
    found
}

/// The text with a tag for each address.
#[must_use]
pub(super) fn without_addresses(text: &str, tag: &str) -> String {
    let (mut out, mut kept) = (String::with_capacity(text.len()), 0);
    for range in addresses(text) {
        out.push_str(&text[kept..range.start]);
        out.push_str(tag);
        kept = range.end;
    }
    out.push_str(&text[kept..]);
    out
}

/// The width of an at sign here: itself, its look-alikes, or `%40`.
fn at_sign(here: &[(usize, char)]) -> Option<usize> {
    match here {
        [(_, '@' | '\u{ff20}' | '\u{fe6b}'), ..] => Some(1),
        [(_, '%'), (_, '4'), (_, '0'), ..] => Some(3),
        _ => None,
    }
}

fn ends_an_address(c: char) -> bool {
    c.is_whitespace() || c.is_control() || "<>()[],;:\"".contains(c)
}

/// Where the local part before the at sign begins, not before `floor`. A quoted string is one whole. Blanks around an at sign
/// are legal in old mail, and a way around a naive filter.
fn local_part(chars: &[(usize, char)], floor: usize, at: usize) -> usize {
    let blanks = chars[floor..at].iter().rev().take_while(|(_, c)| c.is_whitespace()).count();
    let (mut start, mut may_be_quoted) = (at - blanks, true);
    while start > floor {
        let before = chars[start - 1].1;
        if before == '"' {
            let open = may_be_quoted.then(|| opening_quote(chars, floor, start - 1)).flatten();
            // Where one quote has none that opens it, none before it has.
            may_be_quoted = open.is_some();
            start = open.unwrap_or(start - 1);
        } else if ends_an_address(before) {
            break;
        } else {
            start -= 1;
        }
    }
    start
}

fn opening_quote(chars: &[(usize, char)], floor: usize, closing: usize) -> Option<usize> {
    let is_escaped =
        |place: usize| chars[floor..place].iter().rev().take_while(|(_, c)| *c == '\\').count() % 2 == 1;
    (floor..closing).rev().find(|place| chars[*place].1 == '"' && !is_escaped(*place))
}

/// Where the domain after the at sign ends.
fn domain(chars: &[(usize, char)], behind: usize) -> usize {
    let mut end = behind + chars[behind..].iter().take_while(|(_, c)| c.is_whitespace()).count();
    if chars.get(end).is_some_and(|(_, c)| *c == '[')
        && let Some(length) = chars[end..].iter().take(LONGEST_LITERAL).position(|(_, c)| *c == ']')
    {
        end += length + 1;
    }
    while chars.get(end).is_some_and(|(_, c)| !ends_an_address(*c)) {
        end += 1;
    }
    // A sentence's full stop is not part of the domain.
    if end > behind && chars[end - 1].1 == '.' { end - 1 } else { end }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_are_found() {
        for (text, expected) in [
            ("<alice@example.org>: User unknown", "<<a>>: User unknown"),
            ("no mailbox alice@example.org here", "no mailbox <a> here"),
            ("alice@example.org.", "<a>."),
            ("\"john doe\"@example.org is gone", "<a> is gone"),
            ("\"a\\\"b <x> y\"@example.org z", "<a> z"),
            ("a.\"b c\"@d e", "<a> e"),
            ("user@[192.0.2.1] x", "<a> x"),
            ("user@[IPv6:2001:db8::1]: x", "<a>: x"),
            ("a@b@c d", "<a> d"),
            ("user%40example.org", "<a>"),
            ("user\u{ff20}example.org", "<a>"),
            ("jörg@exämple.org?", "<a>"),
            ("user @ example.org", "<a>"),
            ("mailto:user@example.org", "mailto:<a>"),
            ("@", "<a>"),
            ("nothing to hide", "nothing to hide"),
            ("", ""),
        ] {
            assert_eq!(without_addresses(text, "<a>"), expected, "{text}");
        }
    }

    /// Quadratic, any of these takes minutes.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "what is measured is real time")]
    fn no_text_takes_long() {
        const LENGTH: usize = 256 * 1024;
        for (piece, end) in [
            ("\\", "\"@x"),
            ("\\\"", "@x"),
            ("\"", "@x"),
            ("\"\\", "@x"),
            ("@[", ""),
            ("@ ", ""),
            ("\"@", ""),
            (" ", "@x"),
            ("%4", "%40"),
        ] {
            let text = format!("{}{end}", piece.repeat(LENGTH / piece.len()));
            let began = Instant::now();
            assert!(!addresses(&text).is_empty(), "{piece}");
            assert!(began.elapsed() < Duration::from_secs(5), "{piece} took {:?}", began.elapsed());
        }
    }

    proptest! {
        #[test]
        fn no_at_sign_and_no_local_part_survives(
            before in "[ a-z<>\"\\\\(),:;@%40\\[\\]]{0,20}",
            local in "[a-z0-9.+_-]{6,12}",
            domain in "[a-z]{6,9}\\.[a-z]{2,3}",
            behind in "[ a-z<>\"\\\\(),:;@\\[\\]]{0,20}",
        ) {
            let found = without_addresses(&format!("{before} qq{local}zz@qq{domain} {behind}"), "<a>");
            prop_assert!(!found.contains('@'));
            let needle = format!("qq{local}zz");
            prop_assert!(!found.contains(&needle), "{found}");
        }

        #[test]
        fn anything_can_be_searched(text in any::<String>()) {
            prop_assert!(!without_addresses(&text, "").contains('@'));
        }
    }
}
