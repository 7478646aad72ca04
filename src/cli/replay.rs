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
    deliveries: usize,
    /// Id of the event that announces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
}

/// As every bulk verb tells it.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
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
        let mut report = Report { matched: ids.len(), dry_run: self.dry_run, warnings, ..Report::default() };
        let replaying: Vec<_> = ids.iter().map(|id| self.one(&store, *id)).collect();
        let mut replaying = futures::stream::iter(replaying).buffered(AT_ONCE);
        let progress = output::Progress::of(ids.len());
        let mut broken = None;
        while let Some((id, answer)) = replaying.next().await {
            match answer {
                Ok(Replayed::Done { form_id, replay }) => {
                    let message_id = if self.dry_run { None } else { announcer.announce(id, &form_id).await };
                    report.changed.push(Changed { id, deliveries: replay.open.len(), message_id });
                }
                Ok(Replayed::Refused(refusal)) => {
                    report.skipped.push(Skipped { id, why: refusal.to_string() });
                }
                Err(error) => {
                    report.skipped.push(Skipped { id, why: error.to_string() });
                    let gone = error.kind() == DbErrorKind::Unreachable;
                    broken = Some(error);
                    if gone {
                        report.warnings.push("the database is gone: the rest was not tried".to_owned());
                        break;
                    }
                }
                Ok(Replayed::Unknown) => {
                    let why = "there is no such submission that this database role can see".to_owned();
                    report.skipped.push(Skipped { id, why });
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
        let would = if self.dry_run { "would be open again" } else { "is open again" };
        for Changed { id, deliveries, message_id } in &self.changed {
            let announced = message_id.as_ref().map(|id| format!(", announced as message {id}"));
            text.push_str(&format!(
                "{id}: {would}, {deliveries} to be sent{}\n",
                announced.unwrap_or_default()
            ));
        }
        for Skipped { id, why } in &self.skipped {
            text.push_str(&format!("{id}: not replayed: {why}\n"));
        }
        let (changed, skipped) = (self.changed.len(), self.skipped.len());
        text.push_str(&format!("{} matched, {changed} changed, {skipped} skipped\n", self.matched));
        output::text(&text)
    }
}
