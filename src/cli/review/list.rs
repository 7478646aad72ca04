//! `review list`: the entries that wait, or those that are closed.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::Review;
use crate::cli::layout::{Side, Table, span};
use crate::cli::{CliError, Exit, output, setup};
use crate::grey_queue::entry::Entry;
use crate::grey_queue::store::{Cursor, Filter, Order, Whose};
use crate::grey_queue::table::State;
use crate::queries::review::headline;

/// Entries shown where there is no `--limit`.
const LIMIT: u32 = 100;

/// Arguments of `review list`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only in this state, e.g. Pending; may be given several times
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Vec<State>,
    /// Open and closed ones
    #[arg(long, conflicts_with = "state")]
    all: bool,
    /// Only of this cause: failed, infected, late_infection, bounced, dead_letter, screening, screening_job, grading, grading_failed, grading_message
    #[arg(long, value_name = "CAUSE")]
    cause: Option<String>,
    /// Only with this reason, e.g. refused
    #[arg(long, value_name = "CODE")]
    reason_code: Option<String>,
    /// Only of this form
    #[arg(long, value_name = "FORM")]
    form: Option<String>,
    /// Only of this queue: operations, security, screening, grading
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Only those of this user; `none`: those that nobody has
    #[arg(long, value_name = "NAME")]
    assignee: Option<String>,
    /// Only about this submission or dead letter
    #[arg(long, value_name = "ID")]
    subject: Option<Uuid>,
    /// Only opened longer ago than this, e.g. 2h
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    older_than: Option<Duration>,
    /// oldest or newest first, or by priority and then age; those of grading go by priority unless told otherwise
    #[arg(long, value_name = "ORDER", value_parser = order)]
    order: Option<Order>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = LIMIT, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Behind the page that gave this cursor
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<Cursor>,
    /// One JSON object: items, next_cursor, as_of
    #[arg(long)]
    json: bool,
}

fn state(text: &str) -> Result<State, String> {
    let same = |state: &&State| state.label().eq_ignore_ascii_case(text);
    State::ALL.iter().find(same).copied().ok_or_else(|| one_of(State::ALL.iter().map(|state| state.label())))
}

fn order(text: &str) -> Result<Order, String> {
    Order::parse(text).ok_or_else(|| one_of(Order::ALL.iter().map(|order| order.label())))
}

fn one_of<'a>(words: impl Iterator<Item = &'a str>) -> String {
    format!("one of: {}", words.collect::<Vec<_>>().join(", "))
}

/// Prints the list.
pub(super) async fn run(desk: &Review, args: Args) -> Result<Exit, CliError> {
    let filter = Filter {
        states: args.state,
        all_states: args.all,
        cause: args.cause,
        reason: args.reason_code,
        form: args.form,
        queue: args.queue,
        whose: args.assignee.map(|name| if name == "none" { Whose::Nobodys } else { Whose::Of(name) }),
        subject: args.subject,
        older_than: args.older_than,
        as_of: None,
        order: args.order,
    };
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let page =
        desk.commands.store.list(&filter, limit, args.cursor.as_ref()).await.map_err(setup::database)?;
    output::either(args.json, &page, || table(&page.items, page.as_of))?;
    if let Some(cursor) = page.next_cursor.filter(|_| !args.json) {
        output::note(&format!("more: --cursor {cursor}"))?;
    }
    Ok(Exit::Done)
}

fn table(entries: &[Entry], now: Timestamp) -> String {
    if entries.is_empty() {
        return "nothing waits for a person".to_owned();
    }
    let mut table = Table::new(&[
        ("ENTRY", Side::Left),
        ("STATE", Side::Left),
        ("AGE", Side::Right),
        ("QUEUE", Side::Left),
        ("WHO", Side::Left),
        ("FORM", Side::Left),
        ("WHAT", Side::Left),
    ]);
    for entry in entries {
        let age = Duration::try_from(now.duration_since(entry.opened_at)).unwrap_or_default();
        table.row(vec![
            entry.id.to_string(),
            entry.state.to_string(),
            span(age.as_secs()),
            entry.queue.clone(),
            entry.assignee.clone().unwrap_or_else(|| "-".to_owned()),
            entry.form_id.clone().unwrap_or_else(|| "-".to_owned()),
            headline(entry),
        ]);
    }
    table.text(output::columns())
}
