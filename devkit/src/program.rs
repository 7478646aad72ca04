//! Common parts of devkit's programs: which router they take, how they print a line, and how they end.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

/// The router that was asked for, or the one beside this program.
///
/// # Errors
/// The system does not say where this program is.
pub fn router(asked: Option<PathBuf>) -> Result<PathBuf> {
    match asked {
        Some(binary) => Ok(binary),
        None => {
            let own = std::env::current_exe().context("finding this program's own file")?;
            Ok(own.with_file_name("maple-router"))
        }
    }
}

/// Prints one line for the reader.
pub fn say(line: &str) {
    if writeln!(io::stdout(), "{line}").is_err() {
        // The reader has gone; the exit code still speaks.
    }
}

/// 0 only where everything was as it must be; an error is printed under the program's name.
#[must_use]
pub fn ended(name: &str, ended: Result<bool>) -> ExitCode {
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => failed(name, &error),
    }
}

/// Prints an error under the program's name.
#[must_use]
pub fn failed(name: &str, error: &anyhow::Error) -> ExitCode {
    if writeln!(io::stderr(), "{name}: {error:#}").is_err() {
        // The reader has gone; the exit code still speaks.
    }
    ExitCode::FAILURE
}
