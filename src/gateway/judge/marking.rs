//! Content that no reader takes for instructions: each line marked with a word that is drawn for one question alone, and
//! everything that cannot be seen written as an escape. Pure.
//!
//! A mark is no wall: it tells lines of the content from lines of ours, and keeps nobody from being talked round.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use crate::scrub::is_bidi_control;

/// What stands between the nonce and a line.
pub const MARK: &str = "| ";
/// Shortest and longest nonce.
const NONCE: RangeInclusive<usize> = 16..=64;

/// Whether a word can be a nonce: 16 to 64 ASCII letters and digits.
#[must_use]
pub fn is_nonce(word: &str) -> bool {
    NONCE.contains(&word.len()) && word.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// The text with the nonce before each of its lines, whatever ends them.
#[must_use]
pub fn marked(nonce: &str, text: &str) -> String {
    let mut out = String::with_capacity(text.len() + nonce.len() + MARK.len());
    let mut rest = Some(text);
    while let Some(line) = rest {
        out.push_str(nonce);
        out.push_str(MARK);
        let end = line.find(ends_a_line);
        out.push_str(&line[..end.unwrap_or(line.len())]);
        rest = end.map(|end| {
            out.push('\n');
            let rest = &line[end..];
            rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix(ends_a_line)).unwrap_or_default()
        });
    }
    out
}

/// Whatever a reader may take for the end of a line.
#[must_use]
pub fn ends_a_line(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// A JSON document with everything that cannot be seen as an escape.
#[must_use]
pub fn escaped(document: &str) -> String {
    let mut out = String::with_capacity(document.len());
    for c in document.chars() {
        if is_unseen(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // A string takes whatever is written into it.
                write!(out, "\\u{unit:04x}").ok();
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Characters that steer or hide text: directions, tags, joiners, selectors, other controls.
#[must_use]
pub fn is_unseen(c: char) -> bool {
    is_bidi_control(c)
        || matches!(c,
            '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_its_mark() {
        assert_eq!(marked("n", "a\r\nb\n\u{2028}c"), "n| a\nn| b\nn| \nn| c");
        assert_eq!(marked("n", ""), "n| ");
    }

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        assert_eq!(escaped("a\u{202e}b\u{e0041}"), r"a\u202eb\udb40\udc41");
        assert!(
            is_nonce("0123456789abcdef") && !is_nonce("0123456789abcde") && !is_nonce("0123456789abcde|")
        );
    }
}
