//! Mails that came back: what the gateway that reads them hands on, before anybody asked whether they may be believed.

use jiff::Timestamp;

use super::RelayStatus;

/// What a returned mail says of one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReturnedRecipient {
    /// Address as our mail named it, where that is told, else as the teller knows it.
    pub address: String,
    /// Address the teller knows it by, where that is another one.
    pub rewritten: Option<String>,
    /// See [`RelayStatus`]: `Expired` where the last word was a transient one.
    pub status: RelayStatus,
    /// RFC 3463 status, e.g. `5.1.1`.
    pub dsn: Option<String>,
    /// Host that said it.
    pub relay: Option<String>,
    /// What was said, control characters replaced, at most 500 characters. May contain addresses: scrub before logging.
    pub text: String,
}

/// What a returned mail is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReturnedKind {
    /// A delivery status notification (RFC 3464): at least one recipient.
    Report(Vec<ReturnedRecipient>),
    /// Nobody wrote it and nothing is reported: an absence, a receipt of the mail.
    AutoReply,
    /// Somebody, or a program, has displayed or deleted the mail (RFC 8098).
    Receipt,
    /// Anything else, and why.
    NotUnderstood(&'static str),
}

/// One returned mail. None of it is proved: whoever can send mail can send this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Returned {
    /// Addresses it may have come to, the most reliable first; a token of ours may be in one of them.
    pub to: Vec<String>,
    /// See [`ReturnedKind`].
    pub kind: ReturnedKind,
    /// When that was, by the teller's clock.
    pub at: Option<Timestamp>,
    /// Message-ID of the mail that came back, where it is told.
    pub message_id: Option<String>,
}
