//! The outbox's card.

use super::journal::EventName;
use super::metrics::{DEPTH, OLDEST, TRANSITIONS};
use super::store::contract;
use super::table::Outbox;
use crate::kernel::Card;
use crate::kernel::describe::describe;
use crate::ops::incident::IncidentKey;

/// Incident: events wait in the outbox, and nobody delivers them.
pub const STALLED: IncidentKey = IncidentKey::new("outbox");

/// The outbox's card.
pub const CARD: Card = Card {
    lifecycles: &[describe::<Outbox>],
    transactions: &[
        "router_outbox",
        "outbox_claim",
        "outbox_wake",
        "outbox_settle",
        "outbox_extend",
        "outbox_prune",
    ],
    metrics: &[&DEPTH, &OLDEST, &TRANSITIONS],
    events: EventName::EVENTS,
    incidents: &[STALLED],
    checks: contract::CHECKS,
    ..Card::named("outbox")
};
