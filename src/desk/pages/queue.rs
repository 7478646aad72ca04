//! The queue: what waits for a decision. Its filters are the URL, so that a list can be sent to somebody. Pure.

use askama::Template;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::decision::Command;
pub use super::filters::{Choice, QueueFilters};
use super::filters::{Offered, options};
use super::frame::Frame;
use super::{assets, filters, plain, when};

/// An end nearer than this is shown in the list.
const NEAR: SignedDuration = SignedDuration::from_hours(72);

/// Nothing is selected in rows that come alone.
pub(super) const NONE: &[Uuid] = &[];

/// The page at `/queue`.
#[derive(Debug, Clone, Template)]
#[template(path = "queue.html")]
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
#[derive(Debug, Clone, Template)]
#[template(path = "queue_rows.html")]
pub struct QueueRows {
    /// Database time of the look.
    pub now: Timestamp,
    /// The filters in force.
    pub filters: QueueFilters,
    /// The entries that were asked for and fit the filters.
    pub entries: Vec<EntryLine>,
    /// Whether rows have a box to select them.
    pub selectable: bool,
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

impl BulkTyped {
    fn is(&self, command: &Command) -> bool {
        self.command == Some(*command)
    }
}

/// Words of an empty list.
struct Empty {
    title: &'static str,
    text: String,
    link: Option<(String, &'static str)>,
}

/// A filter in force, and the path without it.
struct Chip {
    text: String,
    without: String,
}

impl QueuePage {
    fn title(&self) -> &'static str {
        "Queue"
    }

    fn section(&self) -> &'static str {
        "queue"
    }

    fn selectable(&self) -> bool {
        !self.bulk.is_empty()
    }

    /// Whether a field of the filters is at fault; their ids begin with `f-`.
    fn is_filter_wrong(&self) -> bool {
        self.frame
            .problems
            .iter()
            .filter_map(|problem| problem.field.as_deref())
            .any(|field| field.starts_with("f-"))
    }

    fn open_count(&self) -> u64 {
        self.summary.iter().filter(|state| state.open).map(|state| state.count).sum()
    }

    fn lead(&self) -> String {
        match self.open_in_all {
            0 => "Nothing waits for a decision.".to_owned(),
            1 => "One entry is open.".to_owned(),
            open => format!("{} entries are open.", plain::thousands(&open)),
        }
    }

    fn order_words(&self) -> String {
        let chosen = self.filters.order.as_ref();
        let of = |choice: &&Choice| chosen.is_none_or(|order| choice.value == *order);
        self.choices.orders.iter().find(of).map_or_else(String::new, |choice| choice.label.to_lowercase())
    }

    /// The orders; the default one is not set in the address.
    fn orders(&self) -> Vec<Offered> {
        let mut offered = options(&self.choices.orders, self.filters.order.as_deref());
        if let Some(default) = offered.first_mut() {
            default.value.clear();
        }
        offered
    }

    fn chips(&self) -> Vec<Chip> {
        let filters = &self.filters;
        let mut chips = Vec::new();
        let mut chip = |text: String, change: &dyn Fn(&mut QueueFilters)| {
            let mut without = filters.clone();
            change(&mut without);
            chips.push(Chip { text, without: without.href() });
        };
        for state in &filters.states {
            let words = format!("State: {}", plain::state(state));
            chip(words, &|without| without.states.retain(|other| other != state));
        }
        let labelled = |choices: &[Choice], value: &str| {
            let known = choices.iter().find(|choice| choice.value == value);
            known.map_or_else(|| value.to_owned(), |choice| choice.label.clone())
        };
        let choices = &self.choices;
        if let Some(cause) = &filters.cause {
            chip(format!("Cause: {}", labelled(&choices.causes, cause)), &|without| without.cause = None);
        }
        if let Some(reason) = &filters.reason {
            chip(format!("Reason: {}", labelled(&choices.reasons, reason)), &|without| without.reason = None);
        }
        if let Some(form) = &filters.form {
            chip(format!("Form: {}", labelled(&choices.forms, form)), &|without| without.form = None);
        }
        if let Some(queue) = &filters.queue {
            chip(format!("Queue: {}", labelled(&choices.queues, queue)), &|without| without.queue = None);
        }
        if let Some(assignee) = &filters.assignee {
            let words = match assignee.as_str() {
                "me" => "Assigned to me".to_owned(),
                "none" => "Assigned to nobody".to_owned(),
                name => format!("Assigned to {}", labelled(&choices.people, name)),
            };
            chip(words, &|without| without.assignee = None);
        }
        if let Some(subject) = &filters.subject {
            chip(format!("About {}", plain::short(subject)), &|without| without.subject = None);
        }
        if let Some(span) = &filters.older_than {
            chip(format!("Open for more than {span}"), &|without| without.older_than = None);
        }
        chips
    }

    fn empty(&self) -> Empty {
        let mut all = QueueFilters::new();
        if self.filters == all {
            return Empty {
                title: "Nothing waits for a decision",
                text: "What fails, bounces or is found infected opens an entry by itself, and shows up here."
                    .to_owned(),
                link: Some(("/status".to_owned(), "Status of the service")),
            };
        }
        if self.filters.assignee.as_deref() == Some("me") {
            all.assignee = Some("none".to_owned());
            return Empty {
                title: "Nothing here is assigned to you",
                text: "Take an entry that nobody has: it is yours until you end it or put it back."
                    .to_owned(),
                link: Some((all.href(), "Entries that nobody has")),
            };
        }
        Empty {
            title: "No entry fits these filters",
            text: format!(
                "Without them, {} open.",
                plain::plural(&self.open_in_all, "entry is", "entries are")
            ),
            link: Some((all.href(), "Clear all filters")),
        }
    }
}

impl EntryLine {
    /// The end, where it is near.
    pub(super) fn expires_soon(&self, now: &Timestamp) -> Option<&Timestamp> {
        self.expires_at.as_ref().filter(|end| end.duration_since(*now) <= NEAR)
    }
}
