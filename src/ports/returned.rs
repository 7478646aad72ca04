//! Returned mails, as their gateway hands them on, before their authenticity is checked.

use jiff::Timestamp;

use super::RelayStatus;

/// The contents of a returned mail about one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReturnedRecipient {
    /// Address as our mail named it, where the report gives it, else as the reporter has it.
    pub address: String,
    /// The reporter's own address for the recipient, where it differs.
    pub rewritten: Option<String>,
    /// The status: `Expired` where the last reply was a transient one.
    pub status: RelayStatus,
    /// RFC 3463 status, e.g. `5.1.1`.
    pub dsn: Option<String>,
    /// Host that gave the reply.
    pub relay: Option<String>,
    /// The reply, control characters replaced, at most 500 characters. May contain addresses: scrub before logging.
    pub text: String,
}

/// The kind of a returned mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReturnedKind {
    /// A delivery status notification (RFC 3464): at least one recipient.
    Report(Vec<ReturnedRecipient>),
    /// An automatic reply that reports nothing: an absence, a receipt of the mail.
    AutoReply,
    /// A person, or a program, has displayed or deleted the mail (RFC 8098).
    Receipt,
    /// Any other mail, and why.
    NotUnderstood(&'static str),
}

/// One returned mail. Its contents are not proved: everyone who can send mail can forge it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Returned {
    /// Addresses it may have come to, the most reliable first; one of them may carry a token of ours.
    pub to: Vec<String>,
    /// The kind of mail.
    pub kind: ReturnedKind,
    /// Time of the event, by the reporter's clock.
    pub at: Option<Timestamp>,
    /// Message-ID of the mail that came back, where the report gives it.
    pub message_id: Option<String>,
}
