//! A relay's reply, made fit to be kept: one line, no control characters, at most 500 characters, its enhanced code
//! and queue id taken out.
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

/// A [`Reply`] for our own finding, without any server's word.
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
    let mut chars = text.trim().chars().map(|c| if is_printable(c) { c } else { '?' });
    let mut line: String = chars.by_ref().take(LONGEST).collect();
    if chars.next().is_some() {
        drop_half_a_word(&mut line);
    }
    line.truncate(line.trim_end().len());
    line
}

/// Removes the text after the last blank of a text that was cut, if there is one: half an address would no longer
/// be recognised as one, and would be quoted.
pub(super) fn drop_half_a_word(cut: &mut String) {
    if let Some(blank) = cut.rfind(' ') {
        cut.truncate(blank);
    }
}

/// Neither a control character nor one that only changes how others look (such characters forge log lines).
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
        let address = format!("{} <alice@x.test> has gone", "x".repeat(490));
        assert_eq!(reply(550, &address).reply, "x".repeat(490), "half an address is not quoted");
        assert_eq!(reply(550, &address[..495]).reply, address[..495], "what is not cut keeps its last word");
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

    proptest! {
        #[test]
        fn anything_can_be_kept(text in any::<String>(), code in 200_u16..600) {
            let kept = reply(code, &text);
            prop_assert!(kept.reply.chars().count() <= LONGEST && kept.reply.chars().all(is_printable));
        }
    }
}
