//! The uploads' card.

use super::check;
use super::journal::EventName;
use super::metrics::{
    REQUESTS, SCANNER_TRUSTED, SCANS, SESSIONS, STAGING_DUE, UNSCANNABLE as UNSCANNABLE_FILES,
    UNSCANNED as UNSCANNED_FILES, UNSCANNED_OLDEST, UPLOADS, VERIFY_SECONDS,
};
use super::store::contract;
use super::table::Upload;
use crate::kernel::Card;
use crate::kernel::describe::describe;
use crate::ops::incident::IncidentKey;

/// The runbook of uploads.
pub const RUNBOOK: &str = "rb-011-uploads.md";

/// Incident: the listener is not open.
pub const UNAVAILABLE: IncidentKey = IncidentKey::new("uploads_unavailable").in_runbook(RUNBOOK);
/// Incident: the scanner does not find its test file.
pub const SCANNER: IncidentKey = IncidentKey::new("scanner_doubted").in_runbook(RUNBOOK);
/// Incident: the object store does not do what uploads ask of it.
pub const STORE: IncidentKey = IncidentKey::new("uploads_store").in_runbook(RUNBOOK);
/// Incident: committed files have no verdict for an hour.
pub const UNSCANNED: IncidentKey = IncidentKey::new("unscanned").in_runbook(RUNBOOK);
/// Incident: the scanner cannot judge files.
pub const UNSCANNABLE: IncidentKey = IncidentKey::of_others("unscannable").in_runbook(RUNBOOK);
/// Incident: what ended uploads brought cannot be removed.
pub const STUCK: IncidentKey = IncidentKey::of_others("staging_stuck").in_runbook(RUNBOOK);

/// The uploads' card.
pub const CARD: Card = Card {
    lifecycles: &[describe::<Upload>],
    transactions: &[
        "upload_claim",
        "upload_wake",
        "upload_settle",
        "upload_extend",
        "upload_create",
        "upload_command",
        "upload_plan",
        "upload_attach",
        "upload_verdict",
        "upload_scan_take",
        "upload_scan_later",
        "upload_staging_take",
        "upload_staging_gone",
        "upload_unattached",
    ],
    metrics: &[
        &REQUESTS,
        &SESSIONS,
        &UPLOADS,
        &VERIFY_SECONDS,
        &SCANS,
        &SCANNER_TRUSTED,
        &UNSCANNED_FILES,
        &UNSCANNED_OLDEST,
        &UNSCANNABLE_FILES,
        &STAGING_DUE,
    ],
    events: EventName::EVENTS,
    incidents: &[UNAVAILABLE, SCANNER, STORE, UNSCANNED, UNSCANNABLE, STUCK],
    checks: &[contract::CHECK, check::BUCKETS, check::SCANNER],
    ..Card::named("uploads")
};
