//! The frame around each page: who reads it, as of when, and what is said before the content. Pure.

use jiff::Timestamp;
use uuid::Uuid;

use super::filters::QueueFilters;

/// Sections of the navigation: name, path, label.
pub(super) const SECTIONS: [(&str, &str, &str); 6] = [
    ("queue", "/queue", "Queue"),
    ("submissions", "/submissions", "Submissions"),
    ("forms", "/forms", "Forms"),
    ("status", "/status", "Status"),
    ("lifecycles", "/lifecycles", "Lifecycles"),
    ("api", "/api", "API"),
];

/// Sections of whoever sees one queue alone.
const EVERYBODYS: [&str; 3] = ["queue", "lifecycles", "api"];

/// The surroundings of a page's content.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Database time of the look; ages are counted from it.
    pub now: Timestamp,
    /// The reader; absent before login and after logout.
    pub viewer: Option<Viewer>,
    /// Result of the action that led here.
    pub flash: Option<Flash>,
    /// What the reader has to mend first; listed before the content, as links to the fields.
    pub problems: Vec<Problem>,
    /// The list that the reader works through (`?list=` of the address, `list` of forms); empty for the whole queue.
    pub list: QueueFilters,
    /// Whether this desk streams changes at `/live`.
    pub live: bool,
    /// Whether the reader sees one queue alone, and no section beside.
    pub confined: bool,
}

impl Frame {
    /// A frame with nothing to say.
    #[must_use]
    pub const fn new(now: Timestamp, viewer: Option<Viewer>) -> Self {
        let list = QueueFilters::new();
        Self { now, viewer, flash: None, problems: Vec::new(), list, live: true, confined: false }
    }

    /// The sections that the reader may open: id, path, name.
    pub(super) fn sections(&self) -> Vec<(&'static str, &'static str, &'static str)> {
        let is_open = |section: &&(&str, &str, &str)| !self.confined || EVERYBODYS.contains(&section.0);
        SECTIONS.iter().filter(is_open).copied().collect()
    }
}

/// The person who reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Viewer {
    /// Name, as in the configuration (`[desk.users.NAME]`).
    pub name: String,
    /// `viewer`, `reviewer`, `security`, `admin`.
    pub role: String,
}

/// One line about the action that led here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flash {
    /// How it went.
    pub tone: Tone,
    /// What happened, to what, in plain words.
    pub text: String,
    /// The form whose text was accepted, so that the browser forgets its draft.
    pub accepted: Option<Draft>,
    /// The entry to decide next, where the reader was deciding.
    pub next: Option<Uuid>,
}

/// How an action went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Done.
    Done,
    /// Recorded, and will go on by itself (202).
    Underway,
    /// Not, or not wholly, done.
    Warning,
}

impl Tone {
    /// Class of the style sheet.
    #[must_use]
    pub const fn class(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Underway => "underway",
            Self::Warning => "warning",
        }
    }
}

/// A form that people type into; the browser keeps its text under this name until it was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Draft {
    /// A form on an entry's page, by its [key](super::decision::Command::form_key).
    Entry(Uuid, &'static str),
    /// The form over the queue.
    Bulk,
    /// A form on a page of a form's versions, by its [key](super::forms::Ask::key).
    Version(Uuid, &'static str),
}

impl std::fmt::Display for Draft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Entry(id, command) | Self::Version(id, command) => write!(f, "{id}/{command}"),
            Self::Bulk => f.write_str("bulk"),
        }
    }
}

/// One thing to mend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong and what to do, in plain words.
    pub text: String,
    /// Anchor of the field, without `#` ([`Action::anchor`](super::decision::Action::anchor)); absent where no field is
    /// at fault.
    pub field: Option<String>,
}
