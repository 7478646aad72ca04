//! The few traits with two implementations, and the types that rooms and gateways exchange.
//!
//! Rooms never import each other and gateways know nothing of rooms' state: what both must name lives here.

mod alerting;
mod relay_log;
mod returned;

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use alerting::{
    AlertLease, Failures, LedgerTrouble, Posted, RUNBOOKS, Runbook, Story, Unalerted, Webhook,
};
pub use relay_log::{
    LogBatch, LogEntry, LogLine, QueueListing, QueuedMail, RecipientLine, RelayLog, RelayLogError,
    RelayStatus, SessionSummary,
};
pub use returned::{Returned, ReturnedKind, ReturnedRecipient};

/// The monotonic clock of this process. Wall-clock time comes from the database only (protocol, "Defaults").
pub trait Clock: Send + Sync + fmt::Debug {
    /// A monotonic reading; only differences mean anything.
    fn monotonic(&self) -> Instant;

    /// Resolves when this clock has moved on by `pause`.
    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()>;
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

/// An event's attributes, as the source gave them.
pub type Attributes = BTreeMap<String, String>;

/// What a worker answers to an event last, always after the commit (protocol, "settle").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Done with it: it does not come again.
    Ack,
    /// Bring it again later, by the source's own back-off: nothing is wrong with the event.
    Nack,
    /// It cannot be read, or names no submission. Comes again later, and counts against the event: whoever counts gives it
    /// up in the end and keeps the evidence.
    Reject,
    /// Its submission ended for want of attempts. Who keeps copies of what was given up keeps one of it; for everybody else
    /// this is done with, because the row alone alerts.
    Exhaust,
}

/// The right to settle one event, once. Dropping it nacks, so that a panic or a forgotten path loses time and
/// never an event. An answer after the source's stop has ended may be lost without a trace; the event then comes again.
#[must_use = "dropping it nacks the event"]
pub struct Settle(Option<Box<dyn FnOnce(Verdict) + Send>>);

impl Settle {
    /// Wraps what carries the answer to the source. It is called exactly once and must not block.
    pub fn new(answer: impl FnOnce(Verdict) + Send + 'static) -> Self {
        Self(Some(Box::new(answer)))
    }

    /// The event does not come again. Fire and forget: a lost ack is silent and ends in a redelivery.
    pub fn ack(self) {
        self.answer(Verdict::Ack);
    }

    /// The event comes again after the source's back-off; where the source counts deliveries, it is one.
    pub fn nack(self) {
        self.answer(Verdict::Nack);
    }

    /// The event is at fault, by [`Verdict::Reject`].
    pub fn reject(self) {
        self.answer(Verdict::Reject);
    }

    /// The event's submission ended for want of attempts, by [`Verdict::Exhaust`].
    pub fn exhaust(self) {
        self.answer(Verdict::Exhaust);
    }

    fn answer(mut self, verdict: Verdict) {
        if let Some(answer) = self.0.take() {
            answer(verdict);
        }
    }
}

impl Drop for Settle {
    fn drop(&mut self) {
        if let Some(answer) = self.0.take() {
            answer(Verdict::Nack);
        }
    }
}

impl fmt::Debug for Settle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Settle")
    }
}

/// One message as it came, not yet understood: whether it is an event is decided by the room it is for.
#[derive(Debug)]
pub struct Incoming {
    /// The source's id of the message; stays the same when it comes again.
    pub message_id: String,
    /// When the source accepted it, by the source's clock; only for the lag metric.
    pub published_at: Option<Timestamp>,
    /// Approximate count of deliveries, where the source counts them (1 = first).
    pub delivery_attempt: Option<i32>,
    /// Its attributes.
    pub attributes: Attributes,
    /// Its payload.
    pub data: Bytes,
    /// The right to answer it.
    pub settle: Settle,
}

/// Why a source gives no event. Each says what happened, to what, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The stream ended without a reason given; a new one may work at once.
    #[error("the event stream of {subscription} ended: it is built again, nothing to do")]
    Ended {
        /// Full name of the subscription.
        subscription: String,
    },
    /// There is no such subscription.
    #[error(
        "subscription {subscription} does not exist: create it with `maple-router provision`, or correct \
         [pubsub] project and subscription"
    )]
    NotFound {
        /// Full name of the subscription.
        subscription: String,
    },
    /// This identity may not do it.
    #[error("access to {subscription} was denied ({said}): grant this identity {role} on it")]
    PermissionDenied {
        /// Full name of the subscription.
        subscription: String,
        /// The role that is missing.
        role: &'static str,
        /// The server's words.
        said: String,
    },
    /// There are no usable credentials.
    #[error(
        "no valid credentials for {subscription} ({said}): run on a host with a service account, or set \
         GOOGLE_APPLICATION_CREDENTIALS"
    )]
    Unauthenticated {
        /// Full name of the subscription.
        subscription: String,
        /// The server's, or the credential library's words.
        said: String,
    },
    /// The server cannot be reached or is in trouble; it may work later by itself.
    #[error(
        "{subscription} cannot be reached now ({said}): it is tried again; see to network and endpoint if it lasts"
    )]
    Transient {
        /// Full name of the subscription.
        subscription: String,
        /// The server's words, or the network's.
        said: String,
    },
    /// The server understood and refused; trying again changes nothing.
    #[error("{subscription} refused the stream ({said}): compare its settings with `maple-router check`")]
    Refused {
        /// Full name of the subscription.
        subscription: String,
        /// The server's words.
        said: String,
    },
}

impl SourceError {
    /// Whether a human has to act before it can work again.
    #[must_use]
    pub fn needs_a_human(&self) -> bool {
        match self {
            Self::NotFound { .. }
            | Self::PermissionDenied { .. }
            | Self::Unauthenticated { .. }
            | Self::Refused { .. } => true,
            Self::Ended { .. } | Self::Transient { .. } => false,
        }
    }
}

/// Where events come from: Pub/Sub, or the outbox in PostgreSQL.
pub trait EventSource: Send {
    /// The next message; waits as long as there is none. Cancel-safe: a dropped future loses nothing.
    ///
    /// # Errors
    /// After an error the source is finished and must be built anew.
    fn next(&mut self) -> BoxFuture<'_, Result<Incoming, SourceError>>;

    /// Brings nothing until [`Self::resume`]: closes what events come through, so that nothing is delivered, or counted as
    /// delivered, meanwhile. What was handed out stays leased, and so does what was received and not handed out yet. By
    /// default nothing happens: a source that is not asked for its next event is paused enough.
    fn pause(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Brings events again after [`Self::pause`].
    fn resume(&mut self) {}

    /// Takes no more: closes what events come through, and gives back what was received and not handed out. What was
    /// handed out stays leased, and its answers still count; whatever is given back from now on goes to others.
    /// [`Self::next`] gives no event any more. Waits for nothing but ourselves. Cancel-safe; a second call changes
    /// nothing.
    fn quiet(&mut self) -> BoxFuture<'_, ()>;

    /// [`Self::quiet`], then waits until everything handed out is answered and the answers have been handed in.
    /// Returns whether that was so within `timeout`; what is answered later may be lost, and comes again.
    fn stop(self: Box<Self>, timeout: Duration) -> BoxFuture<'static, bool>;
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_settle_answers_once_and_dropping_it_nacks() {
        type Case = (fn(Settle), Verdict);
        let cases: [Case; 5] = [
            (Settle::ack, Verdict::Ack),
            (Settle::nack, Verdict::Nack),
            (Settle::reject, Verdict::Reject),
            (Settle::exhaust, Verdict::Exhaust),
            (drop, Verdict::Nack),
        ];
        for (settle, expected) in cases {
            let (answers, seen) = channel();
            settle(Settle::new(move |verdict| answers.send(verdict).unwrap()));
            assert_eq!(seen.iter().collect::<Vec<_>>(), [expected]);
        }
    }
}
