//! Routing's card.

use super::metrics;
use super::store::contract;
use super::table::Submission;
use super::words::EventName;
use crate::kernel::Card;
use crate::kernel::describe::describe;
use crate::ops::incident::IncidentKey;

/// Incident: submissions are not ready for too long.
pub const UNREADY: IncidentKey = IncidentKey::of_others("unready");
/// Incident: returned mails cannot be read.
pub const BOUNCES: IncidentKey = IncidentKey::new("bounces");
/// Incident: the relay's log cannot be read, or has lost lines.
pub const RELAY_LOG: IncidentKey = IncidentKey::new("relay_log");

/// The room's card.
pub const CARD: Card = Card {
    lifecycles: &[describe::<Submission>],
    transactions: &[
        "claim",
        "content",
        "begin",
        "record",
        "merge_facts",
        "dead_letter",
        "dead_letter_lease",
        "dead_letter_alerted",
        "fail",
        "release",
        "heartbeat",
        "sweep_stuck",
        "sweep_orphans",
        "sweep_infected",
        "sweep_unready",
        "sweep_open",
        "sweep_count",
        "sweep_ended",
        "alert_look",
        "alert_lease",
        "alert_confirm",
        "alert_release",
        "record_seen",
    ],
    metrics: &[
        &metrics::SUBMISSIONS,
        &metrics::ACTION_ATTEMPTS,
        &metrics::REDELIVERED,
        &metrics::STALE_SETTLE,
        &metrics::IN_DOUBT,
        &metrics::RESCUED,
        &metrics::ORPHANS,
        &metrics::DELIVERY_STATUS,
        &metrics::RELAY_LOG_FLAWS,
        &metrics::RETURNED_MAILS,
        &metrics::ROUTING_LAG,
        &metrics::ACTION_DURATION,
        &metrics::QUEUE_DEPTH,
        &metrics::OLDEST_AGE,
        &metrics::IN_FLIGHT,
        &metrics::WAITING,
        &metrics::PAUSED,
        &metrics::LAST_SUCCESS,
        &metrics::INFECTED_AFTER_ROUTING,
        &metrics::SWEEPS,
        &metrics::HELP_DESK_WAIT,
        &metrics::HELP_DESK_THROTTLED,
        &metrics::HELP_DESK_DAEMONS,
    ],
    events: EventName::EVENTS,
    incidents: &[UNREADY, BOUNCES, RELAY_LOG],
    checks: contract::CHECKS,
    ..Card::named("routing")
};
