//! `replay`: routes again what has ended, because a person says so.
//!
//! Each submission is reopened by itself; dying in the middle leaves the others as they were, and doing it again finds
//! those that are open already. What is reopened is announced where Pub/Sub can be reached; else the sweep finds it.

use std::collections::BTreeSet;
use std::io::Write;

use futures::StreamExt as _;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::desk::{self, Announcer, Desk};
use super::{CliError, Context, Exit, Filters, list, operator, output};
use crate::db::{DbError, DbErrorKind};
use crate::journal;
use crate::lifecycle::submission::Status;
use crate::ops::telemetry::EventName;
use crate::routing::replay::ReplayOptions;
use crate::routing::store::seams::Override;
use crate::routing::store::{Replayed, Store};

/// Submissions reopened at once.
const AT_ONCE: usize = 4;
/// Told as the actor's verb.
const VERB: &str = "replay";

/// Arguments of `replay`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Submission ids; without any, the filters choose
    #[arg(value_name = "ID")]
    pub(super) ids: Vec<Uuid>,
    #[command(flatten)]
    pub(super) filters: Filters,
    /// Send again what was accepted of this action, as a new mail with a new Message-ID
    #[arg(long, value_name = "N")]
    pub(super) force_action: Option<i32>,
    /// Take the form's current actions instead of the pinned plan; facts stay
    #[arg(long)]
    pub(super) replan: bool,
    /// Why; recorded
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(super) reason: String,
    /// Only tell what would be replayed
    #[arg(long)]
    pub(super) dry_run: bool,
    /// One JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// One that is open again.
#[derive(Debug, Serialize)]
struct Changed {
    /// The submission.
    id: Uuid,
    /// Deliveries to be sent; 0 where its plan is pinned by its next claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    deliveries: Option<usize>,
    /// Id of the event that announces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
}

/// As every bulk verb tells it.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// What is done to each.
    #[serde(skip)]
    did: &'static str,
    /// Submissions named or found, each once.
    matched: usize,
    changed: Vec<Changed>,
    skipped: Vec<Skipped>,
    /// Nothing was changed.
    dry_run: bool,
    /// What concerns all of them.
    warnings: Vec<String>,
}

/// One that stays as it is.
#[derive(Debug, Serialize)]
struct Skipped {
    id: Uuid,
    why: String,
}

/// Reopens them.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let desk = Desk::open(ctx)?;
    let named = !args.ids.is_empty();
    let options = ReplayOptions { force_action: args.force_action, replan: args.replan };
    let (ids, warnings) = chosen(&desk, args.ids, args.filters).await?;
    let actor = operator::actor(&ctx.env);
    let asked = Asked { actor: &actor, verb: VERB, reason: &args.reason, options, dry_run: args.dry_run };
    let (report, broken) = asked.replay(&desk, &ids, warnings).await?;
    report.tell(args.json)?;
    if let Some(error) = broken {
        // Told in the report already; the code is what remains to be said.
        return Err(desk::database(error));
    }
    Ok(if report.skipped.is_empty() || !named && !report.changed.is_empty() {
        Exit::Done
    } else {
        Exit::FoundWanting
    })
}

/// The submissions meant, and what to say about the choice.
async fn chosen(desk: &Desk, ids: Vec<Uuid>, filters: Filters) -> Result<(Vec<Uuid>, Vec<String>), CliError> {
    if !ids.is_empty() {
        if filters != Filters::default() {
            let both = anyhow::anyhow!("ids and filters together are not understood");
            return Err(
                CliError::new(Exit::Usage, both).remedy("name the submissions, or say which by filters")
            );
        }
        let mut seen = BTreeSet::new();
        return Ok((ids.into_iter().filter(|id| seen.insert(*id)).collect(), Vec::new()));
    }
    if filters == Filters::default() {
        let none = anyhow::anyhow!("nothing says which submissions to replay");
        return Err(CliError::new(Exit::Usage, none)
            .remedy("name them, or choose by --status, --form, --reason-code, --older-than, --since"));
    }
    let mut selection = list::selection(filters)?;
    if selection.status.is_empty() {
        selection.status = vec![Status::Failed];
    }
    let limit = selection.limit;
    // One more, to know whether there are more.
    selection.limit = limit.saturating_add(1);
    let found = desk.view().list(&selection).await.map_err(desk::database)?;
    let mut ids: Vec<Uuid> = found.iter().map(|line| line.id).collect();
    let mut warnings = Vec::new();
    if ids.len() > usize::try_from(limit).unwrap_or(usize::MAX) {
        ids.pop();
        warnings.push(format!("only the first {limit} are taken: do it again for more, or raise --limit"));
    }
    Ok((ids, warnings))
}

/// What a person asked for.
pub(super) struct Asked<'a> {
    pub(super) actor: &'a str,
    pub(super) verb: &'a str,
    pub(super) reason: &'a str,
    pub(super) options: ReplayOptions,
    pub(super) dry_run: bool,
}

impl Asked<'_> {
    /// Replays each, and tells what became of it; the fault is the database's, where it met one.
    pub(super) async fn replay(
        &self,
        desk: &Desk,
        ids: &[Uuid],
        warnings: Vec<String>,
    ) -> Result<(Report, Option<DbError>), CliError> {
        let store = desk.store()?;
        let mut announcer = Announcer::of(desk);
        let mut report = Report { warnings, ..Report::new("open again", ids.len(), self.dry_run) };
        let replaying: Vec<_> = ids.iter().map(|id| self.one(&store, *id)).collect();
        let mut replaying = futures::stream::iter(replaying).buffered(AT_ONCE);
        let progress = output::Progress::of(ids.len());
        let mut broken = None;
        while let Some((id, answer)) = replaying.next().await {
            match answer {
                Ok(Replayed::Done { form_id, replay }) => {
                    let message_id = if self.dry_run { None } else { announcer.announce(id, &form_id).await };
                    report.changed(id, Some(replay.open.len()), message_id);
                }
                Ok(Replayed::Refused(refusal)) => {
                    report.skipped(id, refusal.to_string());
                }
                Err(error) => {
                    report.skipped(id, error.to_string());
                    let gone = error.kind() == DbErrorKind::Unreachable;
                    broken = Some(error);
                    if gone {
                        report.warnings.push("the database is gone: the rest was not tried".to_owned());
                        break;
                    }
                }
                Ok(Replayed::Unknown) => {
                    let why = "there is no such submission that this database role can see".to_owned();
                    report.skipped(id, why);
                }
            }
            progress.at(report.changed.len() + report.skipped.len());
        }
        progress.end();
        report.warnings.extend(announcer.warning());
        Ok((report, broken))
    }

    async fn one(&self, store: &Store, id: Uuid) -> (Uuid, Result<Replayed, DbError>) {
        let more = json!({});
        let note = Override { actor: self.actor, verb: self.verb, reason: Some(self.reason), more: &more };
        let answer = store.replay(id, self.options, note, self.dry_run).await;
        if let (Ok(Replayed::Done { form_id, replay }), false) = (&answer, self.dry_run) {
            journal!(
                warn,
                EventName::Override,
                submission_id = %id,
                form_id = form_id,
                actor = self.actor,
                verb = self.verb,
                reason = self.reason,
                force_action = self.options.force_action,
                replan = self.options.replan,
                "an operator has it routed again: {} deliveries are open",
                replay.open.len()
            );
        }
        (id, answer)
    }
}

impl Report {
    /// Nothing done yet of so many; `did` is what is done to each.
    pub(super) fn new(did: &'static str, matched: usize, dry_run: bool) -> Self {
        Self { did, matched, changed: Vec::new(), skipped: Vec::new(), dry_run, warnings: Vec::new() }
    }

    /// It is done, in a dry run it would be.
    pub(super) fn changed(&mut self, id: Uuid, deliveries: Option<usize>, message_id: Option<String>) {
        self.changed.push(Changed { id, deliveries, message_id });
    }

    /// It stays as it is.
    pub(super) fn skipped(&mut self, id: Uuid, why: String) {
        self.skipped.push(Skipped { id, why });
    }

    /// Whether nothing was left out.
    pub(super) fn is_whole(&self) -> bool {
        self.skipped.is_empty()
    }

    /// What became of the only one: the event that announces it, or why it stays as it is.
    pub(super) fn only(self) -> Result<Option<String>, String> {
        match (self.changed.into_iter().next(), self.skipped.into_iter().next()) {
            (Some(changed), _) => Ok(changed.message_id),
            (None, Some(skipped)) => Err(skipped.why),
            (None, None) => Err("nothing became of it".to_owned()),
        }
    }

    /// Prints it.
    pub(super) fn tell(&self, json: bool) -> Result<(), CliError> {
        if json {
            return output::json(self);
        }
        let mut text = String::new();
        let mut err = std::io::stderr().lock();
        for warning in &self.warnings {
            writeln!(err, "warning: {warning}")?;
        }
        let is = if self.dry_run { "would be" } else { "is" };
        for Changed { id, deliveries, message_id } in &self.changed {
            text.push_str(&format!("{id}: {is} {}", self.did));
            if let Some(deliveries) = deliveries {
                text.push_str(&format!(", {deliveries} to be sent"));
            }
            if let Some(message_id) = message_id {
                text.push_str(&format!(", published as message {message_id}"));
            }
            text.push('\n');
        }
        for Skipped { id, why } in &self.skipped {
            text.push_str(&format!("{id}: left as it is: {why}\n"));
        }
        let (changed, skipped) = (self.changed.len(), self.skipped.len());
        text.push_str(&format!("{} matched, {changed} changed, {skipped} skipped\n", self.matched));
        output::text(&text)
    }
}
