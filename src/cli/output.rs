//! Where results are printed: stdout, without panicking when the reader goes away.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use super::CliError;

/// Prints text and a line break.
pub(super) fn text(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Prints one JSON document.
pub(super) fn json(value: &impl Serialize) -> Result<(), CliError> {
    text(&serde_json::to_string_pretty(value)?)
}

/// Colours, where a person looks at a terminal and has not asked for none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Palette {
    on: bool,
}

impl Palette {
    /// For stdout as it is.
    pub(super) fn of_stdout() -> Self {
        Self { on: io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() }
    }

    /// Never colours.
    #[cfg(test)]
    pub(super) const PLAIN: Self = Self { on: false };

    /// Good.
    pub(super) fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// To be looked at.
    pub(super) fn yellow(self, text: &str) -> String {
        self.paint("33", text)
    }

    /// Bad.
    pub(super) fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.on { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}
