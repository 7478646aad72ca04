//! The metrics of retention, as the daemon sees them in the rows: the collector is a process of its own that comes and goes.

use crate::kernel::metric::{Counter, Gauge};
use crate::words;

words! {
    /// Blobs that wait to be collected, by state.
    Waiting {
        /// Without a reference.
        Tombstoned = "tombstoned",
        /// Marked by a run.
        Eligible = "eligible_for_gc",
        /// Deleted, and the object is not gone yet.
        Owed = "deleted",
    }
}

words! {
    /// How a deletion ended.
    Deletion {
        /// The object is gone.
        Deleted = "deleted",
        /// It was gone already.
        Missing = "missing",
        /// Another object has its name.
        Replaced = "replaced",
        /// The store did not do it; it is tried again.
        Failed = "failed",
    }
}

words! {
    /// What became of submissions whose time had come.
    Outcome {
        /// Emptied.
        Purged = "purged",
        /// Kept for a reason.
        Kept = "kept",
        /// The database refused it.
        Refused = "refused",
    }
}

/// Blobs that wait to be collected, at the last look.
pub(super) static BLOBS: Gauge<Waiting> = Gauge::new(
    "maple_router_gc_blobs",
    "Blobs without a reference, marked, or deleted with an object that is not gone yet, at the last look",
)
.by(&["state"]);
/// Deletions of runs that ended while this process looked.
pub(super) static DELETES: Counter<Deletion> = Counter::new(
    "maple_router_gc_deletes_total",
    "Objects that the collector's runs asked the store to delete, by result",
)
.by(&["result"]);
/// Submissions of runs that ended while this process looked.
pub(super) static PURGED: Counter<Outcome> = Counter::new(
    "maple_router_purged_total",
    "Submissions whose time had come when a run of the collector looked, by what became of them",
)
.by(&["outcome"]);
/// Time since a run came to its end.
pub(super) static SINCE_RUN: Gauge = Gauge::new(
    "maple_router_gc_since_run_seconds",
    "Time since a run of the collector came to its end; 0 where there was none yet",
);
/// Holds.
pub(super) static HOLDS: Gauge = Gauge::new("maple_router_holds", "Legal holds, at the last look");
