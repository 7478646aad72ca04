//! What a mail and a ticket share: once prepared they are sent under a permit, and what perhaps happened is found out.
//!
//! A permit is held from before the intent until the record was tried: the permits of a carrier bound what a crash leaves in
//! doubt. A [`Start`] may lack what the send also needs (a connection); [`Carrier::made_ready`] waits for that, and the worker
//! ends the wait. If we die in the middle, the intent says that the deliveries are in doubt. Futures of tickets are on the heap:
//! mails are the rule, and a worker's future need not have room for both.

use std::borrow::Cow;

use tokio::sync::OwnedSemaphorePermit;

use super::mails::{MailStart, Mails};
use super::prepare::{Parcel, Ready};
use super::tickets::{self, Looked, TicketStart, Tickets};
use crate::ports::{Creation, Outcome};
use crate::routing::claims::in_doubt_permits::InDoubtPermit;
use crate::routing::claims::{Claim, Fence};
use crate::routing::follow::doubt::Resolved;
use crate::routing::submission::ledger::Ledger;

/// Whatever carries out the actions of one type.
#[derive(Debug, Clone, Copy)]
pub(super) enum Carrier<'a> {
    /// Mails, through the relay.
    Mails(&'a Mails),
    /// Tickets, at the help desk.
    Tickets(&'a Tickets),
}

/// A send that may begin.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a mail is the rule, and is not boxed for a ticket's sake")]
pub(super) enum Start {
    /// Of a mail.
    Mail(MailStart),
    /// Of a ticket.
    Ticket(TicketStart),
}

/// The bound on what is in doubt, held until the record was tried.
#[derive(Debug)]
pub(super) enum Permit {
    /// Of a mail.
    Mail { _permit: InDoubtPermit },
    /// Of a ticket.
    Ticket { _permit: OwnedSemaphorePermit },
}

/// What a send came to.
#[derive(Debug)]
pub(super) enum Sent {
    /// An outcome for each of a mail's recipients.
    Mail(Vec<Outcome>),
    /// The help desk's answer.
    Ticket(Creation),
    /// Start and parcel are of different carriers: nothing was sent.
    Nothing,
}

impl Sent {
    /// Whether it was refused as too large, and reached nobody.
    pub(super) fn is_too_large(&self) -> bool {
        match self {
            Self::Mail(outcomes) => {
                let too_large =
                    |outcome: &Outcome| matches!(outcome, Outcome::Refused(fault) if fault.is_too_large());
                let refused = |outcome: &Outcome| matches!(outcome, Outcome::Refused(_));
                outcomes.iter().any(too_large) && outcomes.iter().all(refused)
            }
            Self::Ticket(creation) => matches!(creation, Creation::TooLarge(_)),
            Self::Nothing => false,
        }
    }

    /// An outcome for each of the keys, in their order.
    pub(super) fn outcomes(&self) -> Cow<'_, [Outcome]> {
        match self {
            Self::Mail(outcomes) => Cow::Borrowed(outcomes),
            Self::Ticket(creation) => Cow::Owned(vec![tickets::outcome(creation)]),
            Self::Nothing => Cow::Borrowed(&[]),
        }
    }
}

/// What was found out about deliveries in doubt.
#[derive(Debug)]
pub(super) enum Found {
    /// By the relay's log and queue.
    Mails(Resolved),
    /// By the help desk's search; absent where nothing was in doubt.
    Ticket(Option<Looked>),
}

impl Start {
    /// A mail whose intent is recorded with its claim.
    pub(super) const fn ahead(permit: InDoubtPermit) -> Self {
        Self::Mail(MailStart::ahead(permit))
    }
}

impl Carrier<'_> {
    /// Finds out about the deliveries of an action that are in doubt, as far as possible.
    pub(super) async fn resolve(self, claim: &Claim, ledger: &Ledger, order: i32) -> Found {
        match self {
            Self::Mails(mails) => Found::Mails(mails.doubts.resolve(claim, ledger, order).await),
            Self::Tickets(tickets) => Found::Ticket(Box::pin(tickets.resolve(claim, ledger, order)).await),
        }
    }

    /// Position in the record that doubt is resolved by, to be stored with an intent recorded now.
    pub(super) fn log_position(self) -> Option<String> {
        match self {
            Self::Mails(mails) => mails.doubts.log_position(),
            Self::Tickets(_) => None,
        }
    }

    /// Waits for the permit of one send; absent when whatever carries it out is out before that, and others go on.
    pub(super) async fn permit(self) -> Option<Start> {
        match self {
            Self::Mails(mails) => Some(Start::Mail(mails.permit().await)),
            Self::Tickets(tickets) => Box::pin(tickets.permit()).await.map(Start::Ticket),
        }
    }

    /// Waits for whatever the start lacks.
    pub(super) async fn made_ready(self, start: Start) -> Start {
        match (self, start) {
            (Self::Mails(mails), Start::Mail(start)) => Start::Mail(mails.connected(start).await),
            (Self::Mails(_) | Self::Tickets(_), start) => start,
        }
    }

    /// Sends, once; returns what it came to, and the permit, which is held until that is recorded.
    pub(super) async fn send(self, start: Start, ready: &Ready, fence: Fence<'_>) -> (Sent, Option<Permit>) {
        match (self, start, &ready.parcel) {
            (Self::Mails(mails), Start::Mail(start), Parcel::Mail(mail)) => {
                let (outcomes, permit) = mails.send(start, mail, fence).await;
                (Sent::Mail(outcomes), Some(Permit::Mail { _permit: permit }))
            }
            (Self::Tickets(tickets), Start::Ticket(start), Parcel::Ticket(ticket)) => {
                let (creation, permit) = Box::pin(tickets.send(start, ticket, fence)).await;
                (Sent::Ticket(creation), Some(Permit::Ticket { _permit: permit }))
            }
            (Self::Mails(_) | Self::Tickets(_), _, _) => (Sent::Nothing, None),
        }
    }
}
