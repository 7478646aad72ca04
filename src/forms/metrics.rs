//! The metrics of form versions, as the daemon sees them in the decisions that are kept.

use crate::kernel::metric::{Counter, Gauge};
use crate::words;

words! {
    /// What became of a command that is judged.
    Outcome {
        /// A draft was published.
        Published = "published",
        /// A draft was refused.
        Quarantined = "quarantined",
        /// A form follows another version.
        Promoted = "promoted",
        /// A version was taken back.
        Restored = "restored",
        /// A promotion or a restoration was refused.
        Refused = "refused",
    }
}

/// Commands that were judged, as this process saw them.
pub(super) static DECISIONS: Counter<Outcome> = Counter::new(
    "maple_router_form_publish_total",
    "Publications, promotions and restorations of form versions, by outcome, since this process looks",
)
.by(&["outcome"]);
/// Managed forms, at the last look.
pub(super) static MANAGED: Gauge =
    Gauge::new("maple_router_forms_managed", "Forms that follow a version, at the last look");
/// Managed forms whose rows are not their version's, at the last look.
pub(super) static DRIFTED: Gauge = Gauge::new(
    "maple_router_forms_drifted",
    "Managed forms whose rows are not those of the version that they follow, at the last look",
);
