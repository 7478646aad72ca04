//! What a mail and a ticket share: once prepared they are sent under a permit, and what perhaps happened is found out.
//!
//! A permit is held from before the intent until the record was tried: the permits of a carrier bound what a crash leaves in
//! doubt. A [`Start`] may lack what the send also needs (a connection); [`Carrier::made_ready`] waits for that, and the worker
//! ends the wait. If we die in the middle, the intent says that the deliveries are in doubt.

use super::mails::{MailStart, Mails};
use super::prepare::{Parcel, Ready};
use crate::ports::Outcome;
use crate::routing::claims::in_doubt_permits::InDoubtPermit;
use crate::routing::claims::{Claim, Fence};
use crate::routing::follow::doubt::Resolved;
use crate::routing::submission::ledger::Ledger;

/// Whatever carries out the actions of one type.
#[derive(Debug, Clone, Copy)]
pub(super) enum Carrier<'a> {
    /// Mails, through the relay.
    Mails(&'a Mails),
}

/// A send that may begin.
#[derive(Debug)]
pub(super) enum Start {
    /// Of a mail.
    Mail(MailStart),
}

/// The bound on what is in doubt, held until the record was tried.
#[derive(Debug)]
pub(super) enum Permit {
    /// Of a mail.
    Mail { _permit: InDoubtPermit },
}

impl Start {
    /// A mail whose intent is recorded with its claim.
    pub(super) const fn ahead(permit: InDoubtPermit) -> Self {
        Self::Mail(MailStart::ahead(permit))
    }
}

impl Carrier<'_> {
    /// Resolves the deliveries of an action that are in doubt, as far as possible.
    pub(super) async fn resolve(self, claim: &Claim, ledger: &Ledger, order: i32) -> Resolved {
        match self {
            Self::Mails(mails) => mails.doubts.resolve(claim, ledger, order).await,
        }
    }

    /// Position in the record that doubt is resolved by, to be stored with an intent recorded now.
    pub(super) fn log_position(self) -> Option<String> {
        match self {
            Self::Mails(mails) => mails.doubts.log_position(),
        }
    }

    /// Waits for the permit of one send.
    pub(super) async fn permit(self) -> Start {
        match self {
            Self::Mails(mails) => Start::Mail(mails.permit().await),
        }
    }

    /// Waits for whatever the start lacks.
    pub(super) async fn made_ready(self, start: Start) -> Start {
        match (self, start) {
            (Self::Mails(mails), Start::Mail(start)) => Start::Mail(mails.connected(start).await),
        }
    }

    /// Sends, once. An outcome for each of the keys, in their order.
    pub(super) async fn send(self, start: Start, ready: &Ready, fence: Fence<'_>) -> (Vec<Outcome>, Permit) {
        match (self, start, &ready.parcel) {
            (Self::Mails(mails), Start::Mail(start), Parcel::Mail(mail)) => {
                let (outcomes, permit) = mails.send(start, mail, fence).await;
                (outcomes, Permit::Mail { _permit: permit })
            }
        }
    }
}
