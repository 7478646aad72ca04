//! Tickets, as the worker makes them: a permit that bounds what a crash leaves in doubt, a turn by the pace, one request, and a
//! search by the ticket's own tag where the answer to that was lost.
//!
//! The help desk knows no idempotency key, and its index may lag behind: that a tag is not found proves nothing, and only lets
//! the policy decide. A help desk that cannot be asked has not said "not found". If we die, the intent says that the ticket is
//! in doubt.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

use crate::gateway::happyfox::HelpDeskClient;
use crate::ops::gate::Gate;
use crate::ports::{Clock, Creation, Fault, NewTicket, Outcome, Reply, Stage, TicketRef, Unanswered};
use crate::routing::claims::{Claim, Fence};
use crate::routing::decide::{self, Search};
use crate::routing::follow::extra_tickets::ExtraTickets;
use crate::routing::metrics::HELP_DESK_WAIT;
use crate::routing::submission::ledger::{Delivery, Ledger};
use crate::routing::submission::message_id::Origin;
use crate::routing::submission::ticket::tag;

/// Tickets that are made at once, and so the most that a crash leaves in doubt.
const AT_ONCE: usize = 4;
/// Parts of the doubt window after which the help desk is asked, growing: three answers make it likely that there is no ticket.
const LOOKS: [f64; 3] = [0.125, 0.5, 1.0];
/// The one look for a ticket that was held and that a person has opened again: its doubt is older than any index.
const ONE_LOOK: [f64; 1] = [0.0];

/// What a search for a ticket in doubt came to.
#[derive(Debug)]
pub(super) struct Looked {
    /// The delivery in doubt.
    pub(super) key: String,
    /// The ticket, where it is there. A help desk that does not answer has said nothing.
    pub(super) found: Result<Option<Outcome>, Unanswered>,
}

/// A ticket that may begin: its permit, and its turn.
#[derive(Debug)]
pub(super) struct TicketStart {
    permit: OwnedSemaphorePermit,
    turn: OwnedMutexGuard<()>,
}

/// Inputs of [`Tickets`].
#[derive(Debug)]
pub struct TicketParts {
    /// The help desk.
    pub client: Arc<HelpDeskClient>,
    /// Time over which a ticket in doubt is looked for.
    pub doubt_window: Duration,
    /// Shut while the help desk is out: whoever waits for a turn then goes on with its mails.
    pub gate: Gate,
    /// Has people notified of tickets that were made more than once.
    pub extra: ExtraTickets,
    /// The clock of the looks.
    pub clock: Arc<dyn Clock>,
}

/// The carrier of tickets.
#[derive(Debug)]
pub struct Tickets {
    parts: TicketParts,
    permits: Arc<Semaphore>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Tickets {
    /// A carrier over a client.
    #[must_use]
    pub fn new(parts: TicketParts) -> Self {
        Self { parts, permits: Arc::new(Semaphore::new(AT_ONCE)), turn: Arc::default() }
    }

    /// The help desk.
    #[must_use]
    pub fn client(&self) -> &Arc<HelpDeskClient> {
        &self.parts.client
    }

    /// Waits for a permit, and for the ticket's turn; absent when the help desk is out before that. Whoever has the turn is the
    /// only one to take a place by the pace, and keeps it until then: an intent is recorded only when the place is there, so a
    /// crash while tickets wait leaves none of them in doubt.
    pub(super) async fn permit(&self) -> Option<TicketStart> {
        let TicketParts { client, gate, clock, .. } = &self.parts;
        let began = clock.monotonic();
        let waiting = async {
            let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else {
                // The semaphore is never closed; were it, there would be no permit for ever.
                return std::future::pending().await;
            };
            let turn = Arc::clone(&self.turn).lock_owned().await;
            client.ready().await;
            TicketStart { permit, turn }
        };
        let start = tokio::select! {
            biased;
            () = gate.shut() => None,
            start = waiting => Some(start),
        };
        HELP_DESK_WAIT.record((), clock.monotonic().saturating_duration_since(began));
        start
    }

    /// Makes one ticket; returns the permit, which is held until the outcome is recorded.
    pub(super) async fn send(
        &self,
        start: TicketStart,
        ticket: &NewTicket,
        fence: Fence<'_>,
    ) -> (Creation, OwnedSemaphorePermit) {
        let TicketStart { permit, turn } = start;
        // The client asks once it has the place: then it is the next one's turn.
        let turn = Mutex::new(Some(turn));
        let may_send = || {
            drop(turn.lock().unwrap_or_else(PoisonError::into_inner).take());
            fence().map_err(|why| fault(Stage::Fence, &why))
        };
        (self.parts.client.create(ticket, &may_send).await, permit)
    }

    /// Looks for an action's ticket that may exist; its delivery's key, and the ticket if it is there. A ticket in doubt is
    /// looked for over the doubt window. One that was held and that a person has opened again is looked for once.
    pub(super) async fn resolve(&self, claim: &Claim, ledger: &Ledger, order: i32) -> Option<Looked> {
        let looks = |(key, delivery): (&str, &Delivery)| {
            let looks: &[f64] = match decide::search(delivery, &claim.token)? {
                Search::OverTime => &LOOKS,
                Search::Once => &ONE_LOOK,
            };
            Some((key.to_owned(), looks))
        };
        let (key, looks) = ledger.deliveries_of(order).find_map(looks)?;
        let origin =
            Origin { submission: claim.id, action_order: order, generation: ledger.generation(order) };
        let found = self.found(&tag(origin), looks).await;
        if let Ok(Some((_, also))) = &found
            && !also.is_empty()
        {
            self.parts.extra.add(claim.id).await;
        }
        Some(Looked {
            key,
            found: found.map(|found| found.map(|(ticket, also)| Outcome::Created { ticket, also })),
        })
    }

    async fn found(
        &self,
        tag: &str,
        looks: &[f64],
    ) -> Result<Option<(TicketRef, Vec<TicketRef>)>, Unanswered> {
        let TicketParts { client, doubt_window, clock, .. } = &self.parts;
        let mut passed = 0.0;
        for part in looks {
            clock.sleep(doubt_window.mul_f64(part - passed)).await;
            passed = *part;
            let mut found = client.find(tag).await?.into_iter();
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
