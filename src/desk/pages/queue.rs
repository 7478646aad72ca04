//! The queue: what waits for a decision. Its filters are the URL, so that a list can be sent to somebody. Pure.

use askama::Template;
use jiff::{SignedDuration, Timestamp};
use url::form_urlencoded::Serializer;
use uuid::Uuid;

use super::decision::Command;
use super::frame::{self, Frame};
use super::{assets, plain, queue, when};

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

impl BulkTyped {
    fn is(&self, command: &Command) -> bool {
        self.command == Some(*command)
    }
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

    /// The path with this state alone; `None`: the open ones.
    fn only_state(&self, state: Option<&str>) -> String {
        let states = state.into_iter().map(str::to_owned).collect();
        Self { states, ..self.clone() }.href()
    }

    fn is_state(&self, state: &str) -> bool {
        self.states.len() == 1 && self.states[0] == state
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
        let mut all = QueueFilters::default();
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

/// An option of a select.
pub(super) struct Offered {
    pub(super) value: String,
    pub(super) label: String,
    pub(super) selected: bool,
}

/// The choices, the chosen one among them even where it is none of ours.
pub(super) fn options(choices: &[Choice], chosen: Option<&str>) -> Vec<Offered> {
    let mut offered: Vec<Offered> = choices
        .iter()
        .map(|Choice { value, label }| Offered {
            value: value.clone(),
            label: label.clone(),
            selected: chosen == Some(value),
        })
        .collect();
    if let Some(strange) = chosen.filter(|value| offered.iter().all(|one| one.value != *value)) {
        offered.push(Offered { value: strange.to_owned(), label: strange.to_owned(), selected: true });
    }
    offered
}

/// People, and the two words that stand for the reader and for nobody.
pub(super) fn people(people: &[Choice], chosen: Option<&str>) -> Vec<Offered> {
    let mut choices = vec![choice("me", "me"), choice("none", "nobody")];
    choices.extend_from_slice(people);
    options(&choices, chosen)
}

/// Durations that are asked for often.
pub(super) fn spans(chosen: Option<&str>) -> Vec<Offered> {
    const SPANS: [(&str, &str); 6] = [
        ("1h", "1 hour"),
        ("4h", "4 hours"),
        ("1d", "1 day"),
        ("3d", "3 days"),
        ("7d", "7 days"),
        ("30d", "30 days"),
    ];
    options(&SPANS.map(|(value, label)| choice(value, label)), chosen)
}

fn choice(value: &str, label: &str) -> Choice {
    Choice { value: value.to_owned(), label: label.to_owned() }
}

/// A path with a query, where there is one.
pub(super) fn href(path: &str, query: &str) -> String {
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}
