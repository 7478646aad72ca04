//! Output of results: stdout, without panicking when the reader goes away.

use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use clap::ColorChoice;
use serde::Serialize;

use super::CliError;
use super::layout::folded;
pub(super) use crate::queries::layout::Palette;
use crate::scrub::is_bidi_control;

/// Prints text and a line break.
pub(super) fn text(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Prints one JSON document. Control characters that JSON allows unescaped (C1, DEL) and those that change the
/// direction of text are escaped as well: a terminal shows the text of others and obeys none of it.
pub(super) fn json(value: &impl Serialize) -> Result<(), CliError> {
    text(&harmless(&serde_json::to_string_pretty(value)?))
}

/// Prints one JSON document on one line.
pub(super) fn json_line(value: &impl Serialize) -> Result<(), CliError> {
    text(&harmless(&serde_json::to_string(value)?))
}

/// Prints a result as one JSON document, or as text for people.
pub(super) fn either(
    json: bool,
    value: &impl Serialize,
    people: impl FnOnce() -> String,
) -> Result<(), CliError> {
    if json { self::json(value) } else { text(&people()) }
}

/// Such characters stand in strings only, where an escape means the same.
fn harmless(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        let code = u32::from(c);
        if matches!(code, 0x7f..=0x9f) || is_bidi_control(c) {
            out.push_str(&format!("\\u{code:04x}"));
        } else {
            out.push(c);
        }
    }
    out
}

/// Prints a note for people beside the result, on stderr.
pub(super) fn note(text: &str) -> Result<(), CliError> {
    Ok(writeln!(io::stderr(), "{text}")?)
}

/// Asks a person at a terminal, on stderr; `None` where there is none, and nothing was asked.
pub(super) fn ask(question: &str) -> Result<Option<bool>, CliError> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(None);
    }
    write!(io::stderr(), "{question}")?;
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(Some(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")))
}

/// Prints text for people: lines longer than the terminal continue below, indented.
pub(super) fn page(text: &str) -> Result<(), CliError> {
    self::text(&folded(text, columns()))
}

/// Columns of a person's terminal: COLUMNS where set, else the terminal's; `None` where results go elsewhere.
pub(super) fn columns() -> Option<usize> {
    let terminal =
        || terminal_size::terminal_size_of(io::stdout()).map(|(terminal_size::Width(wide), _)| wide.into());
    wide(std::env::var_os("COLUMNS").as_deref(), terminal)
}

/// Narrower than any result is laid out for.
const NARROWEST: usize = 40;

fn wide(columns: Option<&OsStr>, terminal: impl FnOnce() -> Option<usize>) -> Option<usize> {
    let said = columns.and_then(OsStr::to_str).and_then(|text| text.parse().ok()).filter(|wide| *wide > 0);
    said.or_else(terminal).map(|wide| wide.max(NARROWEST))
}

/// Progress of a bulk verb, shown to a person at a terminal and to nobody else.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    total: usize,
    shown: bool,
}

impl Progress {
    /// Progress of `total` items.
    pub(super) fn of(total: usize) -> Self {
        Self { total, shown: total > 1 && io::stderr().is_terminal() }
    }

    /// Shows that `done` items are done.
    pub(super) fn at(self, done: usize) {
        self.say(&format!("\r{done}/{}", self.total));
    }

    /// Clears the line for the output after it.
    pub(super) fn end(self) {
        self.say("\r\u{1b}[K");
    }

    fn say(self, text: &str) {
        if self.shown && write!(io::stderr(), "{text}").and_then(|()| io::stderr().flush()).is_err() {
            // Nobody looks any more.
        }
    }
}

/// `--color`, set once at the start.
static WANTED: OnceLock<ColorChoice> = OnceLock::new();

/// Keeps the value of `--color`, for every palette of this process.
pub(super) fn colour(wanted: ColorChoice) {
    // No second call is made.
    let _first = WANTED.set(wanted);
}

/// `--color` wins over `NO_COLOR` (which must not be empty to count), and that over the terminal.
fn is_on(wanted: ColorChoice, terminal: bool, no_color: Option<&OsStr>) -> bool {
    match wanted {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => terminal && no_color.is_none_or(OsStr::is_empty),
    }
}

impl Palette {
    /// The palette for stdout as it is, and as `--color` wants it.
    pub(in crate::cli) fn of_stdout() -> Self {
        let wanted = WANTED.get().copied().unwrap_or(ColorChoice::Auto);
        Self::of(is_on(wanted, io::stdout().is_terminal(), std::env::var_os("NO_COLOR").as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_unless_somebody_says_otherwise() {
        let none = Some(OsStr::new("1"));
        for (wanted, terminal, no_color, on) in [
            (ColorChoice::Auto, true, None, true),
            (ColorChoice::Auto, true, Some(OsStr::new("")), true),
            (ColorChoice::Auto, true, none, false),
            (ColorChoice::Auto, false, None, false),
            (ColorChoice::Always, false, none, true),
            (ColorChoice::Never, true, None, false),
        ] {
            assert_eq!(is_on(wanted, terminal, no_color), on, "{wanted:?} {terminal} {no_color:?}");
        }
    }

    #[test]
    fn the_width_is_what_columns_says_else_the_terminals() {
        let columns = Some(OsStr::new("60"));
        assert_eq!(wide(columns, || Some(120)), Some(60));
        assert_eq!(wide(columns, || None), Some(60), "also where results go elsewhere");
        for nothing in [None, Some(OsStr::new("")), Some(OsStr::new("0")), Some(OsStr::new("wide"))] {
            assert_eq!((wide(nothing, || Some(80)), wide(nothing, || None)), (Some(80), None), "{nothing:?}");
        }
        assert_eq!(wide(None, || Some(3)), Some(NARROWEST));
    }

    #[test]
    fn json_moves_no_cursor_and_stays_the_same() {
        let value = serde_json::json!({"reply": "a\u{9b}31m\u{7f}\u{202e}b\u{1b}[0m ä"});
        let shown = harmless(&value.to_string());
        assert!(!shown.chars().any(|c| c.is_control() || is_bidi_control(c)), "{shown:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).expect("JSON"), value);
    }
}
