//! What a relay said, made fit to be kept: one line, no control characters, at most 500 characters, its enhanced
//! code and queue id taken out; and [`scrub`], which makes such a text fit to be shown.
//!
//! Pure. A reply is text from outside: nothing in it is trusted, and nothing here can fail.

use crate::ports::Reply;

/// Longest text kept of a reply, in characters (data contract, "ledger").
const LONGEST: usize = 500;

/// A [`Reply`] from a code and its text; the enhanced code moves out of the text when it agrees with the code
/// (RFC 2034 §4).
#[must_use]
pub(super) fn reply(code: u16, text: &str) -> Reply {
    let text = one_line(text);
    let (enhanced, rest) = match text.split_once(' ') {
        Some((word, rest)) if is_enhanced(code, word) => (Some(word.to_owned()), rest.trim_start()),
        Some(_) => (None, text.as_str()),
        None if is_enhanced(code, &text) => (Some(text.clone()), ""),
        None => (None, text.as_str()),
    };
    Reply { code: Some(code), enhanced, reply: rest.to_owned() }
}

/// A [`Reply`] for what we found ourselves, without any server's word.
#[must_use]
pub(super) fn remark(text: &str) -> Reply {
    Reply { code: None, enhanced: None, reply: one_line(text) }
}

/// Joins the lines of a reply; an enhanced code repeated at the head of each is kept once.
#[must_use]
pub(super) fn join<'a>(code: u16, lines: impl Iterator<Item = &'a str>) -> String {
    let mut joined = String::new();
    let mut repeated = None;
    for line in lines {
        if joined.is_empty() {
            repeated = line.split(' ').next().filter(|word| is_enhanced(code, word));
            joined.push_str(line);
            continue;
        }
        joined.push(' ');
        let rest = repeated.and_then(|word| line.strip_prefix(word)).filter(|rest| rest.starts_with(' '));
        joined.push_str(rest.map_or(line, str::trim_start));
    }
    joined
}

/// `5.1.1`: three numbers, the first being the first digit of `code`.
fn is_enhanced(code: u16, word: &str) -> bool {
    let mut parts = word.split('.');
    let number = |part: Option<&str>| {
        part.is_some_and(|digits| {
            (1..=3).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit())
        })
    };
    let class = parts.next().is_some_and(|class| class == (code / 100).to_string());
    class && number(parts.next()) && number(parts.next()) && parts.next().is_none()
}

fn one_line(text: &str) -> String {
    text.trim()
        .chars()
        .map(|c| if is_printable(c) { c } else { '?' })
        .take(LONGEST)
        .collect::<String>()
        .trim_end()
        .to_owned()
}

/// Neither a control character nor one of those that only change how others look (they forge log lines).
fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(
            c,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        )
}

/// The queue id in an accepting reply, where it names one: Postfix (short and long ids, also behind a content
/// filter's words), Exim, Sendmail and OpenSMTPD.
#[must_use]
pub(super) fn queue_id(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let behind_queued_as = words.windows(3).rev().find_map(|w| match w {
        [queued, r#as, id] if queued.eq_ignore_ascii_case("queued") && r#as.eq_ignore_ascii_case("as") => {
            plausible(id)
        }
        _ => None,
    });
    let behind_id = || words.iter().find_map(|word| plausible(word.strip_prefix("id=")?));
    let before_accepted = || {
        words.windows(3).find_map(|w| match w {
            [id, "Message", "accepted"] => plausible(id),
            _ => None,
        })
    };
    behind_queued_as.or_else(behind_id).or_else(before_accepted)
}

fn plausible(id: &str) -> Option<String> {
    let id = id.trim_end_matches(['.', ',', ';', ')']);
    let fits = (4..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    fits.then(|| id.to_owned())
}

/// Replaces every e-mail address in `text` by `<address>`, for journal and Slack (interfaces, "Log fields").
///
/// It errs on the side of hiding: whatever stands around an at sign goes, quoted local parts, address literals and
/// several at signs included.
#[must_use]
pub fn scrub(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut kept = 0;
    let mut at = 0;
    while at < chars.len() {
        let Some(width) = at_sign(&chars[at..]) else {
            at += 1;
            continue;
        };
        let mut start = local_part(&chars, kept, at);
        let mut end = domain(&chars, at + width);
        if start > kept && chars[start - 1] == '<' && chars.get(end) == Some(&'>') {
            start -= 1;
            end += 1;
        }
        out.extend(&chars[kept..start]);
        out.push_str("<address>");
        kept = end;
        at = end;
    }
    out.extend(&chars[kept..]);
    out
}

/// How many characters here stand for an at sign: itself, its look-alikes, or `%40`.
fn at_sign(here: &[char]) -> Option<usize> {
    match here {
        ['@' | '\u{ff20}' | '\u{fe6b}', ..] => Some(1),
        ['%', '4', '0', ..] => Some(3),
        _ => None,
    }
}

fn ends_an_address(c: char) -> bool {
    c.is_whitespace() || c.is_control() || "<>()[],;:\"".contains(c)
}

/// Where the local part before the at sign begins, not before `floor`. A quoted string belongs to it as a whole.
fn local_part(chars: &[char], floor: usize, at: usize) -> usize {
    let mut start = over_blanks_back(chars, floor, at);
    while start > floor {
        let before = chars[start - 1];
        if before == '"' {
            match opening_quote(chars, floor, start - 1) {
                Some(open) => start = open,
                None => start -= 1,
            }
        } else if ends_an_address(before) {
            break;
        } else {
            start -= 1;
        }
    }
    start
}

/// Blanks around an at sign are legal in old mail and a way around a naive filter.
fn over_blanks_back(chars: &[char], floor: usize, at: usize) -> usize {
    let blanks = chars[floor..at].iter().rev().take_while(|c| c.is_whitespace()).count();
    at - blanks
}

fn opening_quote(chars: &[char], floor: usize, closing: usize) -> Option<usize> {
    (floor..closing).rev().find(|&i| {
        let escapes = chars[floor..i].iter().rev().take_while(|c| **c == '\\').count();
        chars[i] == '"' && escapes % 2 == 0
    })
}

/// Where the domain behind the at sign ends.
fn domain(chars: &[char], behind: usize) -> usize {
    let mut end = behind + chars[behind..].iter().take_while(|c| c.is_whitespace()).count();
    if chars.get(end) == Some(&'[')
        && let Some(length) = chars[end..].iter().position(|c| *c == ']')
    {
        end += length + 1;
    }
    while end < chars.len() && !ends_an_address(chars[end]) {
        end += 1;
    }
    // A sentence's full stop is not the domain's.
    if end > behind && chars[end - 1] == '.' {
        end -= 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_enhanced_code_is_taken_out_when_it_agrees() {
        for (code, text, enhanced, rest) in [
            (250, "2.0.0 Ok: queued as 4XYZ", Some("2.0.0"), "Ok: queued as 4XYZ"),
            (550, "5.1.1 no such user", Some("5.1.1"), "no such user"),
            (550, "5.7.509", Some("5.7.509"), ""),
            (550, "4.1.1 disagrees", None, "4.1.1 disagrees"),
            (250, "Ok", None, "Ok"),
            (451, "4.3 too short", None, "4.3 too short"),
            (451, "4.3.0.1 too long", None, "4.3.0.1 too long"),
            (451, "4.1234.0 x", None, "4.1234.0 x"),
            (250, "", None, ""),
        ] {
            let found = reply(code, text);
            assert_eq!((found.enhanced.as_deref(), found.reply.as_str()), (enhanced, rest), "{text}");
        }
    }

    #[test]
    fn texts_are_one_printable_line_of_at_most_500_characters() {
        assert_eq!(reply(550, "a\u{1b}[2Jb\r\nc\u{202e}d").reply, "a?[2Jb??c?d");
        let long = reply(550, &"é".repeat(700));
        assert_eq!(long.reply.chars().count(), 500);
    }

    #[test]
    fn lines_are_joined_and_a_repeated_enhanced_code_is_kept_once() {
        let lines = ["5.7.1 first", "5.7.1 second", "third"];
        assert_eq!(join(550, lines.into_iter()), "5.7.1 first second third");
        assert_eq!(join(250, ["one", "two"].into_iter()), "one two");
    }

    #[test]
    fn queue_ids_of_the_usual_relays_are_found() {
        for (text, expected) in [
            ("Ok: queued as 3F2A81C0D4", Some("3F2A81C0D4")),
            ("Ok: queued as 4Wd2yz3Kq2z9vLm", Some("4Wd2yz3Kq2z9vLm")),
            ("from MTA(smtp:[127.0.0.1]:10025): 250 2.0.0 Ok: queued as 7B21C0", Some("7B21C0")),
            ("Ok: queued as AAAA1 then queued as BBBB2", Some("BBBB2")),
            ("OK id=1rABcd-0004xy-2Z", Some("1rABcd-0004xy-2Z")),
            ("40A1bCdE012345 Message accepted for delivery", Some("40A1bCdE012345")),
            ("1a2b3c4d Message accepted for delivery", Some("1a2b3c4d")),
            ("Ok: queued as <script>", None),
            ("Ok: queued as", None),
            ("Ok", None),
            ("<20260101.x@y> Queued mail for delivery", None),
        ] {
            assert_eq!(queue_id(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn addresses_are_scrubbed() {
        for (text, expected) in [
            ("<alice@example.org>: User unknown", "<address>: User unknown"),
            ("no mailbox alice@example.org here", "no mailbox <address> here"),
            ("alice@example.org.", "<address>."),
            ("to=<a@b>, orig_to=<c@d>", "to=<address>, orig_to=<address>"),
            ("\"john doe\"@example.org is gone", "<address> is gone"),
            ("\"a\\\"b <x> y\"@example.org z", "<address> z"),
            ("a.\"b c\"@d e", "<address> e"),
            ("user@[192.0.2.1] x", "<address> x"),
            ("user@[IPv6:2001:db8::1]: x", "<address>: x"),
            ("<@relay,@other:user@host>", "<<address>,<address>:<address>>"),
            ("a@b@c d", "<address> d"),
            ("bounce+user=example.org@x", "<address>"),
            ("user%40example.org", "<address>"),
            ("user\u{ff20}example.org", "<address>"),
            ("jörg@exämple.org?", "<address>"),
            ("user @ example.org", "<address>"),
            ("mailto:user@example.org", "mailto:<address>"),
            ("(user@example.org)", "(<address>)"),
            ("user\u{7}name@x y", "user\u{7}<address> y"),
            ("@", "<address>"),
            ("\"@\"@\"@", "<address>\"@"),
            ("nothing to hide", "nothing to hide"),
            ("", ""),
        ] {
            let found = scrub(text);
            if expected.ends_with("\"@") {
                // Hopeless quoting: only the promise below counts.
                assert!(!found.contains('@'), "{text} → {found}");
            } else {
                assert_eq!(found, expected, "{text}");
            }
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
            let found = scrub(&format!("{before} qq{local}zz@qq{domain} {behind}"));
            prop_assert!(!found.contains('@'));
            let needle = format!("qq{local}zz");
            prop_assert!(!found.contains(&needle), "{found}");
        }

        #[test]
        fn anything_can_be_scrubbed_and_kept(text in any::<String>(), code in 200_u16..600) {
            prop_assert!(!scrub(&text).contains('@'));
            let kept = reply(code, &text);
            prop_assert!(kept.reply.chars().count() <= LONGEST && kept.reply.chars().all(is_printable));
        }
    }
}
