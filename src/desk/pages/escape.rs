//! The one way from a value to a page. Pure.
//!
//! Beside the characters of HTML it replaces those that nobody can see and that change what is seen: controls (a NUL
//! is an error of parsing) and the direction overrides that make `exe.txt` of `txt.exe`. A person sees that something
//! was there.

use std::fmt::{self, Write};

use askama::filters::{Escaper, Html};

/// Escaper of every template (`askama.toml`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Shown;

impl Escaper for Shown {
    fn write_escaped_str<W: Write>(&self, mut dest: W, string: &str) -> fmt::Result {
        let mut rest = string;
        while let Some((at, hidden)) = rest.char_indices().find(|(_, letter)| is_hidden(*letter)) {
            Html.write_escaped_str(&mut dest, &rest[..at])?;
            dest.write_char(char::REPLACEMENT_CHARACTER)?;
            rest = &rest[at + hidden.len_utf8()..];
        }
        Html.write_escaped_str(&mut dest, rest)
    }
}

/// Whether a character is a control, an override or isolate of direction, or invisible.
const fn is_hidden(letter: char) -> bool {
    match letter {
        '\n' | '\t' => false,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true,
        '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut out = String::new();
        Shown.write_escaped_str(&mut out, text).expect("a string takes it");
        out
    }

    #[test]
    fn markup_is_text() {
        assert_eq!(shown("\"><b a='1'>&"), "&#34;&#62;&#60;b a=&#39;1&#39;&#62;&#38;");
    }

    #[test]
    fn what_cannot_be_seen_is_seen_to_have_been_there() {
        assert_eq!(
            shown("a\0b\u{202e}txt\u{2066}\u{200b}\r"),
            "a\u{fffd}b\u{fffd}txt\u{fffd}\u{fffd}\u{fffd}"
        );
        assert_eq!(shown("\u{1b}[31m\u{85}\u{feff}"), "\u{fffd}[31m\u{fffd}\u{fffd}");
    }

    #[test]
    fn lines_scripts_and_joined_pictures_stay() {
        let text = "a line\n\tand \u{645}\u{631}\u{62d}\u{628}\u{627}, \u{1f469}\u{200d}\u{1f52c}";
        assert_eq!(shown(text), text);
    }
}
