//! The few traits with two implementations, and the types that rooms and gateways exchange.
//!
//! Rooms never import each other and gateways know nothing of rooms' state: the names that both need are here.

mod alerting;
mod judge;
mod message;
mod relay_log;
mod returned;
mod spooled;
mod tickets;

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::kernel::words;

pub use alerting::{
    AlertLease, Failures, LedgerTrouble, Posted, RUNBOOKS, Runbook, Story, Unalerted, Webhook,
};
pub use judge::{Chat, Inquiry, InvalidAnswer, Reading};
pub use message::{BASE64_LINE, Message, Piece, encoded_length};
pub use relay_log::{
    LogBatch, LogEntry, LogLine, QueueListing, QueuedMail, RecipientLine, RelayLog, RelayLogError,
    RelayStatus, SessionSummary,
};
pub use returned::{Returned, ReturnedKind, ReturnedRecipient};
pub use spooled::Spooled;
pub use tickets::{Creation, FileContent, NewTicket, TicketFile, TicketRef, Unanswered};

/// The monotonic clock of this process. Wall-clock time comes from the database only (protocol, "Defaults").
pub trait Clock: Send + Sync + fmt::Debug {
    /// A monotonic reading; only differences mean anything.
    fn monotonic(&self) -> Instant;

    /// Resolves when this clock has moved on by `pause`.
    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()>;
}

/// The stage of making and sending a mail or a ticket at which something was decided: SMTP's and HTTP's own stages as they
/// write them, ours in lower case (data contract, "The ledger").
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
    /// The final dot, and everything after it.
    Dot,
    /// Our own fence stopped the send before the final dot, or before a ticket's content was written (protocol §4).
    Fence,
    /// The contact of a ticket: no address that can be sent.
    Contact,
    /// The category of a ticket: unknown, or not public.
    Category,
    /// A custom field of a ticket: unknown, or without such a choice.
    Field,
    /// A question to the help desk: its lists, or a search.
    #[serde(rename = "GET")]
    Get,
    /// The creation of a ticket.
    #[serde(rename = "POST")]
    Post,
}

words! {
    /// Kind of a dead letter that is recorded, because no submission's row shows it.
    RecordKind {
        /// The message cannot be read.
        Unreadable = "unreadable",
        /// The submission does not exist.
        UnknownSubmission = "unknown_submission",
        /// A notification could not be sent to whom it was for.
        Notification = "notification",
    }
}

/// A reply of a server, or our own words: the evidence kept with an outcome.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Reply {
    /// SMTP reply code or HTTP status; absent where no server answered.
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
    /// The stage at which it was decided.
    pub stage: Stage,
    /// The reply or our words.
    pub reply: Reply,
    /// Whether the fault concerns us, the relay or the help desk, not this recipient or ticket: then it feeds the breaker
    /// (protocol, "Outcome").
    pub about_us: bool,
}

impl Fault {
    /// Whether the relay says that the message is too large (RFC 1870 §6.1 at MAIL, later at the data), not that a mailbox is
    /// full.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        let at_the_message = matches!(self.stage, Stage::Mail | Stage::Data | Stage::Dot);
        let enhanced = self.reply.enhanced.as_deref();
        at_the_message && (self.reply.code == Some(552) || matches!(enhanced, Some("5.3.4" | "5.2.3")))
    }
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
    /// The ticket exists. Never made again in this generation.
    Created {
        /// The ticket.
        ticket: TicketRef,
        /// Further ones of the same tag, where it was in doubt.
        also: Vec<TicketRef>,
    },
    /// Permanent: never retried automatically.
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
            Self::Accepted { .. } | Self::Created { .. } => "accepted",
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
    /// Validity of the link: 1 s to 7 d.
    pub ttl: Duration,
}

/// A signed URL. Its `Debug` never shows the URL: everyone who has it can read the object.
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

/// The severity of a line of `check`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckLevel {
    /// All is well.
    Ok,
    /// The subject works, but an operator should know.
    Warn,
    /// The subject must be mended.
    Fail,
}

/// One line of `maple-router check`; names are fixed by the interfaces page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckLine {
    /// `config`, `database`, `schema`, …
    pub name: &'static str,
    /// The line's severity.
    pub level: CheckLevel,
    /// The finding, with the name of its subject.
    pub detail: String,
    /// The remedy; absent when all is well.
    pub remedy: Option<String>,
}

impl CheckLine {
    /// A line without a finding.
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

/// A worker's last answer to an event, always after the commit (protocol, "settle").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledgement {
    /// The event is done with and does not come again.
    Ack,
    /// The event is fine, and comes again later by the source's own back-off.
    Nack,
    /// The event cannot be read, or names no submission. The event comes again later, and the delivery counts against it: a
    /// source that counts gives it up in the end and keeps the evidence.
    Reject,
    /// The event's submission ended for want of attempts. A source that keeps copies of what was given up keeps one; for
    /// every other source the event is done with, because the row alone alerts.
    Exhaust,
}

/// The right to settle one event, once. Dropping it nacks, so that a panic or a forgotten path loses time and
/// never an event. An answer after the source's stop has ended may be lost without a trace; the event then comes again.
#[must_use = "dropping it nacks the event"]
pub struct Settle(Option<Box<dyn FnOnce(Acknowledgement) + Send>>);

impl Settle {
    /// Wraps the callback that carries the answer to the source. The callback is called exactly once and must not block.
    pub fn new(answer: impl FnOnce(Acknowledgement) + Send + 'static) -> Self {
        Self(Some(Box::new(answer)))
    }

    /// The event does not come again. Fire and forget: a lost ack is silent and ends in a redelivery.
    pub fn ack(self) {
        self.answer(Acknowledgement::Ack);
    }

    /// The event comes again after the source's back-off; where the source counts deliveries, it is one.
    pub fn nack(self) {
        self.answer(Acknowledgement::Nack);
    }

    /// The event is at fault, by [`Acknowledgement::Reject`].
    pub fn reject(self) {
        self.answer(Acknowledgement::Reject);
    }

    /// The event's submission ended for want of attempts, by [`Acknowledgement::Exhaust`].
    pub fn exhaust(self) {
        self.answer(Acknowledgement::Exhaust);
    }

    fn answer(mut self, verdict: Acknowledgement) {
        if let Some(answer) = self.0.take() {
            answer(verdict);
        }
    }
}

impl Drop for Settle {
    fn drop(&mut self) {
        if let Some(answer) = self.0.take() {
            answer(Acknowledgement::Nack);
        }
    }
}

impl fmt::Debug for Settle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Settle")
    }
}

/// One message as received, not yet understood: its room decides whether it is an event.
#[derive(Debug)]
pub struct Incoming {
    /// The source's id of the message; stays the same when it comes again.
    pub message_id: String,
    /// Time at which the source accepted it, by the source's clock; only for the lag metric.
    pub published_at: Option<Timestamp>,
    /// Approximate count of deliveries, where the source counts them (1 = first).
    pub delivery_attempt: Option<i32>,
    /// The message's attributes.
    pub attributes: Attributes,
    /// The message's payload.
    pub data: Bytes,
    /// The right to answer the message.
    pub settle: Settle,
}

/// Why a source gives no event. Each message says what happened, to what, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The stream ended without a reason given; a new one may work at once.
    #[error("the event stream of {subscription} ended: it is built again, nothing to do")]
    Ended {
        /// Full name of the subscription.
        subscription: String,
    },
    /// The subscription does not exist.
    #[error(
        "subscription {subscription} does not exist: create it with `maple-router provision`, or correct \
         [pubsub] project and subscription"
    )]
    NotFound {
        /// Full name of the subscription.
        subscription: String,
    },
    /// This identity lacks a permission.
    #[error("access to {subscription} was denied ({said}): grant this identity {role} on it")]
    PermissionDenied {
        /// Full name of the subscription.
        subscription: String,
        /// The role that is missing.
        role: &'static str,
        /// The server's words.
        said: String,
    },
    /// Usable credentials are missing.
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
    /// The server cannot be reached or is in trouble; a later attempt may succeed.
    #[error(
        "{subscription} cannot be reached now ({said}): it is tried again; see to network and endpoint if it lasts"
    )]
    Transient {
        /// Full name of the subscription.
        subscription: String,
        /// The server's words, or the network's.
        said: String,
    },
    /// The server understood and refused; another attempt would change nothing.
    #[error("{subscription} refused the stream ({said}): compare its settings with `maple-router check`")]
    Refused {
        /// Full name of the subscription.
        subscription: String,
        /// The server's words.
        said: String,
    },
}

impl SourceError {
    /// Returns whether a person has to act before the source can work again.
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

/// A source of events: Pub/Sub, or the outbox in PostgreSQL.
pub trait EventSource: Send {
    /// Returns the next message; waits as long as there is none. Cancel-safe: a dropped future loses nothing.
    ///
    /// # Errors
    /// After an error the source is finished and must be built anew.
    fn next(&mut self) -> BoxFuture<'_, Result<Incoming, SourceError>>;

    /// Stops events until [`Self::resume`]: closes the stream, so that nothing is delivered, or counted as delivered,
    /// meanwhile. Events handed out stay leased, and so do those received and not handed out yet. By default nothing
    /// happens: a source that is not asked for its next event is paused enough.
    fn pause(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Lets events come again after [`Self::pause`].
    fn resume(&mut self) {}

    /// Takes no more events: closes the stream, and gives back those received and not handed out. Events handed out stay
    /// leased, and their answers still count; events given back from now on go to other workers. [`Self::next`] gives no
    /// event any more. Waits for nothing but ourselves. Cancel-safe; a second call changes nothing.
    fn quiet(&mut self) -> BoxFuture<'_, ()>;

    /// [`Self::quiet`], then waits until every event handed out is answered and the answers have been handed in. Returns
    /// whether that was so within `timeout`; a later answer may be lost, and its event comes again.
    fn stop(self: Box<Self>, timeout: Duration) -> BoxFuture<'static, bool>;
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_full_mailbox_is_no_message_that_is_too_large() {
        for (stage, code, enhanced, expected) in [
            (Stage::Mail, Some(552), None, true),
            (Stage::Data, Some(552), Some("5.3.4"), true),
            (Stage::Dot, Some(552), None, true),
            (Stage::Dot, Some(554), Some("5.3.4"), true),
            (Stage::Dot, Some(554), Some("5.7.1"), false),
            (Stage::Rcpt, Some(552), Some("5.2.2"), false),
            (Stage::Dot, None, None, false),
        ] {
            let reply = Reply { code, enhanced: enhanced.map(str::to_owned), reply: String::new() };
            let fault = Fault { stage, reply, about_us: false };
            assert_eq!(fault.is_too_large(), expected, "{fault:?}");
        }
    }

    #[test]
    fn a_settle_answers_once_and_dropping_it_nacks() {
        type Case = (fn(Settle), Acknowledgement);
        let cases: [Case; 5] = [
            (Settle::ack, Acknowledgement::Ack),
            (Settle::nack, Acknowledgement::Nack),
            (Settle::reject, Acknowledgement::Reject),
            (Settle::exhaust, Acknowledgement::Exhaust),
            (drop, Acknowledgement::Nack),
        ];
        for (settle, expected) in cases {
            let (answers, seen) = channel();
            settle(Settle::new(move |verdict| answers.send(verdict).unwrap()));
            assert_eq!(seen.iter().collect::<Vec<_>>(), [expected]);
        }
    }
}
