//! Characters that are not seen: bidirectional controls, tag characters, zero-width ones.

use std::borrow::Cow;

/// Kinds of hidden characters in a text, with the offset of the first of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Hidden {
    /// Controls that change the order in which text is shown.
    pub(super) bidi: Option<usize>,
    /// Tag characters outside of a flag, or a long run of variation selectors: letters that nobody sees.
    pub(super) tags: Option<usize>,
    /// Run of zero-width characters between ordinary ones.
    pub(super) zero_width: Option<usize>,
    /// Whether the text has letters of a script that is written from the right.
    pub(super) right_to_left: bool,
}

/// Longest sequence of tags of a flag (`gbsct` and its end), and a margin.
const FLAG: usize = 8;
/// Variation selectors in a row that are more than one picture needs.
const SELECTORS: usize = 4;
/// Zero-width characters in a row that are more than typesetting needs.
const ZERO_WIDTH: usize = 6;

/// Whether a character changes the order in which text is shown.
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// Whether a character is a tag.
fn is_tag(c: char) -> bool {
    matches!(c, '\u{E0000}'..='\u{E007F}')
}

/// Whether a character selects a variation.
fn is_selector(c: char) -> bool {
    matches!(c, '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}')
}

/// Whether a character has no width, and is no letter's part.
fn is_zero_width(c: char) -> bool {
    matches!(
        c,
        '\u{AD}' | '\u{34F}' | '\u{115F}' | '\u{1160}' | '\u{180E}' | '\u{200B}'..='\u{200F}'
            | '\u{2060}'..='\u{2064}' | '\u{206A}'..='\u{206F}' | '\u{3164}' | '\u{FEFF}' | '\u{FFA0}'
    )
}

/// Whether a character is not seen at all.
pub(super) fn is_invisible(c: char) -> bool {
    is_bidi(c) || is_tag(c) || is_selector(c) || is_zero_width(c)
}

/// Looks through a text.
pub(super) fn hidden(text: &str) -> Hidden {
    let mut found = Hidden::default();
    if text.is_ascii() {
        return found;
    }
    let mut flag = false;
    let (mut tags, mut selectors, mut zero_width) = (0, 0, 0);
    for (at, c) in text.char_indices() {
        if c.is_ascii() {
            (flag, tags, selectors, zero_width) = (false, 0, 0, 0);
            continue;
        }
        tags = if is_tag(c) { tags + 1 } else { 0 };
        selectors = if is_selector(c) { selectors + 1 } else { 0 };
        zero_width = if is_zero_width(c) { zero_width + 1 } else { 0 };
        if (tags > 0 && (!flag || tags > FLAG)) || selectors >= SELECTORS {
            found.tags.get_or_insert(at);
        }
        if zero_width >= ZERO_WIDTH {
            found.zero_width.get_or_insert(at);
        }
        if is_bidi(c) {
            found.bidi.get_or_insert(at);
        }
        flag = c == '\u{1F3F4}' || (flag && is_tag(c));
        found.right_to_left |=
            matches!(c, '\u{590}'..='\u{8FF}' | '\u{FB1D}'..='\u{FDFF}' | '\u{FE70}'..='\u{FEFC}');
    }
    found
}

/// The text as it reads: without what is not seen. Tags become the letters they stand for, since a model reads them.
/// Line ends stay where they are.
pub(super) fn seen(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || !text.chars().any(|c| is_invisible(c) || c == '\u{A0}') {
        return Cow::Borrowed(text);
    }
    let read = |c: char| match c {
        '\u{A0}' => Some(' '),
        '\u{E0020}'..='\u{E007E}' => char::from_u32(u32::from(c) - 0xE0000),
        c if is_invisible(c) => None,
        c => Some(c),
    };
    Cow::Owned(text.chars().filter_map(read).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_no_hidden_text() {
        let flag = "\u{1F3F4}\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F} hello";
        assert_eq!(hidden(flag).tags, None);
        assert!(hidden("hello\u{E0069}").tags.is_some());
        let long: String = std::iter::once('\u{1F3F4}').chain(std::iter::repeat_n('\u{E0061}', 40)).collect();
        assert!(hidden(&long).tags.is_some());
    }

    #[test]
    fn pictures_and_joiners_are_ordinary() {
        for text in ["👩\u{200D}👩\u{200D}👧 ❤\u{FE0F}", "نمی\u{200C}خواهم", "soft\u{AD}hyphen"]
        {
            let Hidden { bidi, tags, zero_width, .. } = hidden(text);
            assert_eq!((bidi, tags, zero_width), (None, None, None));
        }
        assert!(hidden(&"\u{200B}".repeat(8)).zero_width.is_some());
        assert!(hidden("a\u{202E}b").bidi.is_some());
    }

    #[test]
    fn hidden_letters_are_read() {
        assert_eq!(seen("ig\u{200B}nore\u{E0021}"), "ignore!");
        assert!(matches!(seen("plain — text"), Cow::Borrowed(_)));
    }
}
