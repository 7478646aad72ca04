//! Honest delivery: status of a mail after the relay's acceptance.
//!
//! A report (from the relay's log or a returned mail) arrives as [`Seen`], is decided on under the row's lock, and
//! leaves a [`RelayEntry`](crate::routing::submission::ledger::RelayEntry) in the delivery's entry. The entry proves an
//! acceptance, and so resolves a doubt.

pub mod followed;
pub mod lost;
pub mod return_kind;
pub mod sender;
pub mod status;
pub mod tracker;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::submission::message_id::Origin;
use crate::ports::RelayStatus;

/// Report on one recipient of one of our mails, after the relay's acceptance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Source of the mail, read from its Message-ID or from a returned mail's token.
    pub origin: Origin,
    /// Address as the log or the returned mail writes it; before aliases where the log has that.
    pub recipient: String,
    /// Reported status.
    pub status: RelayStatus,
    /// Time of the event, by the reporter's clock; for people only.
    pub at: Option<Timestamp>,
    /// The relay's queue id; absent where a returned mail is the source.
    pub queue_id: Option<String>,
    /// Whether the log proves the queue id to be of our mail. Else it counts only where our own 250 named it.
    #[serde(default)]
    pub proved: bool,
    /// Message-ID of the mail, where it is reported.
    pub message_id: Option<String>,
    /// RFC 3463 status.
    pub dsn: Option<String>,
    /// Host that reported the status.
    pub relay: Option<String>,
    /// Text of the report, at most 500 characters; may contain addresses.
    pub text: String,
}
