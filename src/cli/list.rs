//! `list`: submissions that match, oldest change first, or how many there are of each kind. Reads only; a damaged
//! ledger is a line like any other. Recipients are matched where a filter names them, and never shown.

use std::collections::BTreeMap;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::layout::{Side, Table};
use super::output;
use super::setup::{self, Setup};
use super::{CliError, Context, Exit, Filters, Since};
use crate::ports::RelayStatus;
use crate::queries::list;
use crate::routing::explain::at;
use crate::routing::store::view::{Group, GroupBy, Listed, Selection};
use crate::routing::submission::ledger::{DeliveryState, FailReason};
use crate::routing::submission::text::{bounded, one_line};
use crate::routing::table::Status;

/// Lines shown where there is no `--limit`.
const LIMIT: u32 = 1000;

/// Arguments of `list`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) filters: Filters,
    /// The one changed last comes first
    #[arg(long)]
    pub(super) newest: bool,
    /// Only how many there are: by form, status, reason, or day of submission (UTC)
    #[arg(long, value_name = "WHAT", value_parser = group_by(), conflicts_with_all = ["limit", "newest"])]
    pub(super) group_by: Option<GroupBy>,
    /// A JSON array
    #[arg(long)]
    pub(super) json: bool,
    /// Comma-separated values with a line of names, for a spreadsheet
    #[arg(long, conflicts_with = "json")]
    pub(super) csv: bool,
}

fn group_by() -> impl TypedValueParser<Value = GroupBy> {
    let labels = GroupBy::ALL.iter().map(|by| by.label());
    PossibleValuesParser::new(labels).try_map(|text| GroupBy::parse(&text).ok_or("no such group"))
}

/// Prints the list.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let selection = Selection { newest: args.newest, ..selection(args.filters)? };
    let limit = selection.limit;
    let setup = Setup::open(ctx)?;
    let unknown = setup.unknown_form(selection.form.as_deref()).await;
    let more = match args.group_by {
        Some(by) => {
            let groups = setup.view().grouped(&selection, by).await.map_err(setup::database)?;
            match (args.json, args.csv) {
                (true, _) => {
                    output::json(&groups.iter().map(|group| list::counted(group, by)).collect::<Vec<_>>())?;
                }
                (_, true) => output::text(&csv_of(&[by.label(), "count"], groups.iter().map(cells))?)?,
                _ => output::text(&groups_text(&groups, by, output::columns()))?,
            }
            false
        }
        None => {
            let (listed, more) = list::lines(&setup, selection).await.map_err(setup::database)?;
            match (args.json, args.csv) {
                (true, _) => output::json(&listed)?,
                (_, true) => output::text(&csv_of(&columns(), listed.iter().map(row))?)?,
                _ => output::text(&text(&listed, output::columns()))?,
            }
            more
        }
    };
    if let Some(unknown) = unknown {
        output::note(&format!("warning: {unknown}"))?;
    }
    if more {
        output::note(&format!("only the first {limit} are shown: narrow it down, or raise --limit"))?;
    }
    Ok(Exit::Done)
}

/// The filters as the store asks them; a reason that cannot occur is a slip of the fingers.
pub(super) fn selection(filters: Filters) -> Result<Selection, CliError> {
    if let Some(reason) = &filters.reason_code
        && FailReason::parse(reason).is_none()
    {
        let known: Vec<&str> = FailReason::ALL.iter().map(|reason| reason.label()).collect();
        return Err(CliError::new(
            Exit::Usage,
            anyhow::anyhow!(
                "no submission fails with --reason-code {reason:?}; known are {}",
                known.join(", ")
            ),
        ));
    }
    let (since, within) = match filters.since {
        Some(Since::At(at)) => (Some(at), None),
        Some(Since::Ago(ago)) => (None, Some(ago)),
        None => (None, None),
    };
    Ok(Selection {
        status: filters.status.iter().filter_map(|status| Status::parse(status.label())).collect(),
        form: filters.form,
        reason: filters.reason_code,
        lost: filters.bounced,
        infected_late: filters.infected_after_routing,
        recipient: filters.recipient,
        id: filters.message_id,
        newest: false,
        older_than: filters.older_than,
        since,
        within,
        limit: filters.limit.unwrap_or(LIMIT),
    })
}

fn text(listed: &[Listed], width: Option<usize>) -> String {
    if listed.is_empty() {
        return "no submission matches".to_owned();
    }
    let mut table = Table::new(&[
        ("id", Side::Left),
        ("changed", Side::Left),
        ("status", Side::Left),
        ("tries", Side::Right),
        ("reason", Side::Left),
        ("form", Side::Left),
        ("deliveries", Side::Left),
    ]);
    for line in listed {
        let deliveries: Vec<String> = line
            .deliveries
            .iter()
            .map(|(state, count)| format!("{count} {}", state.replace('_', " ")))
            .collect();
        let lost: Vec<String> = [RelayStatus::Bounced, RelayStatus::Expired, RelayStatus::Deferred]
            .iter()
            .filter_map(|status| Some(format!("{} {}", line.relay.get(status.label())?, status.label())))
            .collect();
        let lost = if lost.is_empty() { String::new() } else { format!(" ({})", lost.join(", ")) };
        table.row(vec![
            line.id.to_string(),
            at(line.updated_at),
            bounded(one_line(&line.status), 10),
            line.attempts.map_or("?".to_owned(), |attempts| attempts.to_string()),
            bounded(one_line(line.reason.as_deref().unwrap_or("-")), 17),
            bounded(one_line(&line.form_id), 20),
            format!("{}{lost}", deliveries.join(", ")),
        ]);
    }
    table.text(width)
}

fn groups_text(groups: &[Group], by: GroupBy, width: Option<usize>) -> String {
    if groups.is_empty() {
        return "no submission matches".to_owned();
    }
    let mut table = Table::new(&[(by.label(), Side::Left), ("count", Side::Right)]);
    for group in groups {
        table.row(vec![bounded(one_line(group.key.as_deref().unwrap_or("-")), 60), group.count.to_string()]);
    }
    table.text(width)
}

fn cells(group: &Group) -> Vec<String> {
    vec![group.key.clone().unwrap_or_default(), group.count.to_string()]
}

/// Every state of a delivery.
const STATES: [DeliveryState; 4] =
    [DeliveryState::Accepted, DeliveryState::Open, DeliveryState::Failed, DeliveryState::NotImplemented];
/// Every state of a mail after the relay's acceptance.
const BEYOND: [RelayStatus; 4] =
    [RelayStatus::Delivered, RelayStatus::Deferred, RelayStatus::Bounced, RelayStatus::Expired];

fn columns() -> Vec<&'static str> {
    let mut names = vec!["id", "form_id", "status", "attempts", "reason", "updated_at"];
    names.extend(STATES.map(DeliveryState::label));
    names.extend(BEYOND.map(RelayStatus::label));
    names
}

fn row(line: &Listed) -> Vec<String> {
    let mut cells = vec![
        line.id.to_string(),
        line.form_id.clone(),
        line.status.clone(),
        line.attempts.map(|attempts| attempts.to_string()).unwrap_or_default(),
        line.reason.clone().unwrap_or_default(),
        line.updated_at.to_string(),
    ];
    let count =
        |counts: &BTreeMap<&'static str, u64>, label| counts.get(label).copied().unwrap_or(0).to_string();
    cells.extend(STATES.iter().map(|state| count(&line.deliveries, state.label())));
    cells.extend(BEYOND.iter().map(|status| count(&line.relay, status.label())));
    cells
}

/// Fields quoted where RFC 4180 requires it; text of others is on one line.
fn csv_of(names: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Result<String, CliError> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(names)?;
    for cells in rows {
        writer.write_record(cells.iter().map(|cell| one_line(cell)))?;
    }
    let bytes = writer.into_inner().map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(String::from_utf8(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_cannot_occur_is_told() {
        let asked = |reason: &str| {
            selection(Filters { reason_code: Some(reason.to_owned()), ..Filters::default() })
                .map_err(|error| (error.exit(), error.to_string()))
        };
        assert_eq!(asked("refused").expect("known").reason.as_deref(), Some("refused"));
        let (exit, text) = asked("refussed").expect_err("unknown");
        assert_eq!(exit, Exit::Usage);
        assert!(text.contains("ledger_damaged"), "{text}");
    }

    #[test]
    fn values_are_quoted_where_they_have_to_be() {
        let rows =
            [vec!["a, \"b\"".to_owned(), "1".to_owned()], vec!["\u{1b}[2Jc\nd".to_owned(), String::new()]];
        let csv = csv_of(&["form", "count"], rows.into_iter()).expect("written");
        assert_eq!(csv, "form,count\n\"a, \"\"b\"\"\",1\n[2Jc d,\n");
    }
}
