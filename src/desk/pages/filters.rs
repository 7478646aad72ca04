//! The filters of a list: what is in force stands in the URL, and what can be chosen in the selects. Pure.

use url::form_urlencoded::Serializer;
use uuid::Uuid;

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

impl QueueFilters {
    /// No filter.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            states: Vec::new(),
            cause: None,
            reason: None,
            form: None,
            queue: None,
            assignee: None,
            subject: None,
            older_than: None,
            order: None,
        }
    }

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

    /// The path of an entry of this list, from where the next one of the same list is found.
    #[must_use]
    pub fn entry_href(&self, id: &Uuid) -> String {
        let mut list = Serializer::new(String::new());
        let query = self.query();
        if !query.is_empty() {
            list.append_pair("list", &query);
        }
        href(&format!("/entries/{id}"), &list.finish())
    }

    /// The path with this assignee.
    pub(super) fn assigned(&self, assignee: &str) -> String {
        Self { assignee: Some(assignee.to_owned()), ..self.clone() }.href()
    }

    /// The path with this state alone; `None`: the open ones.
    pub(super) fn only_state(&self, state: Option<&str>) -> String {
        let states = state.into_iter().map(str::to_owned).collect();
        Self { states, ..self.clone() }.href()
    }

    pub(super) fn is_state(&self, state: &str) -> bool {
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
