//! Submissions: a search, and the page of one. Pure.

use jiff::Timestamp;
use uuid::Uuid;

use super::frame::Frame;
use super::queue::{Choice, EntryLine};
use super::story::Story;

/// The page at `/submissions`.
#[derive(Debug, Clone)]
pub struct SubmissionsPage {
    /// Its surroundings.
    pub frame: Frame,
    /// The filters in force.
    pub filters: SubmissionFilters,
    /// Statuses.
    pub statuses: Vec<Choice>,
    /// Forms.
    pub forms: Vec<Choice>,
    /// Reasons of failures.
    pub reasons: Vec<Choice>,
    /// What was found, the youngest first; at most a page.
    pub submissions: Vec<SubmissionLine>,
    /// Where the next page begins; absent on the last.
    pub next_cursor: Option<String>,
}

/// What is searched for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubmissionFilters {
    /// An id, or its beginning, as typed.
    pub id: Option<String>,
    /// Status.
    pub status: Option<String>,
    /// Form id.
    pub form: Option<String>,
    /// Reason of the failure.
    pub reason: Option<String>,
    /// A duration, as typed: `2d`.
    pub older_than: Option<String>,
}

/// One submission, as a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmissionLine {
    /// Its id.
    pub id: Uuid,
    /// Form id.
    pub form_id: String,
    /// Status.
    pub status: String,
    /// Reason of a failure.
    pub reason: Option<String>,
    /// Attempts.
    pub attempts: u32,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When it changed last.
    pub updated_at: Timestamp,
    /// Its open entry.
    pub entry: Option<Uuid>,
}

/// The page at `/submissions/ID`.
#[derive(Debug, Clone)]
pub struct SubmissionPage {
    /// Its surroundings.
    pub frame: Frame,
    /// The submission.
    pub story: Story,
    /// Its entries, open and ended.
    pub entries: Vec<EntryLine>,
}
