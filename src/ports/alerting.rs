//! What the alerter exchanges with the webhook it posts to and with the room whose failures it tells of.

use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;
use uuid::Uuid;

/// What became of one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Posted {
    /// Confirmed: whoever reads there will find it.
    Sent,
    /// Too many; not again before this time has passed.
    RetryAfter(Duration),
    /// Trouble that goes away by itself, or an answer that was lost: perhaps it was taken.
    Retry(String),
    /// Refused, and a human has to act before it can work.
    Rejected {
        /// The server's words.
        said: String,
        /// This text is the trouble: another one may get through.
        only_this: bool,
    },
}

/// Where alerts go.
pub trait Webhook: Send + Sync + fmt::Debug {
    /// Posts one message. Never longer than its own timeout; never an error: what happened is the answer.
    fn post<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Posted>;
}

/// Failures with one cause that nobody was told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unalerted {
    /// The cause, as a key of a closed form; holds no address and no free text.
    pub cause: String,
    /// How many there are, as far as was counted.
    pub count: u64,
}

/// Failures that are ours to tell of until a lease ends, and what is told of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertLease {
    /// Marks the rows as ours.
    pub token: Uuid,
    /// The rows.
    pub rows: Vec<Uuid>,
    /// There were more than one lease may hold.
    pub more: bool,
    /// What is told.
    pub story: Story,
}

/// Where a host with the package finds the runbooks.
pub const RUNBOOKS: &str = "/usr/share/doc/maple-router/runbooks";

/// Where it is written what to do: a file of the package, and a heading in it.
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

/// What an alert says, before it is made a text. Nothing in it names a person.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Story {
    /// The cause in words.
    pub what: String,
    /// More lines, in words.
    pub details: Vec<String>,
    /// Commands to run: a shell takes each as it stands.
    pub commands: Vec<String>,
    /// What to read.
    pub runbook: Runbook,
}

/// Failures could not be read or marked; says why, without addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LedgerTrouble(pub String);

/// Failures that wait to be told of, kept where they outlive this process.
pub trait Failures: Send + Sync + fmt::Debug {
    /// The causes of failures nobody was told of and nobody is telling of now.
    fn unalerted(&self) -> BoxFuture<'_, Result<Vec<Unalerted>, LedgerTrouble>>;

    /// Takes the failures of a cause, for a lease; `None` where none is left.
    fn lease<'a>(&'a self, cause: &'a str) -> BoxFuture<'a, Result<Option<AlertLease>, LedgerTrouble>>;

    /// Records that they were told of. Answers how many: a failure that was replayed meanwhile is not among them.
    fn confirm<'a>(&'a self, lease: &'a AlertLease) -> BoxFuture<'a, Result<usize, LedgerTrouble>>;

    /// Lets go of what was not told of.
    fn give_back<'a>(&'a self, lease: &'a AlertLease) -> BoxFuture<'a, Result<(), LedgerTrouble>>;
}
