//! Which entries a list shows, and where its next page begins. Each filter that is given is part of the statement's text,
//! so that the planner sees what it may use; values are parameters.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use uuid::Uuid;

use super::sql::SELECTED;
use crate::db::statement::Parameter;
use crate::grey_queue::entry::Entry;
use crate::grey_queue::table::{OPEN, State};
use crate::words;

words! {
    /// The order of a list.
    Order {
        /// The entry that waits longest first.
        Oldest = "oldest",
        /// The entry that came last first.
        Newest = "newest",
        /// The most urgent entry first, by the [`Priority`] that whoever opened it gave it; of one priority the entry that waits longest.
        Priority = "priority",
    }
}

words! {
    /// The priority of an entry: `priority` of its detail, where whoever opens it gives it one. An entry never changes it.
    Priority {
        /// Before all others.
        Critical = "Critical",
        /// Before Medium.
        High = "High",
        /// Before entries without a priority.
        Medium = "Medium",
    }
}

/// Queue and cause whose entries have priorities, and whose lists go by them unless another order is asked for. In lists of all queues an entry
/// without a priority would wait behind whatever has one.
const PRIORITIZED: &str = "grading";

/// The position of an entry's priority among all: none is the last.
fn rank(entry: &Entry) -> i32 {
    let given = entry.detail.get("priority").and_then(serde_json::Value::as_str);
    let place = Priority::ALL.iter().position(|priority| Some(priority.label()) == given);
    i32::try_from(place.unwrap_or(Priority::ALL.len())).unwrap_or(i32::MAX)
}

/// The same by the database.
fn rank_in_sql() -> String {
    let places =
        Priority::ALL.iter().enumerate().map(|(place, priority)| format!(" WHEN '{priority}' THEN {place}"));
    format!("CASE o.detail->>'priority'{} ELSE {} END", places.collect::<String>(), Priority::ALL.len())
}

/// The assignee of the entries wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    /// Nobody's.
    Nobodys,
    /// This person's.
    Of(String),
}

/// Which entries are wanted; each part that is absent chooses all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// States; none: the open ones.
    pub states: Vec<State>,
    /// Every state, open or closed.
    pub all_states: bool,
    /// Cause.
    pub cause: Option<String>,
    /// The cause's own word.
    pub reason: Option<String>,
    /// Form.
    pub form: Option<String>,
    /// Queue.
    pub queue: Option<String>,
    /// Assignee.
    pub whose: Option<Whose>,
    /// The subject's id.
    pub subject: Option<Uuid>,
    /// Opened longer ago than this.
    pub older_than: Option<Duration>,
    /// Opened before this moment: what was there when somebody looked.
    pub as_of: Option<Timestamp>,
    /// The order; absent: closed ones by the newest, a queue whose entries have priorities by those, all else by the oldest.
    pub order: Option<Order>,
}

/// The end of a page, and so the beginning of the next. It has the place of its entry in each order, so that it begins no other list in its middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    rank: i32,
    at: Timestamp,
    id: Uuid,
}

impl Cursor {
    /// Behind this entry of a list.
    #[must_use]
    pub fn behind(last: &Entry, filter: &Filter) -> Self {
        let at = if filter.is_closed() { last.closed_at.unwrap_or(last.opened_at) } else { last.opened_at };
        Self { rank: rank(last), at, id: last.id }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{}.{}", self.at.as_microsecond(), self.id.simple(), self.rank);
        f.write_str(&URL_SAFE_NO_PAD.encode(text))
    }
}

/// Not a cursor that a page gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not a cursor that a page of this list gave; leave it out to begin at the first page")]
pub struct NoCursor;

impl FromStr for Cursor {
    type Err = NoCursor;

    fn from_str(text: &str) -> Result<Self, NoCursor> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| NoCursor)?;
        let text = String::from_utf8(bytes).map_err(|_| NoCursor)?;
        let mut parts = text.split('.');
        let (Some(at), Some(id), Some(rank), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(NoCursor);
        };
        // Nothing was opened before 1970, and the database's time does not reach back as far as ours.
        let at = at.parse().ok().filter(|at| *at >= 0);
        let at = at.and_then(|at| Timestamp::from_microsecond(at).ok()).ok_or(NoCursor)?;
        let rank = rank
            .parse()
            .ok()
            .filter(|rank| usize::try_from(*rank).is_ok_and(|rank| rank <= Priority::ALL.len()));
        Ok(Self { rank: rank.ok_or(NoCursor)?, at, id: Uuid::try_parse(id).map_err(|_| NoCursor)? })
    }
}

/// The parameters of a statement.
pub(super) struct Parameters(Vec<Box<dyn Parameter + Send>>);

impl Parameters {
    pub(super) fn as_parameters(&self) -> Vec<&dyn Parameter> {
        self.0.iter().map(|value| -> &dyn Parameter { &**value }).collect()
    }

    fn add(&mut self, value: impl Parameter + Send + 'static) -> usize {
        self.0.push(Box::new(value));
        self.0.len()
    }
}

impl Filter {
    /// Entries about a subject.
    #[must_use]
    pub fn of_subject(subject: Uuid) -> Self {
        Self { subject: Some(subject), all_states: true, ..Self::default() }
    }

    /// Whether only closed states are wanted: those are listed by when they were closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        !self.all_states && !self.states.is_empty() && self.states.iter().all(|state| !state.is_open())
    }

    fn is_open(&self) -> bool {
        !self.all_states && self.states.iter().all(|state| state.is_open())
    }

    /// The order of the list.
    #[must_use]
    pub fn ordered(&self) -> Order {
        let has_priorities =
            [&self.queue, &self.cause].iter().any(|word| word.as_deref() == Some(PRIORITIZED));
        self.order.unwrap_or(match (self.is_closed(), has_priorities) {
            (true, _) => Order::Newest,
            (false, true) => Order::Priority,
            (false, false) => Order::Oldest,
        })
    }

    /// The list's statement, `limit` entries behind `after`.
    pub(super) fn statement(&self, limit: usize, after: Option<&Cursor>) -> (String, Parameters) {
        let mut parameters = Parameters(Vec::new());
        let mut wanted = self.conditions(&mut parameters);
        let by = if self.is_closed() { "closed_at" } else { "opened_at" };
        let (direction, beyond) = match self.ordered() {
            Order::Newest => (" DESC", "<"),
            Order::Oldest | Order::Priority => ("", ">"),
        };
        // Indexes go by time alone, so that a rank is no part of the other orders.
        let ranked = (self.ordered() == Order::Priority).then(rank_in_sql);
        if let Some(Cursor { rank, at, id }) = after.copied() {
            let (at, id) = (parameters.add(at), parameters.add(id));
            wanted.push(match &ranked {
                Some(by_rank) => {
                    let rank = parameters.add(rank);
                    format!("({by_rank}, o.{by}, o.id) {beyond} (${rank}, ${at}, ${id})")
                }
                None => format!("(o.{by}, o.id) {beyond} (${at}, ${id})"),
            });
        }
        let limit = parameters.add(i64::try_from(limit).unwrap_or(i64::MAX));
        let text = format!(
            "-- grey_queue_list\nSELECT {} FROM router.grey_queue o WHERE {} ORDER BY {}o.{by}{direction}, o.id{direction} LIMIT ${limit}",
            SELECTED,
            if wanted.is_empty() { "true".to_owned() } else { wanted.join(" AND ") },
            ranked.map(|by_rank| format!("{by_rank}, ")).unwrap_or_default(),
        );
        (text, parameters)
    }

    /// The statement that counts the open entries by state, whatever states the filter names.
    pub(super) fn counting(&self) -> (String, Parameters) {
        let mut parameters = Parameters(Vec::new());
        let open = Self { states: Vec::new(), all_states: false, ..self.clone() };
        let wanted = open.conditions(&mut parameters).join(" AND ");
        let text = format!(
            "-- grey_queue_counts\nSELECT o.state, count(*) AS count FROM router.grey_queue o WHERE {wanted} GROUP BY 1"
        );
        (text, parameters)
    }

    fn conditions(&self, parameters: &mut Parameters) -> Vec<String> {
        let mut wanted = Vec::new();
        if self.is_open() {
            wanted.push("o.closed_at IS NULL".to_owned());
        } else if self.is_closed() {
            wanted.push("o.closed_at IS NOT NULL".to_owned());
        }
        let every_open =
            OPEN.iter().all(|state| self.states.contains(state)) && self.states.len() == OPEN.len();
        match self.states.as_slice() {
            [] => {}
            // A word of a closed set: as text, so that the planner knows how rare it is.
            [one] => wanted.push(format!("o.state = '{one}'")),
            _ if every_open || self.all_states => {}
            several => {
                let labels: Vec<String> = several.iter().map(|state| format!("'{state}'")).collect();
                wanted.push(format!("o.state IN ({})", labels.join(", ")));
            }
        }
        let texts = [
            ("cause", &self.cause),
            ("reason", &self.reason),
            ("form_id", &self.form),
            ("queue", &self.queue),
        ];
        for (column, value) in texts {
            if let Some(value) = value.clone() {
                wanted.push(format!("o.{column} = ${}", parameters.add(value)));
            }
        }
        match self.whose.clone() {
            Some(Whose::Nobodys) => wanted.push("o.assignee IS NULL".to_owned()),
            Some(Whose::Of(name)) => wanted.push(format!("o.assignee = ${}", parameters.add(name))),
            None => {}
        }
        if let Some(subject) = self.subject {
            wanted.push(format!("o.subject_id = ${}", parameters.add(subject)));
        }
        if let Some(age) = self.older_than {
            let seconds = parameters.add(age.as_secs_f64());
            wanted.push(format!("o.opened_at < now() - make_interval(secs => ${seconds})"));
        }
        if let Some(moment) = self.as_of {
            wanted.push(format!("o.opened_at <= ${}", parameters.add(moment)));
        }
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_nothing_else_is() {
        let cursor = Cursor {
            rank: 2,
            at: Timestamp::from_microsecond(1_700_000_000_123_456).expect("a time"),
            id: Uuid::max(),
        };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        let before_our_time = URL_SAFE_NO_PAD.encode(format!("-300000000000000000.{}", Uuid::max().simple()));
        let of = |rank: &str| URL_SAFE_NO_PAD.encode(format!("3.{}{rank}", Uuid::max().simple()));
        assert!(of(".3").parse::<Cursor>().is_ok(), "none is behind the last priority");
        for strange in [
            "",
            "x",
            "MTIz",
            "%%%",
            "LTEuMQ",
            &before_our_time,
            &"A".repeat(500),
            &of(""),
            &of(".4"),
            &of(".-1"),
            &of(".x"),
            &of(".1.1"),
        ] {
            assert_eq!(strange.parse::<Cursor>(), Err(NoCursor), "{strange}");
        }
    }

    #[test]
    fn a_queue_of_priorities_goes_by_them_unless_told_otherwise() {
        let grading = || Some("grading".to_owned());
        let none = Filter::default;
        for (filter, order) in [
            (none(), Order::Oldest),
            (Filter { queue: Some("operations".to_owned()), ..none() }, Order::Oldest),
            (Filter { queue: grading(), ..none() }, Order::Priority),
            (Filter { cause: grading(), ..none() }, Order::Priority),
            (Filter { queue: grading(), order: Some(Order::Oldest), ..none() }, Order::Oldest),
            (Filter { queue: grading(), states: vec![State::Resolved], ..none() }, Order::Newest),
        ] {
            assert_eq!(filter.ordered(), order, "{filter:?}");
            let by_rank = filter
                .statement(10, None)
                .0
                .contains("ORDER BY CASE o.detail->>'priority' WHEN 'Critical' THEN 0");
            assert_eq!(by_rank, order == Order::Priority, "{filter:?}");
        }
    }

    #[test]
    fn open_closed_and_all_are_told_apart() {
        let of = |states: &[State]| Filter { states: states.to_vec(), ..Filter::default() };
        assert!(of(&[]).is_open() && !of(&[]).is_closed(), "without a state the open ones are meant");
        assert!(of(&[State::Rejected, State::Expired]).is_closed());
        let mixed = of(&[State::Rejected, State::Pending]);
        assert!(!mixed.is_open() && !mixed.is_closed());
        let text = |filter: &Filter| filter.statement(10, None).0;
        assert!(text(&of(&[])).contains("WHERE o.closed_at IS NULL ORDER BY o.opened_at, o.id"));
        assert!(text(&of(&[State::Failed])).contains("ORDER BY o.closed_at DESC, o.id DESC"));
        assert!(
            text(&Filter { all_states: true, ..Filter::default() })
                .contains("WHERE true ORDER BY o.opened_at")
        );
    }
}
