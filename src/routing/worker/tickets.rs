//! Tickets, as the worker makes them: a permit that bounds what a crash leaves in doubt, one request, and a search by the
//! ticket's own tag where the answer to that was lost.
//!
//! The help desk knows no idempotency key, and its index may lag behind: that a tag is not found proves nothing, and only lets
//! the policy decide. A help desk that cannot be asked has not said "not found". If we die, the intent says that the ticket is
//! in doubt.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::prepare::ticket::tag;
use crate::gateway::happyfox::HelpDeskClient;
use crate::ports::{Clock, Creation, Fault, NewTicket, Outcome, Reply, Stage, TicketRef, Unanswered};
use crate::routing::claims::{Claim, Fence};
use crate::routing::submission::ledger::{Delivery, Ledger};
use crate::routing::submission::message_id::Origin;

/// Tickets that are made at once, and so the most that a crash leaves in doubt.
const AT_ONCE: usize = 4;
/// Parts of the doubt window after which the help desk is asked, growing: three answers make it likely that there is no ticket.
const LOOKS: [f64; 3] = [0.125, 0.5, 1.0];

/// What a search for a ticket in doubt came to.
#[derive(Debug)]
pub(super) struct Looked {
    /// The delivery in doubt.
    pub(super) key: String,
    /// The ticket, where it is there. A help desk that does not answer has said nothing.
    pub(super) found: Result<Option<Outcome>, Unanswered>,
}

/// The carrier of tickets.
#[derive(Debug)]
pub struct Tickets {
    /// The help desk.
    pub client: Arc<HelpDeskClient>,
    /// Time over which a ticket in doubt is looked for.
    pub doubt_window: Duration,
    /// The clock of the looks.
    pub clock: Arc<dyn Clock>,
    permits: Arc<Semaphore>,
}

impl Tickets {
    /// A carrier over a client.
    #[must_use]
    pub fn new(client: Arc<HelpDeskClient>, doubt_window: Duration, clock: Arc<dyn Clock>) -> Self {
        Self { client, doubt_window, clock, permits: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Waits for a permit, and for the ticket's place by the pace: what has no intent may wait.
    pub(super) async fn permit(&self) -> OwnedSemaphorePermit {
        let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else {
            // The semaphore is never closed; were it, there would be no permit for ever.
            return std::future::pending().await;
        };
        self.client.ready().await;
        permit
    }

    /// Makes one ticket.
    pub(super) async fn send(&self, ticket: &NewTicket, fence: Fence<'_>) -> Creation {
        let may_send = || fence().map_err(|why| fault(Stage::Fence, &why));
        self.client.create(ticket, &may_send).await
    }

    /// Looks for an action's ticket that may exist, over the doubt window; its delivery's key, and the ticket if it is there.
    pub(super) async fn resolve(&self, claim: &Claim, ledger: &Ledger, order: i32) -> Option<Looked> {
        let in_doubt =
            |(key, delivery): (&str, &Delivery)| delivery.in_doubt(&claim.token).then(|| key.to_owned());
        let key = ledger.deliveries_of(order).find_map(in_doubt)?;
        let origin =
            Origin { submission: claim.id, action_order: order, generation: ledger.generation(order) };
        let found = self.found(&tag(origin)).await;
        Some(Looked {
            key,
            found: found.map(|found| found.map(|(ticket, also)| Outcome::Created { ticket, also })),
        })
    }

    async fn found(&self, tag: &str) -> Result<Option<(TicketRef, Vec<TicketRef>)>, Unanswered> {
        let mut passed = 0.0;
        for part in LOOKS {
            self.clock.sleep(self.doubt_window.mul_f64(part - passed)).await;
            passed = part;
            let mut found = self.client.find(tag).await?.into_iter();
            if let Some(first) = found.next() {
                return Ok(Some((first, found.collect())));
            }
        }
        Ok(None)
    }
}

/// What a creation means for the delivery.
pub(super) fn outcome(creation: &Creation) -> Outcome {
    match creation {
        Creation::Created(ticket) => Outcome::Created { ticket: ticket.clone(), also: Vec::new() },
        Creation::Refused(fault) | Creation::TooLarge(fault) => Outcome::Refused(fault.clone()),
        Creation::AboutUs(fault) | Creation::Throttled { fault, .. } => Outcome::Deferred(fault.clone()),
        Creation::Unknown(fault) => Outcome::Unknown(fault.clone()),
    }
}

fn fault(stage: Stage, why: &str) -> Fault {
    Fault { stage, reply: Reply { code: None, enhanced: None, reply: why.to_owned() }, about_us: false }
}
