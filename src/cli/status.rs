//! `status`: how many submissions are where, and what is wrong.
//!
//! Reads only. Breakers are the daemon's own: they are asked of the one on this host. What no part of this version knows
//! yet is said to be empty, or null where even that is not known. Where no daemon answers on this host, the counts are
//! shown all the same, and the verb ends in 1: nothing is routed from here.

use std::collections::BTreeMap;

use serde::Serialize;

use super::daemon_word::{self, BreakerPart};
use super::desk::{self, Desk};
use super::output::{self, Palette};
use super::pause;
use super::{CliError, Context, Exit};
use crate::config::SourceKind;
use crate::kernel::rows::Depth;
use crate::ops::metrics::Dependency;
use crate::outbox::table::State;
use crate::parts;
use crate::routing::dead_letter::RecordError;
use crate::routing::delivery::followed::Followed;
use crate::routing::explain::Daemon;
use crate::routing::pause::Pause;
use crate::routing::store::view::Overview;
use crate::routing::table::Status;
use crate::routing::text::one_line;

/// Arguments of `status`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// One JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Prints the counts.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let desk = Desk::open(ctx)?;
    let overview = desk.view().overview().await.map_err(desk::database)?;
    let paused = pause::book(&desk).read().await.map_err(pause::fault)?;
    let outbox = Outbox::of(&desk).await?;
    let listen = &desk.config.http.listen;
    let (mut breakers, daemon) =
        futures::join!(daemon_word::breakers(listen), daemon_word::readiness(listen));
    if desk.config.source.kind != SourceKind::Pubsub {
        breakers.iter_mut().for_each(|all| all.retain(|one| one.dependency != Dependency::Pubsub.label()));
    }
    let report = Report {
        relay: Relay::of(&desk).await?,
        paused: paused.iter().cloned().collect(),
        daemon_reachable: !matches!(daemon, Daemon::Silent { .. }),
        daemon,
        dead_letters: DeadLetters::of(&desk).await?,
        breaker: breakers.unwrap_or_default(),
        outbox,
        ..Report::from(overview)
    };
    if args.json {
        output::json(&report)?;
    } else {
        output::page(&text(&report, Palette::of_stdout()))?;
    }
    Ok(if report.daemon_reachable { Exit::Done } else { Exit::FoundWanting })
}

/// What is shown (interfaces page, `status`).
#[derive(Debug, Serialize)]
struct Report {
    counts: BTreeMap<String, i64>,
    oldest_seconds: BTreeMap<String, i64>,
    /// Open submissions by attempts spent.
    attempts: BTreeMap<u32, i64>,
    in_doubt: i64,
    unalerted: i64,
    not_implemented_only: i64,
    paused: Vec<Pause>,
    /// As the daemon on this host says; empty where none answers.
    breaker: Vec<BreakerPart>,
    daemon_reachable: bool,
    /// What it says of itself.
    daemon: Daemon,
    /// Open ones, as `dlq list` shows them.
    dead_letters: DeadLetters,
    relay: Relay,
    /// Events that wait in schema `router`; null where there is no outbox.
    outbox: Option<Outbox>,
}

/// Open dead letters by kind, wherever events come from.
#[derive(Debug, Default, Serialize)]
#[serde(untagged)]
enum DeadLetters {
    /// So many; every kind.
    Counted(BTreeMap<&'static str, u64>),
    /// The records of this host cannot be read.
    #[default]
    #[serde(serialize_with = "nothing")]
    Unknown,
}

fn nothing<S: serde::Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_none()
}

impl DeadLetters {
    async fn of(desk: &Desk) -> Result<Self, CliError> {
        match desk.records().open().await {
            Ok(open) => Ok(Self::Counted(open)),
            // The records in the state directory are root's and the service's; the rest is no secret.
            Err(RecordError::File { .. }) => Ok(Self::Unknown),
            Err(RecordError::Database(error)) => Err(desk::database(error)),
        }
    }

    /// What is to be looked at; empty where nothing is.
    fn line(&self) -> Option<String> {
        let open = match self {
            Self::Unknown => {
                return Some("dead letters are not known: their file cannot be read (sudo?)".to_owned());
            }
            Self::Counted(open) => open,
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
}

/// Events that the database has written and that are not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
struct Outbox {
    /// To be delivered, now or after a pause.
    pending: u64,
    /// Being delivered.
    delivering: u64,
    /// For how long the one that waits longest is due.
    oldest_seconds: u64,
    /// Given up on.
    dead_letter: u64,
}

impl Outbox {
    async fn of(desk: &Desk) -> Result<Option<Self>, CliError> {
        let outbox = parts::outbox(&desk.config, desk.pool());
        if !outbox.is_there().await.map_err(desk::database)? {
            return Ok(None);
        }
        let depths = outbox.depths().await.map_err(desk::database)?;
        Ok(Some(depths.into_iter().fold(Self::default(), Self::with)))
    }

    fn with(mut self, depth: Depth<State>) -> Self {
        match depth.state {
            State::Pending | State::RetryWait => {
                self.pending += depth.count;
                self.oldest_seconds = self.oldest_seconds.max(depth.oldest.as_secs());
            }
            State::Delivering => self.delivering += depth.count,
            State::DeadLetter => self.dead_letter += depth.count,
            State::Delivered => {}
        }
        self
    }

    fn line(self) -> String {
        let Self { pending, delivering, oldest_seconds, dead_letter } = self;
        let due = match oldest_seconds {
            0 => String::new(),
            seconds => format!(" (due for {})", span(i64::try_from(seconds).unwrap_or(i64::MAX))),
        };
        let mut facts = vec![format!("{pending} wait{due}")];
        if delivering > 0 {
            facts.push(format!("{delivering} being delivered"));
        }
        if dead_letter > 0 {
            facts.push(format!("{dead_letter} given up on (maple-router dlq list)"));
        }
        facts.join(", ")
    }
}

/// What the relay's log says of mails it accepted; null where nobody reads it.
#[derive(Debug, Default, Serialize)]
struct Relay {
    /// Accepted by the relay at most a week ago, and not known to be delivered or lost.
    accepted_undelivered: Option<i64>,
    oldest_seconds: Option<i64>,
    /// Why that is not known although the log shall be followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<String>,
}

impl Relay {
    async fn of(desk: &Desk) -> Result<Self, CliError> {
        let since = match Followed::of(&desk.config).await {
            Followed::No => return Ok(Self::default()),
            Followed::Unknown(why) => return Ok(Self { unknown: Some(why), ..Self::default() }),
            Followed::Since(since) => since,
        };
        let found = desk.view().undelivered(since).await.map_err(desk::database)?;
        Ok(Self {
            accepted_undelivered: Some(found.count),
            oldest_seconds: Some(found.oldest_seconds),
            unknown: None,
        })
    }

    fn line(&self) -> Option<String> {
        match (self.accepted_undelivered, &self.unknown) {
            (Some(0), _) => Some("none, as far as its log tells".to_owned()),
            (Some(count), _) => {
                Some(format!("{count} (accepted {} ago)", span(self.oldest_seconds.unwrap_or_default())))
            }
            (None, Some(why)) => Some(format!("not known: {why}")),
            (None, None) => None,
        }
    }
}

impl From<Overview> for Report {
    fn from(overview: Overview) -> Self {
        Self {
            counts: overview.counts,
            oldest_seconds: overview.oldest_seconds,
            attempts: overview.attempts,
            in_doubt: overview.in_doubt,
            unalerted: overview.unalerted,
            not_implemented_only: overview.not_implemented_only,
            paused: Vec::new(),
            breaker: Vec::new(),
            daemon_reachable: false,
            daemon: Daemon::NotAsked,
            dead_letters: DeadLetters::default(),
            relay: Relay::default(),
            outbox: None,
        }
    }
}

fn text(report: &Report, palette: Palette) -> String {
    let mut text = String::new();
    for (status, count) in ordered(&report.counts) {
        let oldest = report.oldest_seconds.get(status).copied().unwrap_or_default();
        let age = match (*count, is_open(status)) {
            (0, _) => String::new(),
            (_, true) => format!("oldest {}", span(oldest)),
            (_, false) => format!("first changed {} ago", span(oldest)),
        };
        text.push_str(format!("{status:<12}{count:>9}  {age}").trim_end());
        text.push('\n');
    }
    if !report.attempts.is_empty() {
        let spent: Vec<String> = report.attempts.iter().map(|(n, count)| format!("{n}: {count}")).collect();
        text.push_str(&format!("attempts spent by open submissions   {}\n", spent.join(", ")));
    }
    if let Some(outbox) = report.outbox {
        text.push_str(&format!("events in the outbox                 {}\n", outbox.line()));
    }
    if let Some(line) = report.relay.line() {
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
    if let Some(line) = report.dead_letters.line() {
        text.push_str(&format!("{} {line}\n", palette.yellow("!")));
    }
    let mut wrong = false;
    for (count, what, follows) in [
        (report.in_doubt, "deliveries in doubt", "perhaps delivered; each is resolved at its next attempt"),
        (report.unalerted, "failures without a confirmed alert", "maple-router list --status failed"),
        (
            report.not_implemented_only,
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

/// What an open breaker says.
fn trouble(dependency: &str) -> String {
    if dependency == Dependency::Contract.label() {
        return "the database is not what the data contract says, `maple-router check` names what".to_owned();
    }
    format!("{dependency} does not work")
}

/// What keeps the daemon of this host from work and is not told as a breaker or a pause.
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

/// In the order in which a submission passes through them; what only this database knows comes last.
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

fn span(seconds: i64) -> String {
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7199 => format!("{}m", seconds / 60),
        7200..=172_799 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}
