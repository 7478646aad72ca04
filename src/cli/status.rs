//! `status`: how many submissions are in each status, and faults.
//!
//! Reads only. Where no daemon answers on this host, the verb ends in 1: nothing is routed from here.

use std::collections::BTreeMap;

use super::layout::span;
use super::output::{self, Palette};
use super::pause;
use super::setup::{self, Setup};
use super::{CliError, Context, Exit};
use crate::ops::dependency::Dependency;
use crate::queries::status::{self, Outbox, Relay, Report};
use crate::routing::explain::Daemon;
use crate::routing::submission::text::one_line;
use crate::routing::table::Status;

/// Arguments of `status`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// One JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Prints the counts.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let setup = Setup::open(ctx)?;
    let report = status::report(&setup).await.map_err(setup::query)?;
    if args.json {
        output::json(&report)?;
    } else {
        output::page(&text(&report, Palette::of_stdout()))?;
    }
    Ok(if report.daemon_reachable { Exit::Done } else { Exit::FoundWanting })
}

fn text(report: &Report, palette: Palette) -> String {
    let mut text = String::new();
    let overview = &report.overview;
    for (status, count) in ordered(&overview.counts) {
        let oldest = overview.oldest_seconds.get(status).copied().unwrap_or_default();
        let age = match (*count, is_open(status)) {
            (0, _) => String::new(),
            (_, true) => format!("oldest {}", span(oldest.unsigned_abs())),
            (_, false) => format!("first changed {} ago", span(oldest.unsigned_abs())),
        };
        text.push_str(format!("{status:<12}{count:>9}  {age}").trim_end());
        text.push('\n');
    }
    if !overview.attempts.is_empty() {
        let spent: Vec<String> = overview.attempts.iter().map(|(n, count)| format!("{n}: {count}")).collect();
        text.push_str(&format!("attempts spent by open submissions   {}\n", spent.join(", ")));
    }
    if let Some(outbox) = report.outbox {
        text.push_str(&format!("events in the outbox                 {}\n", outbox_line(outbox)));
    }
    if let Some(line) = relay_line(&report.relay) {
        text.push_str(&format!("mails with the relay, undelivered    {line}\n"));
    }
    for pause in &report.paused {
        text.push_str(&format!("{} paused: {}\n", palette.yellow("!"), pause::line(pause)));
    }
    for breaker in report.breaker.iter().filter(|breaker| breaker.open) {
        text.push_str(&format!(
            "{} {}: nothing is claimed, no attempt is spent\n",
            palette.red("✗"),
            trouble(breaker.dependency)
        ));
    }
    if let Some(line) = daemon_line(&report.daemon, palette) {
        text.push_str(&line);
    }
    if let Some(line) = letters_line(report.dead_letters.as_ref()) {
        text.push_str(&format!("{} {line}\n", palette.yellow("!")));
    }
    let mut wrong = false;
    for (count, what, follows) in [
        (overview.in_doubt, "deliveries in doubt", "perhaps delivered; each is resolved at its next attempt"),
        (overview.unalerted, "failures without a confirmed alert", "maple-router list --status failed"),
        (
            overview.not_implemented_only,
            "routed with nothing sent",
            "their forms have only actions that are not implemented",
        ),
    ] {
        if count > 0 {
            wrong = true;
            text.push_str(&format!("{} {count} {what} ({follows})\n", palette.yellow("!")));
        }
    }
    if !wrong {
        text.push_str(&format!("{} nothing in doubt, every failure alerted\n", palette.green("✓")));
    }
    text
}

fn outbox_line(Outbox { pending, delivering, oldest_seconds, dead_letter }: Outbox) -> String {
    let due = if oldest_seconds > 0 { format!(" (due for {})", span(oldest_seconds)) } else { String::new() };
    let mut facts = vec![format!("{pending} wait{due}")];
    if delivering > 0 {
        facts.push(format!("{delivering} being delivered"));
    }
    if dead_letter > 0 {
        facts.push(format!("{dead_letter} given up on (maple-router dlq list)"));
    }
    facts.join(", ")
}

fn relay_line(relay: &Relay) -> Option<String> {
    match (relay.accepted_undelivered, &relay.unknown) {
        (Some(0), _) => Some("none, as far as its log tells".to_owned()),
        (Some(count), _) => {
            let oldest = relay.oldest_seconds.unwrap_or_default().unsigned_abs();
            Some(format!("{count} (accepted {} ago)", span(oldest)))
        }
        (None, Some(why)) => Some(format!("not known: {why}")),
        (None, None) => None,
    }
}

/// Dead letters to be looked at; `None` where there are none.
fn letters_line(open: Option<&BTreeMap<&'static str, u64>>) -> Option<String> {
    let Some(open) = open else {
        return Some("dead letters are not known: their file cannot be read (sudo?)".to_owned());
    };
    let all: u64 = open.values().sum();
    let kinds: Vec<String> = open
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(kind, count)| format!("{count} {}", kind.replace('_', " ")))
        .collect();
    let word = if all == 1 { "letter" } else { "letters" };
    (all > 0).then(|| format!("{all} open dead {word}: {} (maple-router dlq list)", kinds.join(", ")))
}

/// Words for an open breaker.
fn trouble(dependency: &str) -> String {
    if dependency == Dependency::CONTRACT.label() {
        return "the database is not what the data contract says, `maple-router check` names what".to_owned();
    }
    if dependency == Dependency::HELP_DESK.label() {
        return "the help desk takes no tickets, which wait; mails go on (maple-router check)".to_owned();
    }
    format!("{dependency} does not work")
}

/// Why the daemon of this host does not work, unless a breaker or a pause says so already.
fn daemon_line(daemon: &Daemon, palette: Palette) -> Option<String> {
    match daemon {
        Daemon::NotAsked | Daemon::Working | Daemon::BreakerOpen { .. } => None,
        Daemon::Silent { listen } => Some(format!(
            "{} no daemon answers on this host ({listen}): nothing is routed from here, breakers are not known; systemctl \
             status maple-router\n",
            palette.red("✗")
        )),
        Daemon::Idle { reasons } => {
            let reasons: Vec<String> = reasons
                .iter()
                .map(|reason| one_line(&format!("{}: {}", reason.name, reason.detail)))
                .collect();
            Some(format!("{} the daemon takes no work: {}\n", palette.yellow("!"), reasons.join("; ")))
        }
    }
}

/// Counts in the order in which a submission passes through the statuses; statuses of this database alone come last.
fn ordered(counts: &BTreeMap<String, i64>) -> Vec<(&str, &i64)> {
    let mut ordered: Vec<(&str, &i64)> = counts.iter().map(|(status, n)| (status.as_str(), n)).collect();
    ordered.sort_by_key(|(status, _)| {
        Status::ALL.iter().position(|known| known.label() == *status).unwrap_or(Status::ALL.len())
    });
    ordered
}

fn is_open(status: &str) -> bool {
    Status::parse(status).is_some_and(|status| !status.is_terminal())
}
