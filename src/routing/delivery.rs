//! Honest delivery: what becomes of a mail after the relay has accepted it.
//!
//! Whatever tells of it (the relay's log, a returned mail) arrives as [`Seen`], is decided on under the row's
//! lock, and leaves a [`RelayMark`](super::ledger::RelayMark) in the delivery's entry. Its being there proves an acceptance,
//! so that doubt is resolved by it.

pub mod book;
pub mod doubt;
pub mod followed;
pub mod follower;
pub mod lost;
pub mod returned;
pub mod sender;
pub mod status;
pub mod tracker;
pub mod trouble;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::message_id::Origin;
use crate::ports::RelayStatus;

/// Something was seen beyond the relay, about one recipient of one of our mails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// What the mail was made from, read from its Message-ID or from a returned mail's token.
    pub origin: Origin,
    /// Address as the log or the returned mail writes it; before aliases where that is told.
    pub recipient: String,
    /// See [`RelayStatus`].
    pub status: RelayStatus,
    /// When, by the teller's clock; for people only.
    pub at: Option<Timestamp>,
    /// The relay's queue id; absent where a returned mail told of it.
    pub queue_id: Option<String>,
    /// The mail under that queue id came from us, by the log itself. Else it counts only where our own 250 named it.
    #[serde(default)]
    pub proved: bool,
    /// Message-ID of the mail, where it is told.
    pub message_id: Option<String>,
    /// RFC 3463 status.
    pub dsn: Option<String>,
    /// The host that said it.
    pub relay: Option<String>,
    /// What was said, at most 500 characters; may contain addresses.
    pub text: String,
}
