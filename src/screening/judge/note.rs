//! The words of a judge, as far as they may be kept. Pure; errs on the side of hiding.

use super::addresses::without_addresses;
use super::spans;
use crate::scrub::is_bidi_control;

/// Longest note, in characters.
pub(super) const LONGEST: usize = 300;
/// Shortest word of letters and digits that may be a secret, and of letters alone.
const SHORTEST_TOKEN: usize = 8;
const SHORTEST_WORD: usize = 32;
/// Quotes that content is put into, opening and closing.
const QUOTES: [(char, char); 6] = [('"', '"'), ('`', '`'), ('“', '”'), ('„', '“'), ('«', '»'), ('‘', '’')];

/// The note on one line and cut, without quotes of the content, addresses, URLs, long numbers, and words that may be secrets.
#[must_use]
pub(super) fn scrubbed(note: &str) -> String {
    let line: String =
        note.chars().map(|c| if c.is_control() || is_bidi_control(c) { ' ' } else { c }).collect();
    let unquoted = without_quotes(&line);
    let words: Vec<&str> = unquoted.split_whitespace().map(shown).collect();
    let line = without_addresses(&words.join(" "), "<address>");
    let mut out = String::with_capacity(line.len());
    let mut kept = 0;
    for (range, _) in spans::numbers(&line) {
        out.push_str(&line[kept..range.start]);
        out.push_str("<digits>");
        kept = range.end;
    }
    out.push_str(&line[kept..]);
    out.chars().take(LONGEST).collect()
}

/// What stands in quotes is the content's. An opening quote that nothing closes hides the rest.
fn without_quotes(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        let behind = &rest[c.len_utf8()..];
        let closing = QUOTES.iter().find(|(opening, _)| *opening == c).map(|(_, closing)| *closing);
        // An apostrophe within a word opens nothing.
        let closing = closing.or((c == '\'' && !before.is_alphanumeric()).then_some('\''));
        match closing {
            Some(closing) => {
                out.push_str("<quoted>");
                rest = behind.find(closing).map_or("", |at| &behind[at + closing.len_utf8()..]);
                before = ' ';
            }
            None => {
                out.push(c);
                rest = behind;
                before = c;
            }
        }
    }
    out
}

fn shown(word: &str) -> &str {
    let is_url =
        word.contains("://") || word.to_ascii_lowercase().contains("www.") || spans::is_path_of_a_host(word);
    if is_url {
        "<url>"
    } else if word.split(|c: char| !c.is_ascii_alphanumeric() && !"+=_-".contains(c)).any(is_secret) {
        "<token>"
    } else {
        word
    }
}

fn is_secret(run: &str) -> bool {
    let (letters, digits) =
        (run.bytes().any(|b| b.is_ascii_alphabetic()), run.bytes().any(|b| b.is_ascii_digit()));
    run.len() >= SHORTEST_WORD || run.len() >= SHORTEST_TOKEN && letters && digits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_may_be_content_is_hidden() {
        for (note, expected) in [
            ("Asks for money.", "Asks for money."),
            ("It's the sender's own advert", "It's the sender's own advert"),
            ("line\none\u{202e}\u{7}two", "line one two"),
            ("write to ada@example.org now", "write to <address> now"),
            ("links to https://evil.example/x?y=1, twice", "links to <url> twice"),
            ("links to www.evil.example", "links to <url>"),
            ("links to evil.example/x", "links to <url>"),
            ("the key AKIAIOSFODNN7EXAMPLE is live", "the key <token> is live"),
            ("token=ghp_16C7e42F292c6912E7710c838347Ae178B4a", "<token>"),
            ("key: abcdefghijklmnopqrstuvwxyzabcdefgh", "key: <token>"),
            ("call 0171 123 45 67 today", "call <digits> today"),
            ("pays 123456 to", "pays <digits> to"),
            ("repeats \"correct horse battery\" as is", "repeats <quoted> as is"),
            ("repeats 'correct horse' and `rm -rf`", "repeats <quoted> and <quoted>"),
            ("opens \"correct horse battery", "opens <quoted>"),
            ("see SKILL.md:12, line 3", "see SKILL.md:12, line 3"),
            ("", ""),
        ] {
            assert_eq!(scrubbed(note), expected, "{note}");
        }
        assert_eq!(scrubbed(&"ä ".repeat(500)).chars().count(), LONGEST);
    }

    proptest! {
        #[test]
        fn no_note_is_long_or_has_a_control(note in any::<String>()) {
            let found = scrubbed(&note);
            prop_assert!(found.chars().count() <= LONGEST);
            prop_assert!(!found.chars().any(char::is_control) && !found.contains('@') && !found.contains("://"));
        }
    }
}
