//! What the relay's log and returned mails say, between the gateways that read them and the mission that records them.

use std::net::IpAddr;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What became of a mail for one recipient once the relay had taken responsibility for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RelayStatus {
    /// Waits in the relay's queue: the next hop does not take it yet.
    Deferred,
    /// The next hop, or a mailbox of this host, has it.
    Delivered,
    /// Refused for good further on.
    Bounced,
    /// Waited too long in the relay's queue, or was removed from it by hand.
    Expired,
}

impl RelayStatus {
    /// The label used in ledger, journal, metrics and filters.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Deferred => "deferred",
            Self::Delivered => "delivered",
            Self::Bounced => "bounced",
            Self::Expired => "expired",
        }
    }

    /// Whether nothing else follows by itself.
    #[must_use]
    pub fn is_final(self) -> bool {
        self != Self::Deferred
    }

    /// Whether the recipient will not get this mail.
    #[must_use]
    pub fn is_lost(self) -> bool {
        matches!(self, Self::Bounced | Self::Expired)
    }
}

/// What one line of the relay's log says of one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipientLine {
    /// Address after aliases, as the log writes it (without the brackets).
    pub to: String,
    /// Address before aliases, where the log names one.
    pub original: Option<String>,
    /// See [`RelayStatus`]; a line never says `Expired`.
    pub status: RelayStatus,
    /// RFC 3463 status, e.g. `5.1.1`.
    pub dsn: Option<String>,
    /// Host that was spoken to, as the log writes it; absent where none was.
    pub relay: Option<String>,
    /// What was said, control characters replaced, at most 500 characters. May contain addresses: scrub before logging.
    pub text: String,
}

/// A line of the relay's log that is about mail coming in or going out (Postfix's programs in brackets).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEntry {
    /// A client's session began (smtpd): whatever this process said before belongs to another one.
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
        /// Queue id it had before it was requeued.
        original: Option<String>,
    },
    /// The message's Message-ID was seen; the message is not committed to the queue yet (cleanup).
    MessageId {
        /// Queue id.
        id: String,
        /// With its angle brackets, as the log writes it.
        message_id: String,
    },
    /// The message is in the queue and being delivered (qmgr).
    Active {
        /// Queue id.
        id: String,
        /// Envelope sender, without the brackets; longer than any of ours: empty.
        sender: String,
        /// How many recipients it came with, those that have got it since among them.
        recipients: u32,
    },
    /// Something happened for a recipient (smtp, lmtp, local, virtual, pipe, error, retry, discard, bounce).
    Recipient {
        /// Queue id.
        id: String,
        /// What.
        line: RecipientLine,
    },
    /// An alias or a `.forward` has made another message of it, with the same Message-ID (local).
    Forwarded {
        /// Queue id.
        id: String,
        /// The recipient it was made for, before aliases.
        to: String,
        /// Queue id of the other one.
        next: String,
    },
    /// What was left of its recipients has waited too long (qmgr), or somebody removed it by hand (postsuper).
    Expired {
        /// Queue id.
        id: String,
        /// In words.
        why: &'static str,
    },
    /// Nothing is left of the message (qmgr).
    Removed {
        /// Queue id.
        id: String,
    },
    /// The client was gone, or silent for too long, in the middle of a message's content: that message was not taken (smtpd).
    Cut {
        /// Process id of the smtpd.
        session: u32,
    },
    /// The client's session ended (smtpd).
    SessionEnded {
        /// Process id of the smtpd.
        session: u32,
        /// What it says of the whole session; absent where it says less than Postfix does.
        summary: Option<SessionSummary>,
    },
    /// Lines are missing here: they were suppressed, or cannot be read any more.
    Lost {
        /// How many, where whoever suppressed them says so.
        suppressed: Option<u64>,
    },
}

/// What smtpd says of a session when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// DATA commands that ended with a message taken. One whose 250 could not be written any more is not among them,
    /// although it was taken: seen with Postfix 3.7.11.
    pub taken: u32,
    /// The client took its leave (QUIT): every reply before was written.
    pub quit: bool,
    /// Messages may have come by BDAT, which counts otherwise.
    pub chunked: bool,
}

/// One line that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// When it was written, by the log's own clock, where that is told without a doubt.
    pub at: Option<Timestamp>,
    /// What it says.
    pub entry: LogEntry,
}

/// Some of the log, in its order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LogBatch {
    /// Lines that were understood; foreign ones are counted by nobody and left out.
    pub lines: Vec<LogLine>,
    /// Where to go on: opaque, to be kept and handed to the next reader. It is behind the last of `lines`.
    pub position: String,
    /// Everything that the log held when this call began was read.
    pub caught_up: bool,
    /// Lines between the position asked for and the first one read cannot be read any more: says why.
    pub gap: Option<String>,
}

/// Why the relay's log cannot be read. Each says what happened, to what, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the relay's log cannot be read: {0}")]
pub struct RelayLogError(pub String);

/// The relay's log: the journal, or a file. After an error it may be asked again.
pub trait RelayLog: Send {
    /// Reads on behind the last batch: at most a few thousand lines at once, waiting up to `patience` where there is nothing
    /// yet (then an empty batch that is caught up). Cancel-safe: what was read and not answered is read again.
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
    /// Recipients that still have to get it.
    pub recipients: Vec<String>,
}

/// What was asked of the relay's queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueListing {
    /// Messages under one of the ids asked for.
    pub found: Vec<QueuedMail>,
    /// Everything that is queued was looked at, so that an id that is not in `found` is not in the queue.
    pub complete: bool,
}
