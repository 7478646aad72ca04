//! End of a verb: exit codes after sysexits.h, and errors with the code that belongs to them.
//!
//! The mapping from error types to codes is in one function, so that a verb can use `?` and still end right.

use std::error::Error as StdError;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::config::ConfigError;
use crate::config::secret::SecretError;
use crate::db::migrations::MigrateError;
use crate::db::{DbError, DbErrorKind};
use crate::gateway::pubsub::SettingsError;
use crate::gateway::pubsub::admin::ProvisionError;
use crate::gateway::pubsub::error::{Fault, PubsubError};
use crate::gateway::pubsub::publisher::PublishError;
use crate::gateway::signed_url::SignError;
use crate::parts::PartError;
use crate::ports::SourceError;

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
    /// An error with its exit code.
    #[must_use]
    pub fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self { exit, error: error.into(), remedy: None }
    }

    /// Adds a remedy, where the error itself has none.
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

    /// Prints the error for people, on stderr.
    pub fn report(&self) {
        if self.exit == Exit::Done {
            return;
        }
        if writeln!(io::stderr(), "maple-router: {self}").is_err() {
            // No reader is left; the exit code still speaks.
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

/// The exit code of an error, by the first type in its chain that we know.
///
/// Errors that only wrap another are named here as well: a transparent wrapper hides its content from the chain.
fn exit_of(error: &anyhow::Error) -> Exit {
    error.chain().find_map(exit_of_cause).unwrap_or(Exit::FoundWanting)
}

fn exit_of_cause(cause: &(dyn StdError + 'static)) -> Option<Exit> {
    // A reader that closed our output has seen enough: `maple-router list | head` is no failure.
    if cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) {
        return Some(Exit::Done);
    }
    if cause.is::<ConfigError>() || cause.is::<SecretError>() || cause.is::<SettingsError>() {
        return Some(Exit::BadConfig);
    }
    None.or_else(|| cause.downcast_ref::<DbError>().map(|error| of_database(error.kind())))
        .or_else(|| cause.downcast_ref::<MigrateError>().map(of_migration))
        .or_else(|| cause.downcast_ref::<PubsubError>().map(of_pubsub))
        .or_else(|| cause.downcast_ref::<PublishError>().map(of_publishing))
        .or_else(|| cause.downcast_ref::<ProvisionError>().map(of_provisioning))
        .or_else(|| cause.downcast_ref::<SourceError>().map(of_source))
        .or_else(|| cause.downcast_ref::<SignError>().map(of_signing))
        .or_else(|| cause.downcast_ref::<PartError>().map(of_part))
}

fn of_database(kind: DbErrorKind) -> Exit {
    match kind {
        DbErrorKind::Unreachable | DbErrorKind::Busy => Exit::Unavailable,
        DbErrorKind::Contract => Exit::BadConfig,
        DbErrorKind::Bug => Exit::FoundWanting,
    }
}

fn of_migration(error: &MigrateError) -> Exit {
    match error {
        MigrateError::NotAlone(_) | MigrateError::NoWayBack { .. } => Exit::Usage,
        MigrateError::Undelivered { .. } => Exit::FoundWanting,
        MigrateError::NotOurs { .. }
        | MigrateError::Foundation { .. }
        | MigrateError::BothSides
        | MigrateError::Diverged { .. }
        | MigrateError::Occupied { .. }
        | MigrateError::Database { .. } => of_database(error.kind()),
    }
}

fn of_pubsub(error: &PubsubError) -> Exit {
    match error.fault {
        Fault::Transient => Exit::Unavailable,
        // The codes with which `run` ends for the same faults.
        Fault::NotFound | Fault::Unauthenticated => Exit::BadConfig,
        Fault::PermissionDenied | Fault::AlreadyExists | Fault::Refused => Exit::FoundWanting,
    }
}

fn of_publishing(error: &PublishError) -> Exit {
    match error {
        PublishError::Settings(_) => Exit::BadConfig,
        PublishError::Pubsub(error) => of_pubsub(error),
    }
}

fn of_provisioning(error: &ProvisionError) -> Exit {
    match error {
        ProvisionError::Settings(_) => Exit::BadConfig,
        ProvisionError::Pubsub(error) => of_pubsub(error),
    }
}

fn of_source(error: &SourceError) -> Exit {
    if error.needs_a_human() { Exit::BadConfig } else { Exit::Unavailable }
}

fn of_signing(error: &SignError) -> Exit {
    match error {
        SignError::Unreachable { .. } => Exit::Unavailable,
        SignError::Misconfigured { .. } => Exit::BadConfig,
        SignError::NotAllowed { .. } | SignError::UnsignableObject { .. } => Exit::FoundWanting,
    }
}

fn of_part(error: &PartError) -> Exit {
    match error {
        PartError::Secret(_)
        | PartError::Pubsub(_)
        | PartError::Slack(_)
        | PartError::Heartbeat(_)
        | PartError::Outbox(_)
        | PartError::Mail(_)
        | PartError::Audit(_)
        | PartError::HelpDesk(_)
        | PartError::Objects(_)
        | PartError::UploadsKey(_)
        | PartError::Judge(_)
        | PartError::Rules { .. }
        | PartError::Ruleset(_)
        | PartError::Scanner => Exit::BadConfig,
        PartError::Database(error) => of_database(error.kind()),
        PartError::Signer(error) => of_signing(error),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    fn wrapped<E: StdError + Send + Sync + 'static>(error: E) -> CliError {
        Err::<(), _>(error).context("while doing something").expect_err("an error").into()
    }

    /// The code of an error as it is, which must be that of the same error with words around it.
    fn code<E: StdError + Clone + Send + Sync + 'static>(error: &E) -> Exit {
        let bare = CliError::from(error.clone()).exit();
        assert_eq!(wrapped(error.clone()).exit(), bare, "{error}");
        bare
    }

    fn server(code: &str) -> DbError {
        DbError::Server { code: code.to_owned(), message: String::new(), object: String::new() }
    }

    fn pubsub(fault: Fault) -> PubsubError {
        PubsubError { fault, resource: "projects/p/topics/t".to_owned(), said: String::new() }
    }

    #[test]
    fn errors_end_in_the_code_that_belongs_to_them() {
        let missing = || ConfigError::Missing { path: "/x".into() };
        let empty = || SecretError::Empty { name: "pw", path: "/x".into() };
        let pipe = || io::Error::from(io::ErrorKind::BrokenPipe);
        let cases: Vec<(CliError, Exit)> = vec![
            (missing().into(), Exit::BadConfig),
            (wrapped(missing()), Exit::BadConfig),
            (empty().into(), Exit::BadConfig),
            (PartError::Secret(empty()).into(), Exit::BadConfig),
            (PartError::Mail("mail.from".to_owned()).into(), Exit::BadConfig),
            (pipe().into(), Exit::Done),
            (io::Error::from(io::ErrorKind::NotFound).into(), Exit::FoundWanting),
            (CliError::new(Exit::Unavailable, anyhow::anyhow!("down")), Exit::Unavailable),
            (anyhow::anyhow!("whatever").into(), Exit::FoundWanting),
        ];
        for (error, exit) in cases {
            assert_eq!(error.exit(), exit, "{error}");
        }
    }

    #[test]
    fn trouble_with_the_database_ends_by_its_kind() {
        let cases = [
            (DbError::Connection("refused".to_owned()), Exit::Unavailable),
            (server("28P01"), Exit::Unavailable),
            (DbError::PoolClosed, Exit::Unavailable),
            (server("55P03"), Exit::Unavailable),
            (server("42703"), Exit::BadConfig),
            (DbError::Settings("no host".to_owned()), Exit::BadConfig),
            (server("22012"), Exit::FoundWanting),
            (DbError::Shape("two rows".to_owned()), Exit::FoundWanting),
        ];
        for (error, exit) in cases {
            assert_eq!(code(&error), exit, "{error}");
            let part = PartError::Database(error.clone());
            assert_eq!(CliError::from(part).exit(), exit, "{error}");
            let migration = MigrateError::Database { what: "001".to_owned(), source: error };
            assert_eq!(CliError::from(migration).exit(), exit);
        }
        assert_eq!(CliError::from(MigrateError::NotAlone("5".to_owned())).exit(), Exit::Usage);
        assert_eq!(CliError::from(MigrateError::NotOurs { witness: "submissions" }).exit(), Exit::BadConfig);
    }

    #[test]
    fn trouble_with_pubsub_ends_by_its_fault() {
        let cases = [
            (Fault::Transient, Exit::Unavailable),
            (Fault::NotFound, Exit::BadConfig),
            (Fault::Unauthenticated, Exit::BadConfig),
            (Fault::PermissionDenied, Exit::FoundWanting),
            (Fault::Refused, Exit::FoundWanting),
            (Fault::AlreadyExists, Exit::FoundWanting),
        ];
        for (fault, exit) in cases {
            assert_eq!(code(&pubsub(fault)), exit, "{fault:?}");
            assert_eq!(code(&PublishError::Pubsub(pubsub(fault))), exit, "{fault:?}");
            assert_eq!(code(&ProvisionError::Pubsub(pubsub(fault))), exit, "{fault:?}");
        }
        let unset = SettingsError::Missing("topic");
        assert_eq!(code(&unset), Exit::BadConfig);
        assert_eq!(code(&PublishError::Settings(unset.clone())), Exit::BadConfig);
        assert_eq!(code(&ProvisionError::Settings(unset.clone())), Exit::BadConfig);
        assert_eq!(CliError::from(PartError::Pubsub(unset)).exit(), Exit::BadConfig);
        let subscription = || "projects/p/subscriptions/s".to_owned();
        let gone = SourceError::NotFound { subscription: subscription() };
        let down = SourceError::Transient { subscription: subscription(), said: String::new() };
        assert_eq!(code(&gone), Exit::BadConfig);
        assert_eq!(code(&down), Exit::Unavailable);
    }

    #[test]
    fn trouble_with_signing_ends_by_what_it_is() {
        let (why, remedy) = (String::new(), String::new());
        let cases = [
            (SignError::Unreachable { why: why.clone() }, Exit::Unavailable),
            (SignError::NotAllowed { why: why.clone(), remedy: remedy.clone() }, Exit::FoundWanting),
            (SignError::UnsignableObject { object: why.clone(), why: why.clone() }, Exit::FoundWanting),
            (SignError::Misconfigured { what: why, remedy }, Exit::BadConfig),
        ];
        for (error, exit) in cases {
            assert_eq!(code(&error), exit, "{error}");
            assert_eq!(CliError::from(PartError::Signer(error)).exit(), exit);
        }
    }
}
