//! The types that the alerter exchanges with its webhook and with the room whose failures it reports.

use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;
use uuid::Uuid;

/// The result of posting one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Posted {
    /// Confirmed: the message is in the channel.
    Sent,
    /// Too many messages: no other before this time has passed.
    RetryAfter(Duration),
    /// Trouble that passes by itself, or a lost answer: the message may have been taken.
    Retry(String),
    /// Refused: a person has to act before a message can get through.
    Rejected {
        /// The server's words.
        said: String,
        /// Only this text is refused: another may get through.
        only_this: bool,
    },
}

/// The target of alerts.
pub trait Webhook: Send + Sync + fmt::Debug {
    /// Posts one message. Never longer than its own timeout; the result is a value, never an error.
    fn post<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Posted>;
}

/// Failures of one cause that nobody was notified of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unalerted {
    /// The cause, as a key of a closed form; contains no address and no free text.
    pub cause: String,
    /// Number of failures, as far as was counted.
    pub count: u64,
}

/// Failures leased to this process for notification, and the text about them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertLease {
    /// The lease's fence in the rows.
    pub token: Uuid,
    /// The rows.
    pub rows: Vec<Uuid>,
    /// More rows exist than one lease may take.
    pub more: bool,
    /// The text about them.
    pub story: Story,
}

/// Directory of the runbooks on a host with the package.
pub const RUNBOOKS: &str = "/usr/share/doc/maple-router/runbooks";

/// A reference to a runbook: a file of the package, and a heading in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Runbook {
    /// File name.
    pub file: &'static str,
    /// The heading.
    pub section: &'static str,
}

impl fmt::Display for Runbook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{RUNBOOKS}/{}, section {}", self.file, self.section)
    }
}

/// The contents of an alert, before they become a text. None of them names a person.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Story {
    /// The cause in words.
    pub what: String,
    /// More lines, in words.
    pub details: Vec<String>,
    /// Commands to run, each ready for a shell.
    pub commands: Vec<String>,
    /// The runbook to read.
    pub runbook: Runbook,
}

/// Why failures could not be read or marked, without addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LedgerTrouble(pub String);

/// Failures that await notification, stored where they outlive this process.
pub trait Failures: Send + Sync + fmt::Debug {
    /// Returns the causes of failures that nobody was notified of and that are not leased.
    fn unalerted(&self) -> BoxFuture<'_, Result<Vec<Unalerted>, LedgerTrouble>>;

    /// Leases the failures of a cause; `None` where none is left.
    fn lease<'a>(&'a self, cause: &'a str) -> BoxFuture<'a, Result<Option<AlertLease>, LedgerTrouble>>;

    /// Records that people were notified. Returns the number of failures; one that was replayed meanwhile does not count.
    fn confirm<'a>(&'a self, lease: &'a AlertLease) -> BoxFuture<'a, Result<usize, LedgerTrouble>>;

    /// Ends the lease of failures that nobody was notified of.
    fn give_back<'a>(&'a self, lease: &'a AlertLease) -> BoxFuture<'a, Result<(), LedgerTrouble>>;
}
