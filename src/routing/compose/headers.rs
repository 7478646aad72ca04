//! Header values: encoded and folded so that any text arrives as it was, and none can become a header of its own.
//!
//! The mail library folds no word that has no spaces, leaves `=?…?=` written by others to be decoded, panics on line
//! breaks in display names and writes non-ASCII local parts as they are; so values are encoded here and passed to it as
//! finished. Invariant: the output of this file is printable ASCII, with `\r\n ` as its only line break and no line
//! longer than 998 octets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lettre::message::header::{HeaderName, HeaderValue};

use crate::routing::submission::destination::Mailbox;
use crate::routing::submission::text::one_line;

/// Preferred length of a header line (RFC 5322 §2.1.1), and the bound for lines with encoded words (RFC 2047 §2).
const LINE: usize = 76;
/// Longest word left as it is; a longer one could not be folded.
const WORD: usize = 60;
const OPEN: &str = "=?utf-8?b?";
const CLOSE: &str = "?=";
const FOLD: &str = "\r\n ";

/// A header with free text, e.g. a subject. The text is first put on one line.
pub(super) fn unstructured(name: &'static str, text: &str) -> HeaderValue {
    let text = one_line(text);
    let column = name.len() + 2;
    let encoded = if is_plain(&text) { fold_words(&text, column) } else { encoded_words(&text, column) };
    finished(name, text, encoded)
}

/// A header whose value is ASCII and short by construction, left on one line: `Message-ID` is read by log parsers
/// that know no folding.
pub(super) fn token(name: &'static str, value: &str) -> HeaderValue {
    let value = one_line(value);
    finished(name, value.clone(), value)
}

/// `From`.
pub(super) fn sender(mailbox: &Mailbox) -> HeaderValue {
    // The library reads the sender from the raw value: the bare address is enough for it.
    finished("From", mailbox.address.clone(), mailbox_text(mailbox, "From: ".len()))
}

/// `To`, one recipient on each line.
pub(super) fn recipients(mailboxes: &[Mailbox]) -> HeaderValue {
    if mailboxes.is_empty() {
        return token("To", "undisclosed-recipients:;");
    }
    let encoded: Vec<String> = mailboxes
        .iter()
        .enumerate()
        .map(|(at, mailbox)| mailbox_text(mailbox, if at == 0 { "To: ".len() } else { 1 }))
        .collect();
    finished("To", String::new(), encoded.join(",\r\n "))
}

fn finished(name: &'static str, raw: String, encoded: String) -> HeaderValue {
    debug_assert!(
        encoded.replace(FOLD, " ").bytes().all(|b| (b' '..=b'~').contains(&b)),
        "{name}: {encoded:?}"
    );
    HeaderValue::dangerous_new_pre_encoded(HeaderName::new_from_ascii_str(name), raw, encoded)
}

/// One mailbox. An address outside ASCII becomes an empty group with the address as its name (RFC 6857 §3.1): readable,
/// and valid for relays without SMTPUTF8.
fn mailbox_text(mailbox: &Mailbox, column: usize) -> String {
    let Mailbox { address, name } = mailbox;
    if !address.is_ascii() {
        let shown = name.as_ref().map_or_else(|| address.clone(), |name| format!("{name} {address}"));
        return format!("{} :;", encoded_words(&one_line(&shown), column));
    }
    match name {
        None => address.clone(),
        Some(name) => format!("{} <{address}>", phrase(&one_line(name), column)),
    }
}

/// A display name: bare, quoted, or encoded.
fn phrase(name: &str, column: usize) -> String {
    if !is_plain(name) || name.len() > WORD {
        encoded_words(name, column)
    } else if name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b' ' || b == b'-' || b == b'_') {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

/// Whether the text needs no encoding in a header: printable ASCII that folds, and that no reader would decode.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| (b' '..=b'~').contains(&b))
        && !text.contains("=?")
        && text.split(' ').all(|word| word.len() <= WORD)
}

/// Folds plain text at its spaces; `column` is the start of its first line.
fn fold_words(text: &str, mut column: usize) -> String {
    let mut folded = String::with_capacity(text.len() + 16);
    for (at, word) in text.split(' ').enumerate() {
        if at > 0 {
            // The first line is never empty, and so no line is white space alone.
            if column + 1 + word.len() > LINE {
                folded.push_str("\r\n");
                column = 0;
            }
            folded.push(' ');
            column += 1;
        }
        folded.push_str(word);
        column += word.len();
    }
    folded
}

/// The text as base64 encoded words, each of whole characters; `column` is the start of the first one.
fn encoded_words(text: &str, column: usize) -> String {
    let room = |column: usize| (LINE.saturating_sub(column + OPEN.len() + CLOSE.len()) / 4 * 3).max(4);
    let mut out = String::with_capacity(text.len() * 2);
    let (mut start, mut most) = (0, room(column));
    let mut close_word = |from: usize, to: usize| {
        if from > 0 {
            out.push_str(FOLD);
        }
        out.push_str(OPEN);
        STANDARD.encode_string(&text[from..to], &mut out);
        out.push_str(CLOSE);
    };
    for (at, c) in text.char_indices() {
        if at + c.len_utf8() - start > most {
            close_word(start, at);
            (start, most) = (at, room(1));
        }
    }
    close_word(start, text.len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mailbox(name: Option<&str>, address: &str) -> Mailbox {
        Mailbox { address: address.to_owned(), name: name.map(ToOwned::to_owned) }
    }

    #[test]
    fn display_names_are_bare_quoted_or_encoded() {
        let cases = [
            (mailbox(None, "a@x.org"), "a@x.org"),
            (mailbox(Some("Ann Lee"), "a@x.org"), "Ann Lee <a@x.org>"),
            (mailbox(Some("Lee, Ann (IT)"), "a@x.org"), "\"Lee, Ann (IT)\" <a@x.org>"),
            (mailbox(Some(r#"A "B" \"#), "a@x.org"), r#""A \"B\" \\" <a@x.org>"#),
            (mailbox(Some("Jürgen"), "a@x.org"), "=?utf-8?b?SsO8cmdlbg==?= <a@x.org>"),
            (mailbox(Some("=?utf-8?b?DQo=?="), "a@x.org"), "=?utf-8?b?PT91dGYtOD9iP0RRbz0/PQ==?= <a@x.org>"),
            (mailbox(None, "jürgen@x.org"), "=?utf-8?b?asO8cmdlbkB4Lm9yZw==?= :;"),
        ];
        for (mailbox, expected) in cases {
            assert_eq!(mailbox_text(&mailbox, 4), expected);
        }
    }

    #[test]
    fn lines_stay_short() {
        let long = "Überraschung ".repeat(80);
        let giant = "x".repeat(998);
        let words = "word ".repeat(200);
        for text in [&long, &giant, &words] {
            for column in [1, 9, 40] {
                let text = one_line(text);
                let encoded =
                    if is_plain(&text) { fold_words(&text, column) } else { encoded_words(&text, column) };
                let first = encoded.split("\r\n").next().map_or(0, str::len);
                assert!(first + column <= LINE, "{first} from {column}");
                assert!(encoded.split("\r\n").all(|line| line.len() <= LINE));
                assert!(encoded.split("\r\n").skip(1).all(|line| line.starts_with(' ')));
            }
        }
    }

    #[test]
    fn every_encoded_word_decodes_by_itself() {
        let text = "🥳ü".repeat(100);
        for word in encoded_words(&text, 9).split(FOLD) {
            let inner = word.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE)).expect("a word");
            assert!(String::from_utf8(STANDARD.decode(inner).expect("base64")).is_ok(), "{word}");
        }
    }
}
