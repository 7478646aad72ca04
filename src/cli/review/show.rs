//! `review show`, `history` and `next`: one entry.

use jiff::Timestamp;

use super::Review;
use crate::cli::id::{self, IdArg};
use crate::cli::layout::folded;
use crate::cli::{CliError, Exit, output, setup};
use crate::grey_queue::entry::{Entry, Moved};
use crate::grey_queue::store::{Filter, Whose};
use crate::grey_queue::table::State;
use crate::queries::review::{self, EntryPage};

/// One entry.
#[derive(Debug, clap::Args)]
pub(super) struct One {
    /// Entry id, or its beginning
    #[arg(value_name = "ENTRY", value_parser = id::parse)]
    id: IdArg,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// The next entry.
#[derive(Debug, clap::Args)]
pub(super) struct Next {
    /// Only of this queue: operations, security
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Shows an entry.
pub(super) async fn show(desk: &Review, args: &One) -> Result<Exit, CliError> {
    let id = desk.entry(&args.id).await?;
    print(desk, id, args.json).await
}

/// Shows the oldest entry that nobody has.
pub(super) async fn next(desk: &Review, args: Next) -> Result<Exit, CliError> {
    let filter = Filter {
        states: vec![State::Pending],
        queue: args.queue,
        whose: Some(Whose::Nobodys),
        ..Filter::default()
    };
    let page = desk.commands.store.list(&filter, 1, None).await.map_err(setup::database)?;
    match page.items.first() {
        Some(entry) => print(desk, entry.id, args.json).await,
        None => {
            output::either(args.json, &serde_json::Value::Null, || "nothing waits for a person".to_owned())?;
            Ok(Exit::Done)
        }
    }
}

/// Shows what happened to an entry.
pub(super) async fn history(desk: &Review, args: &One) -> Result<Exit, CliError> {
    let id = desk.entry(&args.id).await?;
    let history = desk.commands.store.history(id).await.map_err(setup::database)?;
    if history.is_empty() {
        return Err(setup::unknown("entry", id));
    }
    output::either(args.json, &history, || history.iter().map(moved).collect::<Vec<_>>().join("\n"))?;
    Ok(Exit::Done)
}

async fn print(desk: &Review, id: uuid::Uuid, json: bool) -> Result<Exit, CliError> {
    let page = review::page(&desk.commands, id, &desk.person).await.map_err(setup::database)?;
    let page = page.ok_or_else(|| setup::unknown("entry", id))?;
    output::either(json, &page, || folded(&text(&page), output::columns()))?;
    Ok(Exit::Done)
}

fn text(page: &EntryPage) -> String {
    let entry = &page.view.entry;
    let mut lines = vec![
        format!("{}: {}", entry.state, page.view.headline),
        format!("  entry     {}  version {}", entry.id, entry.version),
        format!("  about     {} {}{}", entry.subject.kind, entry.subject.id, of_form(entry)),
        format!("  queue     {}", entry.queue),
        format!("  opened    {}, last seen {}", at(entry.opened_at), at(entry.seen_at)),
    ];
    if let Some(name) = &entry.assignee {
        lines.push(format!("  reviewer  {name}{}", since(entry.assigned_at)));
    }
    if let Some(escalation) = &entry.escalation {
        lines.push(format!("  escalated {}: {}", at(escalation.at), escalation.reason));
    }
    if let Some(job) = &entry.job {
        let by = job.requested_by.as_deref().unwrap_or("the policy");
        lines.push(format!(
            "  remedy    {} for {by}, attempts over: {}, next look {}",
            job.remedy,
            job.attempts,
            at(job.next_at)
        ));
    }
    if let Some(rejection) = &entry.rejection {
        lines.push(format!("  rejected  by {}: {}", rejection.by, rejection.reason));
    }
    if let Some(resolution) = &entry.resolution {
        let by = resolution.by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
        lines.push(format!("  resolved  {}{by}", resolution.how));
    }
    if let Some(expiry) = entry.expires_at.filter(|_| entry.state == State::Pending) {
        lines.push(format!("  expires   {}", at(expiry)));
    }
    lines.push(String::new());
    if page.view.evidence.sufficient {
        lines.push("Evidence is sufficient: it can be resolved.".to_owned());
    } else {
        lines.push("Missing:".to_owned());
        lines.extend(page.view.evidence.missing.iter().map(|missing| format!("  {missing}")));
    }
    let possible: Vec<String> = page
        .transitions
        .iter()
        .filter(|one| one.allowed)
        .map(|one| format!("  maple-router review {} {}{}", one.command, entry.id, options(one.requires)))
        .collect();
    if !possible.is_empty() {
        lines.push("Possible:".to_owned());
        lines.extend(possible);
    }
    lines.push("Happened:".to_owned());
    lines.extend(page.history.iter().map(|line| format!("  {}", moved(line))));
    lines.push(format!("More: {}", page.view.links.explain));
    lines.join("\n")
}

fn options(requires: &[&str]) -> String {
    let option = |what: &&str| match *what {
        "reason" => " --reason TEXT",
        "escalation_reason" => " --escalation-reason TEXT",
        "remedy" => " --remedy REMEDY",
        _ => " [--remedy REMEDY | --vouch]",
    };
    requires.iter().map(option).collect()
}

fn moved(line: &Moved) -> String {
    let from = line.from.as_deref().map(|from| format!("{from} → ")).unwrap_or_default();
    let reason = line.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{}  {from}{}  {} by {}{reason}", at(line.at), line.to, line.command, line.by)
}

fn of_form(entry: &Entry) -> String {
    entry.form_id.as_deref().map(|form| format!(" of form {form}")).unwrap_or_default()
}

fn since(at: Option<Timestamp>) -> String {
    at.map(|at| format!(" since {}", self::at(at))).unwrap_or_default()
}

fn at(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}
