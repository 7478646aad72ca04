//! The contents of the relay's log and of returned mails: gateways read them, the mission records them.

use std::net::IpAddr;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::kernel::words;

words! {
    /// The status of a mail for one recipient after the relay's acceptance. The spelling is that of ledger, journal,
    /// metrics and filters.
    RelayStatus {
        /// The mail waits in the relay's queue: the next hop does not take it yet.
        Deferred = "deferred",
        /// The next hop, or a mailbox of this host, has the mail.
        Delivered = "delivered",
        /// A later hop refused the mail for good.
        Bounced = "bounced",
        /// The mail waited too long in the relay's queue, or was removed from it by hand.
        Expired = "expired",
    }
}

impl RelayStatus {
    /// Returns whether no other status follows by itself.
    #[must_use]
    pub fn is_final(self) -> bool {
        self != Self::Deferred
    }

    /// Returns whether the recipient will not get this mail.
    #[must_use]
    pub fn is_lost(self) -> bool {
        matches!(self, Self::Bounced | Self::Expired)
    }
}

/// The contents of one line of the relay's log about one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipientLine {
    /// Address after aliases, as the log writes it (without the brackets).
    pub to: String,
    /// Address before aliases, where the log names one.
    pub original: Option<String>,
    /// The status; never `Expired` in a line.
    pub status: RelayStatus,
    /// RFC 3463 status, e.g. `5.1.1`.
    pub dsn: Option<String>,
    /// Host of the next hop, as the log writes it; absent where there was none.
    pub relay: Option<String>,
    /// The reply, control characters replaced, at most 500 characters. May contain addresses: scrub before logging.
    pub text: String,
}

/// A line of the relay's log about incoming or outgoing mail (Postfix's programs in brackets).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEntry {
    /// A client's session started (smtpd): earlier lines of this process belong to another one.
    SessionBegan {
        /// Process id of the smtpd.
        session: u32,
    },
    /// The session gave a message its queue id (smtpd).
    Received {
        /// Queue id.
        id: String,
        /// Process id of the smtpd.
        session: u32,
        /// Address of the client; absent where the log does not name one.
        client: Option<IpAddr>,
    },
    /// A message came in by `sendmail`, or once more after `postsuper -r` (pickup).
    PickedUp {
        /// Queue id.
        id: String,
        /// Queue id before the message was requeued.
        original: Option<String>,
    },
    /// The message's Message-ID was logged; the message is not committed to the queue yet (cleanup).
    MessageId {
        /// Queue id.
        id: String,
        /// The Message-ID with its angle brackets, as the log writes it.
        message_id: String,
    },
    /// The message is in the queue and being delivered (qmgr).
    Active {
        /// Queue id.
        id: String,
        /// Envelope sender, without the brackets; longer than any of ours: empty.
        sender: String,
        /// Number of recipients at arrival, including those that have got the message since.
        recipients: u32,
    },
    /// Something happened for a recipient (smtp, lmtp, local, virtual, pipe, error, retry, discard, bounce).
    Recipient {
        /// Queue id.
        id: String,
        /// The line about the recipient.
        line: RecipientLine,
    },
    /// An alias or a `.forward` has made another message of this one, with the same Message-ID (local).
    Forwarded {
        /// Queue id.
        id: String,
        /// The recipient of the new message, before aliases.
        to: String,
        /// Queue id of the new message.
        next: String,
    },
    /// The message has waited too long for its remaining recipients (qmgr), or was removed by hand (postsuper).
    Expired {
        /// Queue id.
        id: String,
        /// The cause in words.
        why: &'static str,
    },
    /// The message has no recipients left (qmgr).
    Removed {
        /// Queue id.
        id: String,
    },
    /// The client was gone, or silent for too long, within a message's content: that message was not taken (smtpd).
    Cut {
        /// Process id of the smtpd.
        session: u32,
    },
    /// The client's session ended (smtpd).
    SessionEnded {
        /// Process id of the smtpd.
        session: u32,
        /// The summary of the whole session; absent where its line has less than Postfix writes.
        summary: Option<SessionSummary>,
    },
    /// Lines are missing here: suppressed, or no longer readable.
    Lost {
        /// Number of suppressed lines, where the log gives it.
        suppressed: Option<u64>,
    },
}

/// smtpd's summary of a session at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// DATA commands that ended with a message taken. A message that was taken but whose 250 could no longer be written is
    /// not counted: seen with Postfix 3.7.11.
    pub taken: u32,
    /// The client ended with QUIT: every reply before was written.
    pub quit: bool,
    /// Messages may have come by BDAT, which is counted differently.
    pub chunked: bool,
}

/// One line that the parser understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Time by the log's own clock, where the line gives it unambiguously.
    pub at: Option<Timestamp>,
    /// The line's contents.
    pub entry: LogEntry,
}

/// A part of the log, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LogBatch {
    /// Lines that the parser understood; foreign ones are left out and not counted.
    pub lines: Vec<LogLine>,
    /// Position after the last of `lines`: opaque, to be stored and passed to the next reader.
    pub position: String,
    /// Whether this call read everything that was in the log at its start.
    pub caught_up: bool,
    /// Why lines between the requested position and the first one read are lost; absent where none are.
    pub gap: Option<String>,
}

/// Why the relay's log cannot be read. The message says what happened, to what, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the relay's log cannot be read: {0}")]
pub struct RelayLogError(pub String);

/// The relay's log: the journal, or a file. After an error another read may succeed.
pub trait RelayLog: Send {
    /// Reads on from the last batch: at most a few thousand lines at once, waiting up to `patience` for the first (then an
    /// empty batch that is caught up). Cancel-safe: lines read and not returned are read again.
    ///
    /// # Errors
    /// [`RelayLogError`].
    fn read(&mut self, patience: Duration) -> BoxFuture<'_, Result<LogBatch, RelayLogError>>;
}

/// A message in the relay's queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedMail {
    /// Queue id.
    pub id: String,
    /// `incoming`, `active`, `deferred`, `hold` or `maildrop`.
    pub queue: String,
    /// Envelope sender.
    pub sender: String,
    /// Recipients that the message is still queued for.
    pub recipients: Vec<String>,
}

/// The answer to a query of the relay's queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueListing {
    /// Queued messages under one of the ids asked for.
    pub found: Vec<QueuedMail>,
    /// Whether the whole queue was listed, so that an id that is not in `found` is not in the queue.
    pub complete: bool,
}
