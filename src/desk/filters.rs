//! The filters of lists, as URLs have them: `state`, `cause`, `reason`, `form`, `queue`, `assignee`, `subject`, `older_than`,
//! `order`; a page of the API adds `limit` and `cursor`. Pure.
//!
//! Whatever is not known is refused by name: a filter that is misspelt would otherwise choose everything.

use std::collections::BTreeSet;

use url::form_urlencoded;
use uuid::Uuid;

use super::problem::Problem;
use crate::grey_queue::store::{Cursor, Filter, Order, Whose};
use crate::grey_queue::table::State;

/// Entries of a page where there is no `limit`.
pub(crate) const LIMIT: usize = 100;
/// Most entries of a page.
pub(crate) const MOST: usize = 200;
/// Longest text of a filter, in characters.
const LONGEST: usize = 255;

/// What a list shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Which entries.
    pub(crate) filter: Filter,
    /// How many.
    pub(crate) limit: usize,
    /// From where on.
    pub(crate) after: Option<Cursor>,
}

impl Listed {
    /// Reads a query; `me` is whoever asks.
    ///
    /// # Errors
    /// [`Problem`] 400: a parameter is unknown, comes twice, or is not as it must be.
    pub(crate) fn of_query(query: &str, me: &str) -> Result<Self, Problem> {
        let (mut filter, mut limit, mut after) = (Filter::default(), LIMIT, None);
        let mut given = BTreeSet::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if name != "state" && !given.insert(name.clone()) {
                return Err(Problem::bad_request(format!("The parameter {name} is there twice.")));
            }
            match &*name {
                "limit" => {
                    let number = value.parse().ok().filter(|limit| (1..=MOST).contains(limit));
                    limit = number.ok_or_else(|| bad("limit", &format!("a number from 1 to {MOST}")))?;
                }
                "cursor" => {
                    let cursor = value.parse();
                    after = Some(cursor.map_err(|_| bad("cursor", "one that a page of this list gave"))?);
                }
                name if !set(&mut filter, name, &value, me)? => {
                    return Err(Problem::bad_request(format!(
                        "There is no parameter {name}. Known are: {}, limit, cursor.",
                        NAMES.join(", ")
                    )));
                }
                _ => {}
            }
        }
        Ok(Self { filter, limit, after })
    }
}

/// The filters.
const NAMES: [&str; 9] =
    ["state", "cause", "reason", "form", "queue", "assignee", "subject", "older_than", "order"];

/// Sets one filter; `false` where there is none of this name.
///
/// # Errors
/// [`Problem`] 400: the value is not as it must be.
pub(crate) fn set(filter: &mut Filter, name: &str, value: &str, me: &str) -> Result<bool, Problem> {
    match name {
        "state" => states(filter, value)?,
        "cause" => filter.cause = Some(text("cause", value)?),
        "reason" => filter.reason = Some(text("reason", value)?),
        "form" => filter.form = Some(text("form", value)?),
        "queue" => filter.queue = Some(text("queue", value)?),
        "assignee" => {
            filter.whose = Some(match text("assignee", value)?.as_str() {
                "me" => Whose::Of(me.to_owned()),
                "none" => Whose::Nobodys,
                name => Whose::Of(name.to_owned()),
            });
        }
        "subject" => {
            let id = Uuid::try_parse(value);
            filter.subject = Some(id.map_err(|_| bad("subject", "the id of a submission or a dead letter"))?);
        }
        "older_than" => filter.older_than = Some(age(value)?),
        "order" => {
            let order = Order::parse(value);
            filter.order =
                Some(order.ok_or_else(|| bad("order", &one_of(Order::ALL.iter().map(|o| o.label()))))?);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn states(filter: &mut Filter, value: &str) -> Result<(), Problem> {
    for label in value.split(',') {
        if label == "all" {
            filter.all_states = true;
            continue;
        }
        let state = State::parse(label).ok_or_else(|| {
            bad("state", &one_of(State::ALL.iter().map(|state| state.label()).chain(["all"])))
        })?;
        if !filter.states.contains(&state) {
            filter.states.push(state);
        }
    }
    Ok(())
}

/// PostgreSQL's texts have no NUL.
fn text(name: &str, value: &str) -> Result<String, Problem> {
    if value.is_empty() || value.contains('\0') || value.chars().count() > LONGEST {
        return Err(bad(name, &format!("1 to {LONGEST} characters, and no NUL")));
    }
    Ok(value.to_owned())
}

/// A number and its unit: as long as that a person may wait, and not as long as the database's time.
fn age(value: &str) -> Result<std::time::Duration, Problem> {
    let refused = || bad("older_than", "a number and a unit, such as 30m, 2h or 7d");
    let number = value.strip_suffix(['s', 'm', 'h', 'd', 'w']).ok_or_else(refused)?;
    if !(1..=5).contains(&number.len()) || !number.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(refused());
    }
    humantime::parse_duration(value).map_err(|_| refused())
}

fn one_of<'a>(words: impl Iterator<Item = &'a str>) -> String {
    format!("one of {}", words.collect::<Vec<_>>().join(", "))
}

fn bad(name: &str, what: &str) -> Problem {
    Problem::bad_request(format!("{name} is not as it must be: {what}.")).with("parameter", name)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn listed(query: &str) -> Listed {
        Listed::of_query(query, "rita").unwrap_or_else(|problem| panic!("{query}: {problem:?}"))
    }

    #[test]
    fn a_query_is_read_and_repeated_states_add_up() {
        let both = listed("state=Pending,UnderReview&assignee=me&older_than=2h&limit=7&order=newest");
        assert_eq!(both.filter.states, [State::Pending, State::UnderReview]);
        assert_eq!(both.filter.whose, Some(Whose::Of("rita".to_owned())));
        assert_eq!((both.filter.older_than, both.limit), (Some(Duration::from_secs(7200)), 7));
        assert_eq!(listed("state=Pending&state=UnderReview").filter.states, both.filter.states);
        assert!(listed("state=all").filter.all_states);
        assert_eq!(listed("assignee=none").filter.whose, Some(Whose::Nobodys));
        assert_eq!(listed("").filter, Filter::default());
        assert_eq!(listed("form=%C3%A4%26b").filter.form.as_deref(), Some("\u{e4}&b"));
    }

    #[test]
    fn what_is_unknown_is_refused_by_name() {
        for (query, named) in [
            ("stat=Pending", "stat"),
            ("state=Pending&colour=red", "colour"),
            ("state=pending", "state"),
            ("state=", "state"),
            ("cause=", "cause"),
            ("cause=%00", "cause"),
            ("form=a&form=b", "form"),
            ("limit=0", "limit"),
            ("limit=201", "limit"),
            ("limit=x", "limit"),
            ("cursor=x", "cursor"),
            ("subject=x", "subject"),
            ("older_than=2", "older_than"),
            ("older_than=1h30m", "older_than"),
            ("older_than=999999d", "older_than"),
            ("order=best", "order"),
        ] {
            let problem = Listed::of_query(query, "rita").expect_err(query);
            assert!(problem.detail().contains(named), "{query}: {problem:?}");
        }
    }
}
