//! Proof that a mail in the relay's log is ours.
//!
//! A Message-ID is no secret: recipients read it, and the forms backend can guess it. So a queue id is proved to be ours
//! only where smtpd logged, under that id, a client of this host, and, with `[bounces]`, qmgr an envelope sender with
//! our token for that very mail. A recipient knows the token as well, but does not submit from this host; a user of this
//! host may submit any mail, but does not know the token. Without `[bounces]` such a user cannot be distinguished from us:
//! Postfix does not log the port of our session by default (`smtpd_client_port_logging`). Mail from `sendmail` never
//! counts; an alias's copy and a requeued mail count as their original does. Pure.

use std::net::IpAddr;

use crate::routing::delivery::sender::ReturnAddress;
use crate::routing::submission::message_id::Origin;

/// Proofs that a mail is ours: the submitting hosts, and the return addresses.
#[derive(Debug, Clone, Default)]
pub struct Ours {
    /// Addresses from which we connect to the relay, besides those of loopback.
    pub addresses: Vec<IpAddr>,
    /// With `[bounces]`: our envelope senders.
    pub senders: Option<ReturnAddress>,
}

impl Ours {
    pub(super) fn is_local(&self, client: IpAddr) -> bool {
        client.is_loopback() || self.addresses.contains(&client)
    }

    /// Whether a sender proves the mail's source; every sender does where none has a token.
    pub(super) fn proves(&self, sender: &str, origin: Origin) -> bool {
        self.senders.as_ref().is_none_or(|ours| ours.origin(sender) == Some(origin))
    }
}
