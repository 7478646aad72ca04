//! Errors of the database, and the one classifier of their kinds.
//!
//! An error stores the server's message, its SQLSTATE and the names it mentions, and never DETAIL, HINT or the original
//! error: those quote whole rows, and rows contain field values and recipients.

use std::error::Error as _;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::types::WrongType;

use crate::kernel::NotPossible;

/// A failed call to the database.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DbError {
    /// The server refused a statement or a session.
    #[error("the database says: {message} (SQLSTATE {code}{object})")]
    Server {
        /// SQLSTATE, five characters.
        code: String,
        /// The server's primary message.
        message: String,
        /// `, table t`, `, column c`, `, constraint k`, `, function f`: the names that the server gives, ready to print.
        object: String,
    },
    /// No connection, or a broken one: the network, TLS, the login, the server going away.
    #[error("the database cannot be reached: {0}")]
    Connection(String),
    /// The connection broke between COMMIT and its answer: only the row itself can tell whether it is committed.
    #[error(
        "the connection broke while committing {name}: read the row again to learn whether it is committed ({source})"
    )]
    CommitUnknown {
        /// Name of the transaction.
        name: &'static str,
        /// The cause of the break.
        source: Box<DbError>,
    },
    /// No answer came for longer than the server itself would have worked; the connection is given up.
    #[error("{what} had no answer from the database within {after:?}; the connection was given up")]
    NoAnswer {
        /// The call without an answer.
        what: &'static str,
        /// The time waited.
        after: Duration,
    },
    /// Every connection of the pool is in use.
    #[error(
        "no database connection became free within {after:?}: all {size} are in use (database.max_connections)"
    )]
    PoolExhausted {
        /// The time waited.
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
        /// The system's message.
        reason: String,
    },
    /// No access token for Cloud SQL IAM.
    #[error("no access token for the database (database.auth = \"iam\"): {0}")]
    Token(String),
    /// The connection settings contradict themselves or cannot be read.
    #[error("{0}")]
    Settings(String),
    /// The server's answer has an unexpected shape: a type, a column, a number of rows.
    #[error("unexpected answer from the database: {0}")]
    Shape(String),
    /// Rows may be invisible: an infected attachment, or a whole submission, would be taken for absent (P6). Nothing was
    /// decided or written.
    #[error(
        "rows of {0} may be hidden by row-level security, or another object has that name: what is not found may be there all \
         the same; see `maple-router check`"
    )]
    Hidden(&'static str),
    /// The database's types are not those of the contract.
    #[error("a column or parameter has another type than the contract says: {0}")]
    WrongType(String),
}

/// `read_only_sql_transaction`.
pub const READ_ONLY: &str = "25006";

/// The kind of trouble a [`DbError`] is; the caller decides what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DbErrorKind {
    /// The server is away, or went away in the middle: feeds the breaker, passes by itself.
    Unreachable,
    /// The database is not what the contract says (table, column, grant, enum value): a person must mend it.
    Contract,
    /// The server is there and busy: locks, timeouts, too many connections, conflicts. Worth another attempt.
    Busy,
    /// A fault of ours: a statement or a value that can never work.
    Bug,
}

impl From<NotPossible> for DbError {
    /// A row was in a state that has no edge for the program's command.
    fn from(refusal: NotPossible) -> Self {
        Self::Shape(refusal.to_string())
    }
}

impl DbError {
    /// Returns the kind of trouble: the one classifier.
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
            Self::Settings(_) | Self::WrongType(_) | Self::Hidden(_) => DbErrorKind::Contract,
            Self::Shape(_) => DbErrorKind::Bug,
        }
    }

    /// Returns the SQLSTATE, where the server gave one.
    #[must_use]
    pub fn sqlstate(&self) -> Option<&str> {
        if let Self::CommitUnknown { source, .. } = self {
            return source.sqlstate();
        }
        let Self::Server { code, .. } = self else { return None };
        Some(code)
    }

    /// Whether a new connection may work where this one no longer does: its prepared statements are out of date (0A000,
    /// "cached plan must not change result type"; XX000, an object that the server's own caches miss), unknown or another
    /// client's (26000, 42P05, 08P01), or its session started read-only (25006). Nothing is committed.
    #[must_use]
    pub fn wants_a_new_connection(&self) -> bool {
        const CODES: [&str; 6] = ["0A000", "08P01", READ_ONLY, "26000", "42P05", "XX000"];
        matches!(self, Self::Server { code, .. } if CODES.contains(&code.as_str()))
    }

    /// Whether a statement about many rows may have failed because of one of them: a constraint, a trigger or a policy that
    /// keeps a row from its write, or a value that does not fit. Connection, session, time and conflicts do
    /// not count: each row alone would meet the same; trouble with the contract counts only where a function raised it.
    #[must_use]
    pub fn may_be_of_a_row(&self) -> bool {
        let Self::Server { object, .. } = self else { return matches!(self, Self::Shape(_)) };
        match self.kind() {
            DbErrorKind::Bug => !self.wants_a_new_connection(),
            DbErrorKind::Contract => object.contains(", function "),
            DbErrorKind::Unreachable | DbErrorKind::Busy => false,
        }
    }

    /// Returns the culprit's names: SQLSTATE, table, constraint, the function that raised it. The server's message is left
    /// out, since a trigger may have made it of the row's contents.
    #[must_use]
    pub fn named(&self) -> String {
        let Self::Server { code, object, .. } = self else { return self.to_string() };
        format!("SQLSTATE {code}{object}")
    }

    /// Whether a statement's name is unknown, taken, or another client's: the sign of a proxy that pools transactions.
    #[must_use]
    pub fn speaks_of_other_sessions(&self) -> bool {
        matches!(self, Self::Server { code, .. } if code == "08P01" || code == "26000" || code == "42P05")
    }

    /// The error of a read-only session, as the server would give it.
    pub(super) fn read_only() -> Self {
        Self::Server {
            code: READ_ONLY.to_owned(),
            message: "the database takes no writes: it is a standby, or default_transaction_read_only is on"
                .to_owned(),
            object: String::new(),
        }
    }

    /// Whether the whole transaction can simply be repeated: serialization failure or deadlock, nothing is committed.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Server { code, .. } if code == "40001" || code == "40P01")
    }
}

/// SQLSTATE classes are from appendix A of the PostgreSQL manual.
fn kind_of_sqlstate(code: &str) -> DbErrorKind {
    match code {
        // A standby after a failover; terminated sessions; login trouble, which a rotated password heals.
        READ_ONLY | "57P01" | "57P02" | "57P03" | "57P04" | "57P05" => DbErrorKind::Unreachable,
        "22P02" | "42P01" => DbErrorKind::Contract, // enum value missing (or not of that type); table missing
        "42601" | "42P02" | "42P18" => DbErrorKind::Bug, // syntax, parameters
        // 26000 and 42P05: statement names of a proxy's other clients; the next session may be another.
        "25P03" | "26000" | "42P05" | "55006" | "55P03" | "57014" => DbErrorKind::Busy,
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
            let named = [
                ("table", said.table()),
                ("column", said.column()),
                ("constraint", said.constraint()),
                ("function", said.where_().and_then(function_of)),
            ];
            let object =
                named.iter().filter_map(|(what, name)| Some(format!(", {what} {}", (*name)?))).collect();
            return Self::Server {
                code: said.code().code().to_owned(),
                message: said.message().to_owned(),
                object,
            };
        }
        let Some(cause) = error.source() else {
            // The crate exports no kinds; of errors without a cause only a closed connection is not our fault.
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

/// The raising function's name from the server's CONTEXT; the rest of it may quote a statement and its values.
fn function_of(context: &str) -> Option<&str> {
    let called = context.lines().next()?.strip_prefix("PL/pgSQL function ")?;
    let name = called.split_once('(')?.0;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    Some(name).filter(|name| !name.is_empty() && name.len() <= 127 && name.chars().all(is_plain))
}

/// Returns an error and its causes in one line; only for errors that quote no data.
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
            ("26000", Busy), // prepared statement unknown
            ("42P05", Busy), // prepared statement there already
            ("42601", Bug),  // syntax
            ("23505", Bug),  // unique violation
            ("22003", Bug),  // out of range
            ("XX000", Bug),
        ];
        for (code, kind) in table {
            assert_eq!(server(code).kind(), kind, "{code}");
        }
    }

    #[test]
    fn a_raising_trigger_is_named_by_its_function_and_by_nothing_of_the_row() {
        let table = [
            ("PL/pgSQL function no_bounces() line 3 at RAISE", Some("no_bounces")),
            (
                "PL/pgSQL function audit.guard(integer,text) line 3 at RAISE\nSQL statement \"…\"",
                Some("audit.guard"),
            ),
            ("SQL statement \"SELECT 'bob@x.test'\"\nPL/pgSQL function f() line 1 at PERFORM", None),
            ("PL/pgSQL function \"bob@x.test\"() line 1 at RAISE", None),
            ("PL/pgSQL function inline_code_block line 1 at RAISE", None),
            ("", None),
        ];
        for (context, function) in table {
            assert_eq!(function_of(context), function, "{context}");
        }
        let raised = DbError::Server {
            code: "P0001".to_owned(),
            message: "no bob@x.test here".to_owned(),
            object: ", function no_bounces".to_owned(),
        };
        assert_eq!(raised.named(), "SQLSTATE P0001, function no_bounces");
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
