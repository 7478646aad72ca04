//! Cleaning of text that people or forms wrote, where a stray character would do harm.
//!
//! Invariant: pure. The output of [`one_line`] has no line break, no control character and no character that changes the
//! direction of the text around it; the output of [`lines`] breaks lines with `\n` only.

use crate::scrub::is_bidi_control;

/// Whether `c` may end a line somewhere, in a mail client if not here.
fn is_line_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{000B}' | '\u{000C}' | '\u{0085}' | '\u{2028}' | '\u{2029}')
}

/// Returns the text on one line: breaks, tabs and control characters become spaces, runs of white space become one
/// space, bidirectional controls vanish.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars().filter(|c| !is_bidi_control(*c)) {
        if c.is_whitespace() || c.is_control() || is_line_break(c) {
            if !line.is_empty() && !line.ends_with(' ') {
                line.push(' ');
            }
        } else {
            line.push(c);
        }
    }
    line.truncate(line.trim_end().len());
    line
}

/// Returns the text with `\n` as its only line break and without control characters other than tab.
///
/// A bare CR must not reach SMTP: relays disagree about what it ends.
pub(crate) fn lines(text: &str) -> String {
    // Nearly every text is plain, and long.
    if text.bytes().fold(true, |plain, byte| plain & matches!(byte, b'\n' | b'\t' | b' '..=b'~')) {
        return text.to_owned();
    }
    let mut clean = String::with_capacity(text.len());
    let mut after_cr = false;
    for c in text.chars() {
        match c {
            '\n' if after_cr => {}
            '\n' | '\r' | '\u{0085}' => clean.push('\n'),
            '\t' => clean.push('\t'),
            c if c.is_control() => {}
            c => clean.push(c),
        }
        after_cr = c == '\r';
    }
    clean
}

/// Returns at most `max` characters, the last of them an ellipsis where something was cut.
pub(crate) fn bounded(text: String, max: usize) -> String {
    if text.chars().nth(max).is_none() {
        return text;
    }
    let kept: String = text.chars().take(max.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// Returns the text as one word of a shell, for commands that people copy.
pub(crate) fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", one_line(text).replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pasted_stays_one_word() {
        let cases = [
            ("contact-2", "contact-2"),
            ("", "''"),
            ("two words", "'two words'"),
            ("a;reboot", "'a;reboot'"),
            ("it's", r"'it'\''s'"),
            ("$(x)\nrm", "'$(x) rm'"),
        ];
        for (raw, expected) in cases {
            assert_eq!(shell_word(raw), expected, "{raw:?}");
        }
    }

    #[test]
    fn one_line_has_no_breaks_controls_or_direction_marks() {
        let cases = [
            ("plain", "plain"),
            ("  two \t spaces ", "two spaces"),
            ("a\r\nBcc: x@example.org", "a Bcc: x@example.org"),
            ("nul\0bell\u{7}del\u{7f}", "nul bell del"),
            ("next\u{85}line\u{2028}para\u{2029}graph", "next line para graph"),
            ("exe\u{202E}gpj\u{2066}.\u{200F}x", "exegpj.x"),
            ("\u{a0}no-break\u{a0}", "no-break"),
            ("\r\n\t ", ""),
            ("Grüße 👩‍🚒", "Grüße 👩‍🚒"),
        ];
        for (raw, expected) in cases {
            assert_eq!(one_line(raw), expected, "{raw:?}");
        }
    }

    #[test]
    fn lines_end_one_way() {
        assert_eq!(lines("a\r\nb\rc\nd\r\r\ne\u{85}f"), "a\nb\nc\nd\n\ne\nf");
        for clean in ["", "a\tb\n\nc ~", "Grüße\n日本語"] {
            assert_eq!(lines(clean), clean);
        }
        assert_eq!(lines("tab\tkept\0nul gone\u{1b}[31m"), "tab\tkeptnul gone[31m");
    }

    #[test]
    fn bounded_counts_characters() {
        assert_eq!(bounded("äöü".to_owned(), 3), "äöü");
        assert_eq!(bounded("äöüß".to_owned(), 3), "äö…");
    }
}
