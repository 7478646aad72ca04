//! The numbers of the status line: pending submissions of this process, and its results since the start. Counted in the same
//! calls as the metrics, so that the two cannot differ.
//!
//! A restart resets all. Never blocks.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

static IN_FLIGHT: AtomicUsize = AtomicUsize::new(0);
static WAITING: AtomicUsize = AtomicUsize::new(0);
static ROUTED: AtomicU64 = AtomicU64::new(0);
static FAILED: AtomicU64 = AtomicU64::new(0);

/// The numbers at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Submissions claimed by this process.
    pub in_flight: usize,
    /// Pending submissions that wait for their claim.
    pub waiting: usize,
    /// Submissions routed since the start.
    pub routed: u64,
    /// Submissions failed since the start.
    pub failed: u64,
}

impl Tally {
    /// Returns the current numbers.
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

/// Sets the number of submissions claimed by this process.
pub fn in_flight(submissions: usize) {
    IN_FLIGHT.store(submissions, Relaxed);
}

/// Sets the number of pending submissions that wait for their claim.
pub fn waiting(submissions: usize) {
    WAITING.store(submissions, Relaxed);
}

/// Counts one more routed submission.
pub fn routed() {
    ROUTED.fetch_add(1, Relaxed);
}

/// Counts one more failed submission.
pub fn failed() {
    FAILED.fetch_add(1, Relaxed);
}
