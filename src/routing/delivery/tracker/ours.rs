//! Who may speak for a mail of ours in the relay's log.
//!
//! A Message-ID is no secret: recipients read it, and the forms backend can guess it. So a queue id is proved to be ours only where
//! smtpd logged, under that id, a client of this host, and, with `[bounces]`, qmgr an envelope sender with our token for that
//! very mail. A recipient knows the token as well, but does not submit from this host; a user of this host may hand in what he
//! likes, but does not know the token. Without `[bounces]` he is not told from us: the port of our session, which would do it,
//! Postfix does not log by default (`smtpd_client_port_logging`). What comes by `sendmail` never counts; an alias's copy and a
//! requeued mail are what the mail was that they were made of. Pure.

use std::net::IpAddr;

use crate::routing::delivery::sender::ReturnAddress;
use crate::routing::message_id::Origin;

/// What is ours: whoever hands in mails here, and where they come back to.
#[derive(Debug, Clone, Default)]
pub struct Ours {
    /// Addresses that our connections to the relay come from, besides those of loopback.
    pub addresses: Vec<IpAddr>,
    /// With `[bounces]`: what our envelope senders are.
    pub senders: Option<ReturnAddress>,
}

impl Ours {
    pub(super) fn is_local(&self, client: IpAddr) -> bool {
        client.is_loopback() || self.addresses.contains(&client)
    }

    /// Whether a sender proves what the mail was made from; every one where none carries a token.
    pub(super) fn proves(&self, sender: &str, origin: Origin) -> bool {
        self.senders.as_ref().is_none_or(|ours| ours.origin(sender) == Some(origin))
    }
}
