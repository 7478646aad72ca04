//! The uploads' metrics.

use super::store::Verdict;
use super::table::State;
use crate::kernel::metric::{Counter, Gauge, Histogram};
use crate::words;

words! {
    /// What became of an upload.
    Outcome {
        /// A blob was made of it.
        Committed = "committed",
        /// A blob of the same bytes was there.
        Deduplicated = "deduplicated",
        /// Other bytes came than were declared.
        Mismatch = "mismatch",
        /// Its time was up.
        Expired = "expired",
        /// Somebody ended it.
        Aborted = "aborted",
        /// The store has lost it.
        Lost = "lost",
    }
}

words! {
    /// How a request of the API was answered.
    Answer {
        /// As it was asked.
        Done = "done",
        /// The asker is told what is wrong.
        Refused = "refused",
        /// We, or what we depend on, are at fault.
        Failed = "failed",
    }
}

impl Answer {
    /// The class of an HTTP status.
    pub(super) fn of(status: u16) -> Self {
        match status {
            ..400 => Self::Done,
            400..500 => Self::Refused,
            500.. => Self::Failed,
        }
    }
}

/// Requests to the API.
pub(super) static REQUESTS: Counter<Answer> = Counter::new(
    "maple_router_upload_requests_total",
    "Requests to the API of uploads, by how they were answered",
)
.by(&["answer"]);
/// Open sessions by state, at the last look.
pub(super) static SESSIONS: Gauge<State> =
    Gauge::new("maple_router_upload_sessions", "Open upload sessions by state, at the last look")
        .by(&["state"])
        .only(|| State::ALL.iter().copied().filter(|state| !state.is_ended()).collect());
/// Uploads that have ended, as this process saw them.
pub static UPLOADS: Counter<Outcome> = Counter::new(
    "maple_router_uploads_total",
    "Uploads that this process saw come to their end, by what became of them",
)
.by(&["outcome"]);
/// Seconds from the claim of a commit to its end.
pub static VERIFY_SECONDS: Histogram = Histogram::new(
    "maple_router_upload_verify_seconds",
    "Assembling, reading, scanning and keeping one upload",
    &[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0],
);
/// Scans by verdict.
pub static SCANS: Counter<Verdict> =
    Counter::new("maple_router_scans_total", "Files that the scanner was asked about, by its verdict")
        .by(&["verdict"]);
/// Whether the scanner finds its test file.
pub static SCANNER_TRUSTED: Gauge =
    Gauge::new("maple_router_scanner_trusted", "1 while the scanner finds its test file");
/// Blobs without a verdict.
pub(super) static UNSCANNED: Gauge =
    Gauge::new("maple_router_unscanned", "Committed files without a verdict, at the last look");
/// Age of the oldest of them.
pub(super) static UNSCANNED_OLDEST: Gauge = Gauge::new(
    "maple_router_unscanned_oldest_seconds",
    "Age of the committed file that has waited longest for a verdict; 0 where there is none",
);
/// Blobs that the scanner cannot judge.
pub(super) static UNSCANNABLE: Gauge =
    Gauge::new("maple_router_unscannable", "Committed files that the scanner cannot judge, at the last look");
/// Objects due for removal.
pub(super) static STAGING_DUE: Gauge = Gauge::new(
    "maple_router_staging_due",
    "Objects of ended uploads that are to be removed, at the last look",
);
