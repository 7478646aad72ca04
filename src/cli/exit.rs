//! How a verb ends: exit codes after sysexits.h, and errors with the code that belongs to them.
//!
//! The mapping from error types to codes is in one function, so that a verb can use `?` and still end right.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::config::ConfigError;
use crate::config::secret::SecretError;

/// Exit codes (interfaces page, "Commands").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Found wanting, or failed.
    FoundWanting = 1,
    /// Called wrongly.
    Usage = 2,
    /// A dependency is unavailable.
    Unavailable = 69,
    /// Bad configuration, or a database that does not meet the contract.
    BadConfig = 78,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a verb could not end well. Has no `std::error::Error`, so that every such type can become one with `?`.
#[derive(Debug)]
pub struct CliError {
    exit: Exit,
    error: anyhow::Error,
    remedy: Option<String>,
}

impl CliError {
    /// An error with the code it ends in.
    #[must_use]
    pub fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self { exit, error: error.into(), remedy: None }
    }

    /// Says what to do, where the error itself does not.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// The exit code.
    #[must_use]
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// Tells people, on stderr.
    pub fn report(&self) {
        if self.exit == Exit::Done {
            return;
        }
        if writeln!(io::stderr(), "maple-router: {self}").is_err() {
            // Nobody listens; the exit code still speaks.
        }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.error)?;
        match &self.remedy {
            Some(remedy) => write!(f, "\n  remedy: {remedy}"),
            None => Ok(()),
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for CliError {
    fn from(error: E) -> Self {
        let error = error.into();
        Self { exit: exit_of(&error), error, remedy: None }
    }
}

/// The code an error ends in, by the first type in its chain that we know.
fn exit_of(error: &anyhow::Error) -> Exit {
    for cause in error.chain() {
        if cause.is::<ConfigError>() || cause.is::<SecretError>() {
            return Exit::BadConfig;
        }
        // Whoever read our output has seen enough: `maple-router list | head` is no failure.
        if cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) {
            return Exit::Done;
        }
    }
    Exit::FoundWanting
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn errors_end_in_the_code_that_belongs_to_them() {
        let missing = || ConfigError::Missing { path: "/x".into() };
        let pipe = || io::Error::from(io::ErrorKind::BrokenPipe);
        let cases: Vec<(CliError, Exit)> = vec![
            (missing().into(), Exit::BadConfig),
            (
                Err::<(), _>(missing()).context("while starting").expect_err("an error").into(),
                Exit::BadConfig,
            ),
            (pipe().into(), Exit::Done),
            (io::Error::from(io::ErrorKind::NotFound).into(), Exit::FoundWanting),
            (CliError::new(Exit::Unavailable, anyhow::anyhow!("down")), Exit::Unavailable),
        ];
        for (error, exit) in cases {
            assert_eq!(error.exit(), exit, "{error}");
        }
    }
}
