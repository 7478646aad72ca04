//! The grey queue's card.

use super::journal::EventName;
use super::metrics::{CONFLICTS, DEPTH, OLDEST, OPENED, RECONCILED, REMEDIES, TRANSITIONS};
use super::store::{ASSIGNED, contract};
use super::table::GreyQueue;
use crate::kernel::Card;
use crate::kernel::describe::describe;
use crate::ops::incident::IncidentKey;

/// The runbook of the desk.
pub const RUNBOOK: &str = "rb-010-review-queue.md";

/// Incident: failures had no entry; the triggers do not do what they should.
pub const UNOPENED: IncidentKey = IncidentKey::new("review_reconciled").in_runbook(RUNBOOK);
/// Incident: what is under review will be emptied by retention.
pub const RETENTION: IncidentKey = IncidentKey::of_others("review_retention").in_runbook(RUNBOOK);

/// The grey queue's card.
pub const CARD: Card = Card {
    lifecycles: &[describe::<GreyQueue>],
    kinds: &[ASSIGNED],
    transactions: &[
        "grey_queue_claim",
        "grey_queue_wake",
        "grey_queue_settle",
        "grey_queue_extend",
        "grey_queue_list",
        "grey_queue_now",
        "grey_queue_remedy",
        "grey_queue_forgive",
        "grey_queue_plan",
        "grey_queue_policy",
        "grey_queue_notice",
        "grey_queue_reconcile",
        "grey_queue_prune",
    ],
    metrics: &[&DEPTH, &OLDEST, &OPENED, &TRANSITIONS, &REMEDIES, &CONFLICTS, &RECONCILED],
    events: EventName::EVENTS,
    incidents: &[UNOPENED, RETENTION],
    checks: contract::CHECKS,
    ..Card::named("grey_queue")
};
