//! The card of retention.

use super::check;
use super::journal::EventName;
use super::metrics::{BLOBS, DELETES, HOLDS, PURGED, SINCE_RUN};
use super::store::contract;
use super::table::Blob;
use crate::kernel::Card;
use crate::kernel::describe::describe;
use crate::ops::incident::IncidentKey;

/// The runbook of retention and erasure.
pub const RUNBOOK: &str = "rb-013-gc-and-erasure.md";

/// Incident: no run has come to its end for days.
pub const OVERDUE: IncidentKey = IncidentKey::new("gc_overdue").in_runbook(RUNBOOK);
/// Incident: the last run failed.
pub const FAILED: IncidentKey = IncidentKey::new("gc_failed").in_runbook(RUNBOOK);
/// Incident: objects were gone before they were deleted, or replaced by others.
pub const LOST: IncidentKey = IncidentKey::new("gc_objects_lost").in_runbook(RUNBOOK);

/// The card of retention.
pub const CARD: Card = Card {
    lifecycles: &[describe::<Blob>],
    transactions: &[
        "gc_settle",
        "gc_begin",
        "gc_extend",
        "gc_end",
        "gc_purge",
        "gc_with_field",
        "gc_forget",
        "gc_release",
        "gc_mark",
        "gc_sweep",
        "gc_ask",
        "gc_gone",
        "gc_recall",
        "gc_undelete",
        "gc_look",
        "hold_place",
        "hold_release",
        "retention_set",
    ],
    metrics: &[&BLOBS, &DELETES, &PURGED, &SINCE_RUN, &HOLDS],
    events: EventName::EVENTS,
    incidents: &[OVERDUE, FAILED, LOST],
    checks: &[contract::CHECK, check::COLLECTOR],
    ..Card::named("retention")
};
