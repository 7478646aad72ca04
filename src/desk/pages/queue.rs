//! The queue: what waits for a decision. Its filters are the URL, so that a list can be sent to somebody. Pure.

use jiff::Timestamp;
use url::form_urlencoded::Serializer;
use uuid::Uuid;

use super::decision::Command;
use super::frame::Frame;

/// The page at `/queue`.
#[derive(Debug, Clone)]
pub struct QueuePage {
    /// Its surroundings.
    pub frame: Frame,
    /// The filters in force.
    pub filters: QueueFilters,
    /// What can be filtered by.
    pub choices: QueueChoices,
    /// Entries in each state under the other filters, in the lifecycle's order, zeros among them.
    pub summary: Vec<StateCount>,
    /// The rows of this page.
    pub entries: Vec<EntryLine>,
    /// Where the next page begins; absent on the last.
    pub next_cursor: Option<String>,
    /// Whether this page is the first; the script counts new entries only there.
    pub is_first: bool,
    /// Entries of the queue without any filter, to tell an empty queue from a narrow filter.
    pub open_in_all: u64,
    /// Commands for what is selected; empty for a reader who may only look.
    pub bulk: Vec<Command>,
    /// What was typed and chosen in the bulk bar, after it was refused.
    pub typed: BulkTyped,
    /// Idempotency key of the bulk form.
    pub idempotency_key: String,
}

/// The rows alone, at `/queue/rows?ids=…&FILTERS`, for the script.
#[derive(Debug, Clone)]
pub struct QueueRows {
    /// Database time of the look.
    pub now: Timestamp,
    /// The entries that were asked for and fit the filters.
    pub entries: Vec<EntryLine>,
    /// Whether rows have a box to select them.
    pub selectable: bool,
}

/// The filters, as in the API. Empty: every open entry, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueFilters {
    /// States; empty for the open ones.
    pub states: Vec<String>,
    /// Cause.
    pub cause: Option<String>,
    /// Reason.
    pub reason: Option<String>,
    /// Form id.
    pub form: Option<String>,
    /// `operations`, `security`, …
    pub queue: Option<String>,
    /// `me`, `none`, or a name.
    pub assignee: Option<String>,
    /// Id of a submission or a dead letter.
    pub subject: Option<Uuid>,
    /// A duration, as it was typed: `2d`.
    pub older_than: Option<String>,
    /// Order; absent for the default.
    pub order: Option<String>,
}

/// What a field offers: its value in the URL, and its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Value in the URL or form.
    pub value: String,
    /// Words for people.
    pub label: String,
}

/// What the filters offer. A filter in force that is not among them is shown as well.
#[derive(Debug, Clone, Default)]
pub struct QueueChoices {
    /// Causes.
    pub causes: Vec<Choice>,
    /// Reasons.
    pub reasons: Vec<Choice>,
    /// Forms that have entries.
    pub forms: Vec<Choice>,
    /// Queues that the reader sees.
    pub queues: Vec<Choice>,
    /// People who may be assigned; `me` and `none` are offered anyway.
    pub people: Vec<Choice>,
    /// Orders; the first is the default.
    pub orders: Vec<Choice>,
}

/// Entries in one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateCount {
    /// State, as in the database: `UnderReview`.
    pub state: String,
    /// How many.
    pub count: u64,
    /// Whether an entry in it waits for something.
    pub open: bool,
}

/// One entry, as a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryLine {
    /// Its id.
    pub id: Uuid,
    /// Its version as read; travels with the selection.
    pub version: i64,
    /// State, as in the database.
    pub state: String,
    /// What is wrong, in plain words ([`super::plain::heading`]).
    pub what: String,
    /// Why, in plain words: the code behind it, the domain, the count.
    pub why: String,
    /// Form id; absent where the subject has no form.
    pub form_id: Option<String>,
    /// Queue.
    pub queue: String,
    /// Events that it stands for.
    pub occurrences: u64,
    /// Who has it.
    pub assignee: Option<String>,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// Since when it is in this state.
    pub state_since: Timestamp,
    /// When it expires; shown when that is within three days.
    pub expires_at: Option<Timestamp>,
    /// Whether the evidence for an honest resolve is there.
    pub evidence_sufficient: bool,
}

/// What was typed in the bulk bar.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BulkTyped {
    /// Selected ids.
    pub ids: Vec<Uuid>,
    /// Command.
    pub command: Option<Command>,
    /// Reason.
    pub reason: String,
}

impl QueueFilters {
    /// The filters as a query, without `?`; empty when none is in force.
    #[must_use]
    pub fn query(&self) -> String {
        self.with(None)
    }

    /// The page's path under these filters.
    #[must_use]
    pub fn href(&self) -> String {
        href("/queue", &self.query())
    }

    /// The path of the next page.
    #[must_use]
    pub fn next_href(&self, cursor: &str) -> String {
        href("/queue", &self.with(Some(cursor)))
    }

    fn with(&self, cursor: Option<&str>) -> String {
        let mut query = Serializer::new(String::new());
        for state in &self.states {
            query.append_pair("state", state);
        }
        let subject = self.subject.map(|id| id.to_string());
        for (name, value) in [
            ("cause", &self.cause),
            ("reason", &self.reason),
            ("form", &self.form),
            ("queue", &self.queue),
            ("assignee", &self.assignee),
            ("subject", &subject),
            ("older_than", &self.older_than),
            ("order", &self.order),
        ] {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        if let Some(cursor) = cursor {
            query.append_pair("cursor", cursor);
        }
        query.finish()
    }
}

fn href(path: &str, query: &str) -> String {
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}
