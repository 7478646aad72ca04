//! A judge's own words, as far as a learner is shown them. Pure; errs on the side of hiding.
//!
//! They may repeat what a work contains, and a work may contain anything: an address, a link for whoever reads on, a key that
//! somebody pasted. What cannot be seen goes first: it could hide the rest.

use crate::gateway::judge::marking::{ends_a_line, is_unseen};
use crate::scrub::scrub;

/// Shortest word of letters and digits that may be a secret, and of letters alone; `COVID-19` and `20th-century` are none.
const SHORTEST_TOKEN: usize = 14;
const SHORTEST_WORD: usize = 32;
/// Digits in a row, separators apart, that may be somebody's number.
const NUMBER: usize = 9;

/// The text on one line, without what cannot be seen, and without addresses, links, long numbers and words that may be secrets.
#[must_use]
pub(super) fn scrubbed(text: &str) -> String {
    let plain = folded(text);
    let words: Vec<&str> = plain.split(' ').map(shown).collect();
    scrub(&words.join(" "))
}

/// The text with every run of white space and controls as one blank, none around it, and nothing in it that cannot be seen. Two
/// texts that look the same are the same then.
#[must_use]
pub(super) fn folded(text: &str) -> String {
    let seen = |c: char| {
        let is_blank = c.is_whitespace() || ends_a_line(c) || c.is_control();
        if is_blank { Some(' ') } else { Some(c).filter(|c| !is_unseen(*c)) }
    };
    let plain: String = text.chars().filter_map(seen).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn shown(word: &str) -> &str {
    if word.contains("://") || word.to_ascii_lowercase().contains("www.") {
        "<url>"
    } else if word.split(|c: char| !c.is_ascii_alphanumeric() && !"+=_-".contains(c)).any(is_secret) {
        "<token>"
    } else if word.bytes().filter(u8::is_ascii_digit).count() >= NUMBER {
        "<digits>"
    } else {
        word
    }
}

fn is_secret(run: &str) -> bool {
    let has = |wanted: fn(&u8) -> bool| run.bytes().any(|b| wanted(&b));
    run.len() >= SHORTEST_WORD
        || run.len() >= SHORTEST_TOKEN && has(u8::is_ascii_alphabetic) && has(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_may_be_somebodys_is_hidden() {
        for (text, expected) in [
            ("Clear and well-organised.", "Clear and well-organised."),
            ("You wrote \"he go\"; say \"he goes\".", "You wrote \"he go\"; say \"he goes\"."),
            (
                "COVID-19 and 20th-century views, in 1990-2000",
                "COVID-19 and 20th-century views, in 1990-2000",
            ),
            (" line\n\u{202e}one\u{7}\u{200b}two\u{2028} ", "line one two"),
            ("write to ada@example.org now", "write to <address> now"),
            ("see https://evil.example/x?y=1, twice", "see <url> twice"),
            ("see www.evil.example", "see <url>"),
            ("the key AKIAIOSFODNN7EXAMPLE is live", "the key <token> is live"),
            ("token=ghp_16C7e42F292c6912E7710c838347Ae178B4a", "<token>"),
            ("call 0171-1234567", "call <digits>"),
            ("", ""),
        ] {
            assert_eq!(scrubbed(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_unseen_is_left(text in any::<String>()) {
            let found = scrubbed(&text);
            prop_assert!(!found.chars().any(|c| c.is_control() || is_unseen(c)));
            prop_assert!(!found.contains('@') && !found.contains("://"));
            prop_assert_eq!(folded(&found), found);
        }
    }
}
