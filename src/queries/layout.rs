//! Text for people, wherever it is shown: wrapped under itself, with spans in the unit that matters, and colours for a terminal.
//!
//! Pure.

/// Text wrapped at spaces: the first line begins with `first`, the others with `indent` spaces. No line is longer than
/// `width`, but for a word that is.
pub(crate) fn wrapped(first: &str, indent: usize, text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut empty) = (first.to_owned(), true);
    for word in text.split(' ') {
        if !empty && chars(&line) + 1 + chars(word) > width {
            // Indentation alone is no line.
            if !line.trim().is_empty() {
                lines.push(line.trim_end().to_owned());
            }
            (line, empty) = (" ".repeat(indent), true);
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push(line.trim_end().to_owned());
    lines
}

/// `59s`, `90m`, `47h`, `3d`: a time in the unit that matters.
pub(crate) fn span(seconds: u64) -> String {
    match seconds {
        s @ 0..=119 => format!("{s}s"),
        s @ 120..=7199 => format!("{}m", s / 60),
        s @ 7200..=172_799 => format!("{}h", s / 3600),
        s => format!("{}d", s / 86_400),
    }
}

/// Visible characters: colours are none.
pub(crate) fn chars(text: &str) -> usize {
    let mut parts = text.split("\u{1b}[");
    let plain = parts.next().map_or(0, |text| text.chars().count());
    plain
        + parts.map(|part| part.split_once('m').map_or(part, |(_, text)| text).chars().count()).sum::<usize>()
}

/// Colours, where a person looks at a terminal and has not asked for none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Palette {
    on: bool,
}

impl Palette {
    /// Colours, where `on`.
    pub(crate) const fn of(on: bool) -> Self {
        Self { on }
    }

    /// A palette that never colours.
    pub(crate) const PLAIN: Self = Self { on: false };

    /// Colour of good states.
    pub(crate) fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// Colour of states to be looked at.
    pub(crate) fn yellow(self, text: &str) -> String {
        self.paint("33", text)
    }

    /// Colour of bad states.
    pub(crate) fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.on { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}
