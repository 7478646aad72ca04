//! An attempt as its row has it. Pure.

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use super::core::review::Priority;
use super::core::skill::Skill;

/// An attempt at grading a submission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attempt {
    /// The submission.
    pub subject: Uuid,
    /// Its number among the submission's attempts, from 1.
    pub attempt: u32,
    /// Whether it is the latest.
    pub is_current: bool,
    /// The form.
    pub form_id: String,
    /// The skill that is graded.
    pub skill: Skill,
    /// Whether the mail waits for it.
    pub gate: bool,
    /// When it fails unless it is graded.
    pub deadline: Timestamp,
    /// The newest progress: the job's try, and the number of its callback.
    pub heard: (u32, u32),
    /// How much a person is wanted.
    pub priority: Option<Priority>,
    /// How sure the grader was, 0 to 100.
    pub confidence: Option<u8>,
    /// Why it failed.
    pub failed_reason: Option<String>,
    /// When the mail was let go without a grade.
    pub released_at: Option<Timestamp>,
    /// When it was opened.
    pub created_at: Timestamp,
    /// Since when it is in its state.
    pub state_since: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// When it was closed without an end: its submission was emptied.
    pub closed_at: Option<Timestamp>,
    /// Claims from which somebody came back.
    pub returned: u32,
}
