//! Submissions: a search, and the page of one. Pure.

use askama::Template;
use jiff::Timestamp;
use url::form_urlencoded::Serializer;
use uuid::Uuid;

use super::filters::{self, Choice, href};
use super::frame::Frame;
use super::queue::{self, EntryLine};
use super::story::Story;
use super::{assets, plain, when};

/// The page at `/submissions`.
#[derive(Debug, Clone, Template)]
#[template(path = "submissions.html")]
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
    /// What was found, changed last first; at most a page.
    pub submissions: Vec<SubmissionLine>,
    /// Whether this is the first page.
    pub is_first: bool,
    /// Where the next page begins; absent on the last.
    pub next_cursor: Option<String>,
    /// How far back was looked, where the search was not to the end and the page is not full.
    pub looked_back_to: Option<Timestamp>,
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
#[derive(Debug, Clone, Template)]
#[template(path = "submission.html")]
pub struct SubmissionPage {
    /// Its surroundings.
    pub frame: Frame,
    /// The submission.
    pub story: Story,
    /// Its entries, open and ended.
    pub entries: Vec<EntryLine>,
}

impl SubmissionsPage {
    fn title(&self) -> &'static str {
        "Submissions"
    }

    fn section(&self) -> &'static str {
        "submissions"
    }
}

impl SubmissionPage {
    fn title(&self) -> String {
        format!("Submission {}", plain::short(&self.story.id))
    }

    fn section(&self) -> &'static str {
        "submissions"
    }

    fn path(&self) -> String {
        format!("/submissions/{}", self.story.id)
    }
}

impl SubmissionFilters {
    /// The page's path under these filters.
    #[must_use]
    pub fn href(&self) -> String {
        href("/submissions", &self.query(None))
    }

    /// The path of the next page.
    #[must_use]
    pub fn next_href(&self, cursor: &str) -> String {
        href("/submissions", &self.query(Some(cursor)))
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn query(&self, cursor: Option<&str>) -> String {
        let mut query = Serializer::new(String::new());
        for (name, value) in [
            ("id", self.id.as_deref()),
            ("status", self.status.as_deref()),
            ("form", self.form.as_deref()),
            ("reason", self.reason.as_deref()),
            ("older_than", self.older_than.as_deref()),
            ("cursor", cursor),
        ] {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        query.finish()
    }
}
