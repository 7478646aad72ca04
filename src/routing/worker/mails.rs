//! Mails, as the worker sends them: a permit that bounds what a crash leaves in doubt, a connection to the relay, one
//! transaction.
//!
//! A fast relay's mails get their permits first and their connections after the intent; under a rate limit, and wherever doubt
//! is put on hold, a mail has its connection before its intent. If we die, the intent says that the mail is in doubt.

use std::sync::Arc;

use super::prepare::{ChangingRules, Mail};
use crate::config::InDoubt;
use crate::gateway::smtp::{Connection, Connections, Envelope};
use crate::ops::live::Live;
use crate::ports::{Clock, Outcome};
use crate::routing::claims::Fence;
use crate::routing::claims::in_doubt_permits::{InDoubtPermit, InDoubtPermits};
use crate::routing::follow::doubt::Doubts;

/// The carrier of mails.
#[derive(Debug)]
pub struct Mails {
    /// Connections to the relay.
    pub connections: Connections,
    /// Bounds the mails that a crash leaves in doubt.
    pub in_doubt_permits: InDoubtPermits,
    /// Resolves deliveries that are perhaps sent.
    pub doubts: Doubts,
    /// Rules that a reload may change.
    pub rules: Live<ChangingRules>,
    /// Measures how long a send takes.
    pub clock: Arc<dyn Clock>,
}

/// A mail that may begin: its permit, and its connection if acquired.
#[derive(Debug)]
pub(super) struct MailStart {
    permit: InDoubtPermit,
    connection: Option<Connection>,
}

impl MailStart {
    /// A mail whose intent is recorded with its claim.
    pub(super) const fn ahead(permit: InDoubtPermit) -> Self {
        Self { permit, connection: None }
    }
}

impl Mails {
    /// Permits for mails whose intents are recorded with their claims, `most` at most; none where connections come first.
    pub(super) fn ahead(&self, most: usize) -> Vec<InDoubtPermit> {
        let next = || if self.is_in_turn() { None } else { self.in_doubt_permits.try_ahead() };
        std::iter::from_fn(next).take(most).collect()
    }

    /// The number of mails that [`Self::ahead`] has permits for now; `None`: connections come first, or the relay is slow.
    pub(super) fn free_ahead(&self) -> Option<usize> {
        if self.is_in_turn() { None } else { self.in_doubt_permits.free_ahead() }
    }

    /// Whether a mail needs its connection before its intent: under a rate limit, and wherever doubt is put on hold, because
    /// a crash between intent and send would make a failure of the mail.
    fn is_in_turn(&self) -> bool {
        self.connections.is_rate_limited() || self.rules.get().in_doubt == InDoubt::Hold
    }

    /// Waits for the permit of one mail; and for its connection and the rate limit, unless the relay is so fast that the
    /// mail gets both at once after its intent.
    pub(super) async fn permit(&self) -> MailStart {
        let permit = self.in_doubt_permits.permit(self.is_in_turn()).await;
        let connection = if permit.ahead { None } else { Some(self.wait_for_rate_limit().await) };
        MailStart { permit, connection }
    }

    /// Waits for the connection of a mail that has none yet.
    pub(super) async fn connected(&self, start: MailStart) -> MailStart {
        let connection = match start.connection {
            Some(connection) => connection,
            None => self.wait_for_rate_limit().await,
        };
        MailStart { permit: start.permit, connection: Some(connection) }
    }

    /// A connection that the rate limit lets send now.
    async fn wait_for_rate_limit(&self) -> Connection {
        let mut connection = self.connections.acquire().await;
        connection.wait_for_rate_limit().await;
        connection
    }

    /// Sends one mail; an outcome for each of its recipients. The connection is free after it, the permit is not.
    pub(super) async fn send(
        &self,
        start: MailStart,
        mail: &Mail,
        fence: Fence<'_>,
    ) -> (Vec<Outcome>, InDoubtPermit) {
        let MailStart { permit, connection } = start;
        let mut connection = match connection {
            Some(connection) => connection,
            None => self.wait_for_rate_limit().await,
        };
        let envelope = Envelope { from: &mail.sender, recipients: &mail.recipients, message: &mail.message };
        let asked = self.clock.monotonic();
        let outcomes = connection.send(&envelope, fence).await;
        drop(connection);
        self.in_doubt_permits.sent(&outcomes, self.clock.monotonic().saturating_duration_since(asked));
        (outcomes, permit)
    }
}
