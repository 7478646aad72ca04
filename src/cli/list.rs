//! `list`: submissions that match, oldest change first. Reads only; a damaged ledger is a line like any other.

use super::desk::{self, Desk};
use super::output;
use super::{CliError, Context, Exit, Filters, Since};
use crate::lifecycle::submission::Status;
use crate::ports::RelayStatus;
use crate::routing::explain::at;
use crate::routing::ledger::FailReason;
use crate::routing::store::view::{Listed, Selection};
use crate::routing::text::{bounded, one_line};

/// Shown where `--limit` says nothing.
const LIMIT: u32 = 1000;

/// Arguments of `list`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) filters: Filters,
    /// A JSON array
    #[arg(long)]
    pub(super) json: bool,
}

/// Prints the list.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let limit = args.filters.limit.unwrap_or(LIMIT);
    let mut selection = selection(args.filters)?;
    // One more, to know whether there are more.
    selection.limit = limit.saturating_add(1);
    let desk = Desk::open(ctx)?;
    let unknown = desk.unknown_form(selection.form.as_deref()).await;
    let mut listed = desk.view().list(&selection).await.map_err(desk::database)?;
    let shown = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = listed.len() > shown;
    listed.truncate(shown);
    if args.json {
        output::json(&listed)?;
    } else {
        output::text(&text(&listed))?;
    }
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
        && !FailReason::ALL.iter().any(|known| known.label() == reason)
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
        status: filters.status.iter().filter_map(|status| Status::from_label(status.as_str())).collect(),
        form: filters.form,
        reason: filters.reason_code,
        lost: filters.bounced,
        older_than: filters.older_than,
        since,
        within,
        limit: filters.limit.unwrap_or(LIMIT),
    })
}

fn text(listed: &[Listed]) -> String {
    if listed.is_empty() {
        return "no submission matches".to_owned();
    }
    let mut text = String::new();
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
        let attempts = line.attempts.map_or("?".to_owned(), |attempts| attempts.to_string());
        let row = format!(
            "{}  {}  {:<10}  {:>2}  {:<17}  {:<20}  {}{lost}",
            line.id,
            at(line.updated_at),
            bounded(one_line(&line.status), 10),
            attempts,
            bounded(one_line(line.reason.as_deref().unwrap_or("-")), 17),
            bounded(one_line(&line.form_id), 20),
            deliveries.join(", "),
        );
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
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
        let (exit, told) = asked("refussed").expect_err("unknown");
        assert_eq!(exit, Exit::Usage);
        assert!(told.contains("ledger_damaged"), "{told}");
    }
}
