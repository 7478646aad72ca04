//! The decisions: each is a command on one entry.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::{Decision, Review};
use crate::cli::id::{self, IdArg};
use crate::cli::{CliError, Exit, output, setup};
use crate::grey_queue::commands::Answer;
use crate::grey_queue::decide::{Ask, Refusal};
use crate::grey_queue::entry::Entry;
use crate::journal;
use crate::kernel::subject::Remedy;
use crate::ops::telemetry::EventName;

/// Entries opened at most by one call of `review open`.
const MOST: i32 = 10_000;

/// The entry, and how the result is shown.
#[derive(Debug, clap::Args)]
pub(super) struct Target {
    /// Entry id, or its beginning
    #[arg(value_name = "ENTRY", value_parser = id::parse)]
    id: IdArg,
    /// Only if the entry is still at this version
    #[arg(long, value_name = "N")]
    version: Option<i64>,
    /// Only tell whether it would be possible
    #[arg(long)]
    dry_run: bool,
    /// The entry afterwards, as a JSON object
    #[arg(long)]
    json: bool,
}

/// A command with nothing to say.
#[derive(Debug, clap::Args)]
pub(super) struct Plain {
    #[command(flatten)]
    target: Target,
    /// Why; recorded
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// A command with a reason.
#[derive(Debug, clap::Args)]
pub(super) struct Reasoned {
    #[command(flatten)]
    target: Target,
    /// Why; recorded
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// Arguments of `review assign`.
#[derive(Debug, clap::Args)]
pub(super) struct Assign {
    #[command(flatten)]
    target: Target,
    /// The user of the desk who is to review it
    #[arg(long, value_name = "NAME")]
    to: Option<String>,
    /// Take it from whoever has it
    #[arg(long)]
    take_over: bool,
    /// Why; recorded
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Arguments of `review escalate`.
#[derive(Debug, clap::Args)]
pub(super) struct Escalate {
    #[command(flatten)]
    target: Target,
    /// What the security team is asked; recorded
    #[arg(long, value_name = "TEXT")]
    escalation_reason: String,
}

/// Arguments of `review de-escalate`.
#[derive(Debug, clap::Args)]
pub(super) struct DeEscalate {
    #[command(flatten)]
    target: Target,
    /// The user of the desk who is to review it
    #[arg(long, value_name = "NAME")]
    to: Option<String>,
    /// Why; recorded
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Arguments of `review resolve`.
#[derive(Debug, clap::Args)]
pub(super) struct Resolve {
    #[command(flatten)]
    target: Target,
    /// What is to mend it: check, replay, replan, force_delivery, release, redrive
    #[arg(long, value_name = "REMEDY", value_parser = remedy)]
    remedy: Option<Remedy>,
    /// The delivery's key, for force_delivery
    #[arg(long, value_name = "KEY", requires = "remedy")]
    delivery: Option<String>,
    /// It is done, whatever the evidence: you are named for it
    #[arg(long, conflicts_with = "remedy")]
    vouch: bool,
    /// Why; recorded
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// Arguments of `review start`.
#[derive(Debug, clap::Args)]
pub(super) struct Start {
    #[command(flatten)]
    target: Target,
    /// What is to mend it: check, replay, replan, force_delivery, release, redrive
    #[arg(long, value_name = "REMEDY", value_parser = remedy)]
    remedy: Remedy,
    /// The delivery's key, for force_delivery
    #[arg(long, value_name = "KEY")]
    delivery: Option<String>,
    /// Why; recorded
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// Arguments of `review open`.
#[derive(Debug, clap::Args)]
pub(super) struct Open {
    /// Failures since this moment (RFC 3339)
    #[arg(long, value_name = "TIME")]
    since: Timestamp,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

fn remedy(text: &str) -> Result<Remedy, String> {
    let labels: Vec<&str> = Remedy::ALL.iter().map(|remedy| remedy.label()).collect();
    Remedy::parse(text).ok_or_else(|| format!("one of: {}", labels.join(", ")))
}

/// A command on an entry.
pub(super) struct Command(Target, Ask);

impl Plain {
    pub(super) fn into_ask(self, verb: Decision) -> Command {
        Command(self.target, Ask { reason: self.reason, ..Ask::plain(verb) })
    }
}

impl Reasoned {
    pub(super) fn into_ask(self, verb: Decision) -> Command {
        Command(self.target, Ask::because(verb, &self.reason))
    }
}

impl From<Assign> for Command {
    fn from(args: Assign) -> Self {
        let ask = Ask {
            assignee: args.to,
            take_over: args.take_over,
            reason: args.reason,
            ..Ask::plain(Decision::Assign)
        };
        Self(args.target, ask)
    }
}

impl From<Escalate> for Command {
    fn from(args: Escalate) -> Self {
        let ask = Ask { escalation_reason: Some(args.escalation_reason), ..Ask::plain(Decision::Escalate) };
        Self(args.target, ask)
    }
}

impl From<DeEscalate> for Command {
    fn from(args: DeEscalate) -> Self {
        let ask = Ask { assignee: args.to, reason: args.reason, ..Ask::plain(Decision::DeEscalate) };
        Self(args.target, ask)
    }
}

impl From<Resolve> for Command {
    fn from(args: Resolve) -> Self {
        let ask = Ask {
            remedy: args.remedy,
            delivery: args.delivery,
            vouch: args.vouch,
            ..Ask::because(Decision::Resolve, &args.reason)
        };
        Self(args.target, ask)
    }
}

impl From<Start> for Command {
    fn from(args: Start) -> Self {
        let ask = Ask {
            remedy: Some(args.remedy),
            delivery: args.delivery,
            ..Ask::because(Decision::Start, &args.reason)
        };
        Self(args.target, ask)
    }
}

/// Gives the command.
pub(super) async fn run(desk: &Review, Command(target, ask): Command) -> Result<Exit, CliError> {
    let id = desk.entry(&target.id).await?;
    let seen = desk.commands.store.get(id).await.map_err(setup::database)?;
    let seen = seen.ok_or_else(|| setup::unknown("entry", id))?;
    let looked = desk.commands.look(&seen).await.map_err(setup::database)?;
    let version = target.version.unwrap_or(seen.version);
    let commands = &desk.commands;
    if target.dry_run {
        let possible =
            commands.possible(&seen, &desk.person, looked.as_ref()).await.map_err(setup::database)?;
        let judged = possible.iter().find(|one| one.command == ask.verb);
        let why_not =
            judged.map_or(Some("its state has no such command".to_owned()), |one| one.why_not.clone());
        return match why_not {
            None => {
                output::either(target.json, &json!({"possible": true}), || {
                    "it would be possible".to_owned()
                })?;
                Ok(Exit::Done)
            }
            Some(why) => {
                Err(CliError::new(Exit::FoundWanting, anyhow::anyhow!("{} of {id}: {why}", ask.verb)))
            }
        };
    }
    let answer = commands
        .store
        .pool()
        .transaction("grey_queue_ask", async |tx| {
            commands.ask_in(&tx, (id, version), &ask, &desk.person, looked.as_ref()).await
        })
        .await
        .map_err(setup::database)?;
    match answer {
        Answer::Done { entry, accepted } => {
            recorded(desk, &ask, &entry);
            output::either(target.json, &entry, || said(&entry, accepted))?;
            Ok(Exit::Done)
        }
        Answer::Conflict(now) => {
            let by = desk.commands.store.history(id).await.map_err(setup::database)?;
            let last =
                by.last().map(|line| format!("; last: {} by {}", line.command, line.by)).unwrap_or_default();
            let what = format!(
                "the entry is at version {} and not {version}: it is {}{last}; nothing was done",
                now.version, now.state
            );
            Err(wanting(what).remedy(format!("look again: maple-router review show {id}")))
        }
        Answer::Refused { refusal, .. } => Err(refused(id, &ask, &refusal)),
        Answer::Unknown => Err(setup::unknown("entry", id)),
    }
}

fn refused(id: uuid::Uuid, ask: &Ask, refusal: &Refusal) -> CliError {
    wanting(format!("{} of {id}: {refusal}; nothing was done", ask.verb))
        .remedy(format!("what is possible: maple-router review show {id}"))
}

fn wanting(what: String) -> CliError {
    CliError::new(Exit::FoundWanting, anyhow::anyhow!(what))
}

fn said(entry: &Entry, accepted: bool) -> String {
    let more = if accepted { "; its remedy is under way, and evidence resolves it" } else { "" };
    format!("{} is {}, version {}{more}", entry.id, entry.state, entry.version)
}

/// The journal's line of a decision. The reason stands in the entry's history.
fn recorded(desk: &Review, ask: &Ask, entry: &Entry) {
    journal!(
        warn,
        EventName::Override,
        entry = %entry.id,
        actor = desk.person.label,
        verb = format!("review {}", ask.verb),
        "an operator decided about an entry of the review queue: it is {}",
        entry.state
    );
}

/// Opens entries for failures that have none.
pub(super) async fn open(desk: &Review, args: &Open) -> Result<Exit, CliError> {
    #[derive(Serialize)]
    struct Opened {
        opened: u64,
        more: bool,
    }
    let opened = desk.commands.store.reconcile(args.since, true, MOST).await.map_err(setup::database)?;
    let more = opened >= u64::from(MOST.unsigned_abs());
    output::either(args.json, &Opened { opened, more }, || {
        let again = if more { "; more are left: say it again" } else { "" };
        format!("{opened} entries opened{again}")
    })?;
    Ok(Exit::Done)
}
