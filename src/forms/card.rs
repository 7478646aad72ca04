//! The card of form versions.

use super::check;
use super::journal::EventName;
use super::metrics::{DECISIONS, DRIFTED, MANAGED};
use super::store::contract;
use super::table::Version;
use crate::kernel::Card;
use crate::kernel::describe::describe;
use crate::ops::incident::IncidentKey;

/// The runbook of versions.
pub const RUNBOOK: &str = "rb-012-publish.md";

/// Incident: managed forms are not what they follow.
pub const DRIFT: IncidentKey = IncidentKey::new("forms_drift").in_runbook(RUNBOOK);
/// Incident: the policy is away.
pub const AWAY: IncidentKey = IncidentKey::new("policy_away").in_runbook(RUNBOOK);

/// The card of form versions.
pub const CARD: Card = Card {
    lifecycles: &[describe::<Version>],
    transactions: &[
        "version_settle",
        "version_load",
        "version_publish",
        "version_promote",
        "version_rollback",
        "version_bury",
        "version_restore",
        "version_sign",
        "version_signatures",
        "version_adopt",
    ],
    metrics: &[&DECISIONS, &MANAGED, &DRIFTED],
    events: EventName::EVENTS,
    incidents: &[DRIFT, AWAY],
    checks: &[contract::CHECK, check::POLICY],
    ..Card::named("forms")
};
