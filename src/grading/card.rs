//! The card of grading.

use super::check;
use super::job::table::Job;
use super::journal::EventName;
use super::link::topics;
use super::metrics::{
    CALLS, DISAGREEMENT, JOBS, LATE, QUEUE_DEPTH, RETRIES, REVIEW_AGE, REVIEW_PENDING, STAGE_SECONDS,
    SUBMISSIONS, TIMEOUTS,
};
use super::store::{RESULT, contract};
use super::table::Grading;
use crate::kernel::Card;
use crate::kernel::describe::describe;
use crate::ops::http::READY;
use crate::ops::incident::IncidentKey;

/// The runbook of grading.
pub const RUNBOOK: &str = "rb-015-grading.md";

/// Incident: attempts were not graded in time.
pub const TIMED_OUT: IncidentKey = IncidentKey::new("grading_timeouts").in_runbook(RUNBOOK);
/// Incident: nobody takes what waits.
pub const STALLED: IncidentKey = IncidentKey::new("grading_stalled").in_runbook(RUNBOOK);
/// Incident: messages that nobody could take in.
pub const MESSAGES: IncidentKey = IncidentKey::new("grading_messages").in_runbook(RUNBOOK);
/// Incident: what waits for a person waits too long.
pub const REVIEW: IncidentKey = IncidentKey::new("grading_review").in_runbook(RUNBOOK);
/// Incident: attempts have spent half of their time: whoever grades is slow, or away.
pub const JUDGE: IncidentKey = IncidentKey::new("grading_judge").in_runbook(RUNBOOK);
/// Incident: people and the grader have come apart.
pub const DRIFT: IncidentKey = IncidentKey::new("grading_drift").in_runbook(RUNBOOK);

/// The card of the grader's process.
pub const GRADER: Card = Card { metrics: &[&CALLS, &READY], ..Card::named("grader") };

/// The card of grading.
pub const CARD: Card = Card {
    lifecycles: &[describe::<Grading>, describe::<Job>],
    kinds: &[RESULT],
    transactions: &[
        "grading_claim",
        "grading_wake",
        "grading_settle",
        "grading_extend",
        "grading_births",
        "grading_take",
        "grading_link",
        "grading_time_out",
        "grading_set",
        "grading_later",
        "grading_job_claim",
        "grading_job_wake",
        "grading_job_settle",
        "grading_job_extend",
        "grading_job_record",
        "grading_job_empty",
    ],
    metrics: &[
        &SUBMISSIONS,
        &STAGE_SECONDS,
        &QUEUE_DEPTH,
        &JOBS,
        &RETRIES,
        &TIMEOUTS,
        &LATE,
        &REVIEW_PENDING,
        &REVIEW_AGE,
        &DISAGREEMENT,
    ],
    events: EventName::EVENTS,
    incidents: &[TIMED_OUT, STALLED, MESSAGES, REVIEW, JUDGE, DRIFT],
    checks: &[contract::CHECK, check::GRADER, check::JUDGE, check::STT, check::CALIBRATION, topics::CHECK],
    ..Card::named("grading")
};
