//! What this process has in hand and has done since it started: the numbers of the status line. Counted where the metrics
//! are ([`super::metrics`]), so that the two cannot part.
//!
//! Nothing is kept over a restart. Never blocks.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::metrics::SubmissionOutcome;

static IN_FLIGHT: AtomicUsize = AtomicUsize::new(0);
static WAITING: AtomicUsize = AtomicUsize::new(0);
static ROUTED: AtomicU64 = AtomicU64::new(0);
static FAILED: AtomicU64 = AtomicU64::new(0);

/// The numbers at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Submissions claimed by this process.
    pub in_flight: usize,
    /// Submissions in hand that wait for their claim.
    pub waiting: usize,
    /// Routed since the start.
    pub routed: u64,
    /// Failed since the start.
    pub failed: u64,
}

impl Tally {
    /// As they are now.
    #[must_use]
    pub fn now() -> Self {
        Self {
            in_flight: IN_FLIGHT.load(Relaxed),
            waiting: WAITING.load(Relaxed),
            routed: ROUTED.load(Relaxed),
            failed: FAILED.load(Relaxed),
        }
    }
}

pub(super) fn in_flight(submissions: usize) {
    IN_FLIGHT.store(submissions, Relaxed);
}

pub(super) fn waiting(submissions: usize) {
    WAITING.store(submissions, Relaxed);
}

pub(super) fn submission(outcome: SubmissionOutcome) {
    match outcome {
        SubmissionOutcome::Routed => ROUTED.fetch_add(1, Relaxed),
        SubmissionOutcome::Failed => FAILED.fetch_add(1, Relaxed),
        SubmissionOutcome::Released => 0,
    };
}
