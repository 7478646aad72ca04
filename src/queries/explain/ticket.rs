//! The help desk's tickets in an explanation: their ids, where agents see them, and the tag they are found by.

use serde::Serialize;

use super::Page;
use crate::config::HappyFox;
use crate::ports::TicketRef;
use crate::routing::submission::ledger::Delivery;

/// A ticket, made or to be made.
#[derive(Debug, Serialize)]
pub(crate) struct TicketPart {
    /// The tag that doubt is resolved by, and that a person can search for.
    pub(crate) tag: String,
    /// The ticket; absent until it is made.
    #[serde(flatten)]
    pub(crate) made: Option<MadePart>,
    /// Further tickets of the same tag, which somebody should close.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) also: Vec<MadePart>,
}

/// A ticket that exists.
#[derive(Debug, Serialize)]
pub(crate) struct MadePart {
    /// Number of the ticket in the help desk's API.
    pub(crate) id: u64,
    /// Id that people see.
    pub(crate) display_id: String,
    /// The page on which agents see it; absent where no help desk is configured here.
    pub(crate) url: Option<String>,
}

impl TicketPart {
    /// The ticket of a delivery with this tag; without addresses yet.
    pub(super) fn of(tag: String, delivery: &Delivery) -> Self {
        Self {
            tag,
            made: delivery.ticket.clone().map(MadePart::from),
            also: delivery.also.iter().cloned().map(MadePart::from).collect(),
        }
    }
}

impl From<TicketRef> for MadePart {
    fn from(ticket: TicketRef) -> Self {
        Self { id: ticket.id, display_id: ticket.display_id, url: None }
    }
}

impl Page {
    /// Adds where agents see the tickets.
    pub(super) fn add_tickets(&mut self, help_desk: &HappyFox) {
        let tickets = self.deliveries.iter_mut().filter_map(|delivery| delivery.ticket.as_mut());
        for made in tickets.flat_map(|ticket| ticket.made.iter_mut().chain(&mut ticket.also)) {
            made.url = help_desk.ticket_url(made.id);
        }
    }

    /// Whether a ticket is still to be made, so that the help desk's state matters.
    pub(super) fn waits_for_ticket(&self, help_desk: &HappyFox) -> bool {
        let open = self.deliveries.iter().any(|part| part.ticket.is_some() && part.state == "open");
        let planned =
            self.deliveries.is_empty() && self.plan.iter().any(|action| !action.action_type.is_email());
        help_desk.is_on() && !self.status.is_terminal() && (open || planned)
    }
}
