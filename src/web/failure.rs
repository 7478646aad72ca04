//! Meaning of a failed statement for whoever asks: the kind alone reaches an answer, and the journal has the names.

use super::name::Name;
use crate::db::{DbError, DbErrorKind};

/// SQLSTATEs of a schema, a table or a function that is not there, or that this role may not use.
const NOT_THERE: [&str; 4] = ["3F000", "42P01", "42883", "42501"];

/// What whoever asks is told of a failed statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The database went away before it said whether the change is made.
    CommitUnknown,
    /// The database does not answer, or takes no writes.
    Away,
    /// The database is waited for too long.
    Busy,
    /// The tables are not there, or this role may not use them.
    NotInstalled,
    /// A fault of ours.
    Ours,
}

impl Failure {
    /// The meaning of `error`, which is logged as one of the surface of this `name`.
    #[must_use]
    pub fn of(name: &Name, error: &DbError) -> Self {
        let named = error.named();
        match error.kind() {
            DbErrorKind::Unreachable if matches!(error, DbError::CommitUnknown { .. }) => {
                tracing::warn!("{name} does not know whether a change was made: {named}");
                Self::CommitUnknown
            }
            DbErrorKind::Unreachable => {
                tracing::warn!("{name} could not reach the database: {named}");
                Self::Away
            }
            DbErrorKind::Busy => {
                tracing::warn!("{name} gave up waiting for the database: {named}");
                Self::Busy
            }
            DbErrorKind::Contract if error.sqlstate().is_some_and(|code| NOT_THERE.contains(&code)) => {
                tracing::warn!("{name}'s tables cannot be used: {named}");
                Self::NotInstalled
            }
            DbErrorKind::Contract | DbErrorKind::Bug => {
                tracing::error!("a statement of {name} failed: {named}");
                Self::Ours
            }
        }
    }
}
