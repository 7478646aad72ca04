//! The desk's card.

use futures::FutureExt as _;

use super::check;
use super::journal::EventName;
use super::metrics::{LOGINS, PROBLEMS, REQUESTS, SECONDS};
use crate::db::contract::{Check, Look};
use crate::kernel::Card;
use crate::ops::incident::IncidentKey;

/// Incident: the desk cannot be opened. Routing goes on, so heartbeats do as well.
pub const UNAVAILABLE: IncidentKey = IncidentKey::of_others("desk").in_runbook("rb-010-review-queue.md");

/// The desk's card.
pub const CARD: Card = Card {
    transactions: &[
        "desk_login",
        "desk_visitor",
        "desk_credential",
        "desk_prune",
        "desk_decide",
        "desk_shown",
        "desk_bulk",
        "desk_version",
        "desk_form",
        "desk_ticket",
    ],
    metrics: &[&REQUESTS, &SECONDS, &PROBLEMS, &LOGINS],
    events: EventName::EVENTS,
    incidents: &[UNAVAILABLE],
    checks: &[Check { line: "desk", order: 135, look: Look::Outside(|config| check::line(config).boxed()) }],
    ..Card::named("desk")
};
