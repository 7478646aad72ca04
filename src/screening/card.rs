//! The card of screening.

use super::journal::EventName;
use super::metrics::{
    DECISIONS, JOBS, JUDGE_TOKENS, JUDGE_TOKENS_LIMIT, QUEUE_DEPTH, QUEUE_OLDEST, RECEIVED, REVIEW_OLDEST,
    STAGE_SECONDS, TIER1_SECONDS, TIER2_SECONDS,
};
use super::store::{PUBLISHED, contract};
use super::table::Screening;
use crate::kernel::Card;
use crate::kernel::describe::describe;
use crate::ops::incident::IncidentKey;

/// The runbook of screening.
pub const RUNBOOK: &str = "rb-014-screening.md";

/// Incident: jobs were given up on.
pub const DEAD: IncidentKey = IncidentKey::new("screening_dead").in_runbook(RUNBOOK);
/// Incident: nobody works on what waits.
pub const STALLED: IncidentKey = IncidentKey::new("screening_stalled").in_runbook(RUNBOOK);
/// Incident: no verdict was to be had, and people decide instead.
pub const UNAVAILABLE: IncidentKey = IncidentKey::new("screening_judge").in_runbook(RUNBOOK);
/// Incident: the tokens of the day are nearly spent, or a form's are.
pub const BUDGET: IncidentKey = IncidentKey::new("screening_budget").in_runbook(RUNBOOK);
/// Incident: what waits for a person waits too long.
pub const REVIEW: IncidentKey = IncidentKey::new("screening_review").in_runbook(RUNBOOK);

/// The card of screening.
pub const CARD: Card = Card {
    lifecycles: &[describe::<Screening>],
    kinds: &[PUBLISHED],
    transactions: &[
        "screening_claim",
        "screening_wake",
        "screening_settle",
        "screening_extend",
        "screening_births",
        "screening_record",
        "screening_reconcile",
        "screening_set",
        "screening_spend",
    ],
    metrics: &[
        &RECEIVED,
        &TIER1_SECONDS,
        &TIER2_SECONDS,
        &QUEUE_DEPTH,
        &QUEUE_OLDEST,
        &DECISIONS,
        &JOBS,
        &STAGE_SECONDS,
        &JUDGE_TOKENS,
        &JUDGE_TOKENS_LIMIT,
        &REVIEW_OLDEST,
    ],
    events: EventName::EVENTS,
    incidents: &[DEAD, STALLED, UNAVAILABLE, BUDGET, REVIEW],
    checks: &[contract::CHECK],
    ..Card::named("screening")
};
