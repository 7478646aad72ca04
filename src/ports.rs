//! The few traits with two implementations, and the types that rooms and gateways exchange.
//!
//! Rooms never import each other and gateways know nothing of rooms' state: what both must name lives here.

use std::fmt;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The monotonic clock of this process. Wall-clock time comes from the database only (protocol, "Defaults").
pub trait Clock: Send + Sync + fmt::Debug {
    /// A monotonic reading; only differences mean anything.
    fn monotonic(&self) -> Instant;
}

/// Where in the making and sending of a mail something was decided: SMTP's own stages as SMTP writes them, ours in
/// lower case (data contract, "The ledger").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The destination itself: not an address, not an allowed domain, none at all, too many.
    Address,
    /// Subject or body could not be made from the pinned template.
    Template,
    /// A signed URL could not be made.
    Sign,
    /// TCP connect to the relay.
    Connect,
    /// The relay's greeting.
    Banner,
    /// EHLO.
    #[serde(rename = "EHLO")]
    Ehlo,
    /// STARTTLS.
    #[serde(rename = "STARTTLS")]
    Starttls,
    /// AUTH.
    #[serde(rename = "AUTH")]
    Auth,
    /// MAIL FROM.
    #[serde(rename = "MAIL")]
    Mail,
    /// RCPT TO of this recipient.
    #[serde(rename = "RCPT")]
    Rcpt,
    /// DATA, and the message up to the final dot.
    #[serde(rename = "DATA")]
    Data,
    /// From the final dot on.
    Dot,
    /// Our own fence stopped the send before the final dot (protocol §4).
    Fence,
}

/// What a server (or we ourselves) said: the evidence kept with an outcome.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Reply {
    /// SMTP reply code; absent where no server answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
    /// RFC 3463 enhanced status code, e.g. `5.1.1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enhanced: Option<String>,
    /// The text, control characters replaced, at most 500 characters. May contain addresses: scrub before logging.
    pub reply: String,
}

/// Why a delivery was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where it was decided.
    pub stage: Stage,
    /// What was said.
    pub reply: Reply,
    /// It concerns us or the relay, not this recipient: feeds the breaker (protocol, "Outcome").
    pub about_us: bool,
}

/// Outcome of one delivery: a value, never an `Err` (protocol, "Outcome of one delivery").
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// 250 to the final dot after this recipient's RCPT was accepted. Never sent again in this generation.
    Accepted {
        /// The relay's words.
        reply: Reply,
        /// The relay's queue id, where its reply names one.
        queue_id: Option<String>,
    },
    /// Permanent: never retried by itself.
    Refused(Fault),
    /// Transient: the delivery stays open.
    Deferred(Fault),
    /// Lost after the final dot was written: open, in doubt.
    Unknown(Fault),
    /// The action type has no client yet.
    NotImplemented,
}

impl Outcome {
    /// The closed label used in metrics and journal.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Accepted { .. } => "accepted",
            Self::Refused(_) => "refused",
            Self::Deferred(_) => "deferred",
            Self::Unknown(_) => "unknown",
            Self::NotImplemented => "not_implemented",
        }
    }
}

/// One object to be linked in a mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkRequest {
    /// GCS bucket name.
    pub bucket: String,
    /// GCS object name, as stored.
    pub object: String,
    /// File name offered to the reader (already stripped); signed as `response-content-disposition`.
    pub file_name: String,
    /// How long the link shall work: 1 s to 7 d.
    pub ttl: Duration,
}

/// A signed URL. Its `Debug` never shows the URL: whoever holds it can read the object.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedLink {
    /// The URL itself.
    pub url: String,
    /// The latest instant at which it works.
    pub valid_until: Timestamp,
}

impl fmt::Debug for SignedLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignedLink")
            .field("url", &"<redacted>")
            .field("valid_until", &self.valid_until)
            .finish()
    }
}

/// How bad a line of `check` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckLevel {
    /// As it should be.
    Ok,
    /// Works, but an operator should know.
    Warn,
    /// Must be mended.
    Fail,
}

/// One line of `maple-router check`; names are fixed by the interfaces page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckLine {
    /// `config`, `database`, `schema`, …
    pub name: &'static str,
    /// See [`CheckLevel`].
    pub level: CheckLevel,
    /// What was found, naming the thing.
    pub detail: String,
    /// What to do about it; absent when all is well.
    pub remedy: Option<String>,
}

impl CheckLine {
    /// A line that is well.
    #[must_use]
    pub fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, level: CheckLevel::Ok, detail: detail.into(), remedy: None }
    }

    /// A warning with its remedy.
    #[must_use]
    pub fn warn(name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, level: CheckLevel::Warn, detail: detail.into(), remedy: Some(remedy.into()) }
    }

    /// A failure with its remedy.
    #[must_use]
    pub fn fail(name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, level: CheckLevel::Fail, detail: detail.into(), remedy: Some(remedy.into()) }
    }
}
