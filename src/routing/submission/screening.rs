//! What the routing knows of a submission's screening: whether it may be claimed, and how far its run is; the gate is grading's as well. Pure.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::kernel::words;

words! {
    /// What screening says of a submission (`screening.gates`), and grading of what has passed it (`assessment.gates`).
    Gate {
        /// It is not screened, or published; it is not graded, or need not wait for its grade any more.
        Passed = "passed",
        /// Its screening goes on.
        Waiting = "waiting",
        /// Its grading goes on, or has failed.
        Ungraded = "ungraded",
        /// It stays out.
        Out = "out",
    }
}

/// A run of screening, in codes and counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreeningRun {
    /// Its id.
    pub id: Uuid,
    /// Its number, from 1.
    pub run: u32,
    /// Its state, as the lifecycle `screening` calls it.
    pub state: String,
    /// Since when.
    pub since: Timestamp,
    /// Whether the submission waits for it.
    pub enforced: bool,
    /// The judge's score.
    pub score: Option<u8>,
    /// Why no machine approves it alone.
    pub bars: Vec<String>,
    /// Why its job was given up on.
    pub dead: Option<String>,
}
