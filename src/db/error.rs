//! What can go wrong with the database, and the one place that says which kind of trouble it is.
//!
//! An error keeps the server's message, its SQLSTATE and the names it mentions. It never keeps DETAIL or HINT or the
//! original error: those quote whole rows, and rows hold field values and recipients.

use std::error::Error as _;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::types::WrongType;

/// A call to the database that did not come to its end.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DbError {
    /// The server refused a statement or a session.
    #[error("the database says: {message} (SQLSTATE {code}{object})")]
    Server {
        /// SQLSTATE, five characters.
        code: String,
        /// The server's primary message.
        message: String,
        /// `, table t`, `, column c`, `, constraint k`: what the server names, ready to print.
        object: String,
    },
    /// No connection, or it broke: the network, TLS, the login, the server going away.
    #[error("the database cannot be reached: {0}")]
    Connection(String),
    /// The connection broke between COMMIT and its answer: committed or not, only the row itself can tell.
    #[error(
        "the connection broke while committing {name}: read the row again to learn whether it is committed ({source})"
    )]
    CommitUnknown {
        /// Name of the transaction.
        name: &'static str,
        /// How it broke.
        source: Box<DbError>,
    },
    /// Nothing came back for longer than the server itself would have worked; the connection is given up.
    #[error("{what} had no answer from the database within {after:?}; the connection was given up")]
    NoAnswer {
        /// What was being done.
        what: &'static str,
        /// How long it was waited for.
        after: Duration,
    },
    /// Every connection of the pool is taken.
    #[error(
        "no database connection became free within {after:?}: all {size} are in use (database.max_connections)"
    )]
    PoolExhausted {
        /// How long it was waited for.
        after: Duration,
        /// Size of the pool.
        size: usize,
    },
    /// The pool has been closed: the daemon is stopping.
    #[error("the database pool is closed because the daemon is stopping")]
    PoolClosed,
    /// The password file cannot be read.
    #[error("database.password_file {path}: {reason}; the daemon's user must be able to read it")]
    PasswordFile {
        /// The file.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// No access token for Cloud SQL IAM.
    #[error("no access token for the database (database.auth = \"iam\"): {0}")]
    Token(String),
    /// The connection settings contradict themselves or cannot be read.
    #[error("{0}")]
    Settings(String),
    /// The server's answer has another shape than the code expects: a type, a column, a number of rows.
    #[error("unexpected answer from the database: {0}")]
    Shape(String),
    /// The database's types are not those of the contract.
    #[error("a column or parameter has another type than the contract says: {0}")]
    WrongType(String),
}

/// What kind of trouble a [`DbError`] is; what follows from it is the caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DbErrorKind {
    /// Nobody there, or gone in the middle: feeds the breaker, goes away by itself.
    Unreachable,
    /// The database is not what the contract says (table, column, grant, enum value): a human must mend it.
    Contract,
    /// It is there and has no time: locks, timeouts, too many connections, conflicts. Worth another try.
    Busy,
    /// Ours: a statement or a value that can never work.
    Bug,
}

impl DbError {
    /// The one classifier of database trouble.
    #[must_use]
    pub fn kind(&self) -> DbErrorKind {
        match self {
            Self::Server { code, .. } => kind_of_sqlstate(code),
            Self::Connection(_)
            | Self::CommitUnknown { .. }
            | Self::NoAnswer { .. }
            | Self::PasswordFile { .. }
            | Self::Token(_) => DbErrorKind::Unreachable,
            Self::PoolExhausted { .. } | Self::PoolClosed => DbErrorKind::Busy,
            Self::Settings(_) | Self::WrongType(_) => DbErrorKind::Contract,
            Self::Shape(_) => DbErrorKind::Bug,
        }
    }

    /// SQLSTATE, where the server gave one.
    #[must_use]
    pub fn sqlstate(&self) -> Option<&str> {
        match self {
            Self::Server { code, .. } => Some(code),
            Self::CommitUnknown { source, .. } => source.sqlstate(),
            Self::Connection(_)
            | Self::NoAnswer { .. }
            | Self::PoolExhausted { .. }
            | Self::PoolClosed
            | Self::PasswordFile { .. }
            | Self::Token(_)
            | Self::Settings(_)
            | Self::Shape(_)
            | Self::WrongType(_) => None,
        }
    }

    /// The whole transaction can simply be done again: serialization failure or deadlock, nothing is committed.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Server { code, .. } if code == "40001" || code == "40P01")
    }
}

/// SQLSTATE classes are from appendix A of the PostgreSQL manual.
fn kind_of_sqlstate(code: &str) -> DbErrorKind {
    match code {
        // A standby after a failover; terminated sessions; login trouble, which a rotated password heals.
        "25006" | "57P01" | "57P02" | "57P03" | "57P04" | "57P05" => DbErrorKind::Unreachable,
        "22P02" | "42P01" => DbErrorKind::Contract, // enum value missing (or not of that type); table missing
        "42601" | "42P02" | "42P18" => DbErrorKind::Bug, // syntax, parameters
        "25P03" | "55006" | "55P03" | "57014" => DbErrorKind::Busy,
        _ => match code.get(..2).unwrap_or_default() {
            "08" | "28" | "58" => DbErrorKind::Unreachable,
            "3D" | "3F" | "42" => DbErrorKind::Contract,
            "40" | "53" => DbErrorKind::Busy,
            _ => DbErrorKind::Bug,
        },
    }
}

impl From<tokio_postgres::Error> for DbError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::from(&error)
    }
}

impl From<&tokio_postgres::Error> for DbError {
    fn from(error: &tokio_postgres::Error) -> Self {
        if let Some(said) = error.as_db_error() {
            let named =
                [("table", said.table()), ("column", said.column()), ("constraint", said.constraint())];
            let object =
                named.iter().filter_map(|(what, name)| Some(format!(", {what} {}", (*name)?))).collect();
            return Self::Server {
                code: said.code().code().to_owned(),
                message: said.message().to_owned(),
                object,
            };
        }
        let Some(cause) = error.source() else {
            // The crate keeps its kinds to itself; a closed connection is the only one without a cause that is not ours.
            let text = error.to_string();
            return if error.is_closed() || text.contains("timeout") {
                Self::Connection(text)
            } else {
                Self::Shape(text)
            };
        };
        if cause.is::<WrongType>() {
            return Self::WrongType(format!("{error}: {cause}"));
        }
        let text = error.to_string();
        if text.contains("deserializing") || text.contains("serializing") {
            // The cause may quote the value.
            return Self::Shape(text);
        }
        Self::Connection(chain(error))
    }
}

/// An error and its causes in one line; only for errors that quote no data.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(code: &str) -> DbError {
        DbError::Server { code: code.to_owned(), message: "m".to_owned(), object: String::new() }
    }

    #[test]
    fn every_sqlstate_we_may_meet_has_its_kind() {
        use DbErrorKind::{Bug, Busy, Contract, Unreachable};
        let table = [
            ("08006", Unreachable), // connection failure
            ("57P01", Unreachable), // administrator ended the session
            ("57P03", Unreachable), // starting up
            ("28P01", Unreachable), // wrong password
            ("25006", Unreachable), // standby after a failover
            ("58030", Unreachable), // I/O error
            ("42P01", Contract),    // table
            ("42703", Contract),    // column
            ("42501", Contract),    // grant, RLS
            ("22P02", Contract),    // enum value
            ("42883", Contract),    // operator for another type
            ("42804", Contract),    // type
            ("3D000", Contract),    // database
            ("3F000", Contract),    // schema
            ("55P03", Busy),        // lock timeout
            ("57014", Busy),        // statement timeout
            ("53300", Busy),        // too many connections
            ("53100", Busy),        // disk full
            ("40001", Busy),
            ("40P01", Busy),
            ("42601", Bug), // syntax
            ("23505", Bug), // unique violation
            ("22003", Bug), // out of range
            ("XX000", Bug),
        ];
        for (code, kind) in table {
            assert_eq!(server(code).kind(), kind, "{code}");
        }
    }

    #[test]
    fn only_conflicts_are_repeated_blindly() {
        for (code, conflict) in
            [("40001", true), ("40P01", true), ("40003", false), ("55P03", false), ("57014", false)]
        {
            assert_eq!(server(code).is_conflict(), conflict, "{code}");
        }
        let lost = DbError::CommitUnknown { name: "t", source: Box::new(server("40001")) };
        assert!(!lost.is_conflict(), "an unknown commit must be looked at, not repeated");
        assert_eq!(lost.kind(), DbErrorKind::Unreachable);
    }
}
