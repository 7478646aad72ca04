//! `replay`: routes ended submissions again, because a person says so.
//!
//! Each submission is reopened by itself; if we die in the middle, the others stay as they were, and the next run finds the
//! reopened ones open. Reopened submissions are announced where that is possible; else the sweep finds them.

use futures::StreamExt as _;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::announce::{Announced, Announcer};
use super::bulk::{self, BulkItem};
use super::id::{self, IdArg};
use super::setup::{self, Setup};
use super::{CliError, Context, Exit, Filters, operator, output};
use crate::db::{DbError, DbErrorKind};
use crate::routing::decide::replay::{Force, ReplayOptions};
use crate::routing::journal;
use crate::routing::store::overrides::Override;
use crate::routing::store::{Replayed, Store};
use crate::routing::subject::REPLAY;
use crate::routing::table::Status;

/// Submissions reopened at once.
const AT_ONCE: usize = 4;

/// Arguments of `replay`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Submission ids, or their beginnings; without any, the filters choose
    #[arg(value_name = "ID", value_parser = id::parse)]
    pub(super) ids: Vec<IdArg>,
    #[command(flatten)]
    pub(super) filters: Filters,
    /// Send again what was accepted of this action, as a new mail with a new Message-ID
    #[arg(long, value_name = "N")]
    pub(super) force_action: Option<i32>,
    /// Send again what was accepted of this delivery alone (its key in `explain --json`), as a new mail
    #[arg(long, value_name = "KEY", conflicts_with = "force_action")]
    pub(super) force_delivery: Option<String>,
    /// Take the form's current actions instead of the pinned plan; facts stay
    #[arg(long)]
    pub(super) replan: bool,
    /// Why; recorded
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(super) reason: String,
    /// Do not ask, where filters choose
    #[arg(long)]
    pub(super) yes: bool,
    /// Only tell what would be replayed
    #[arg(long)]
    pub(super) dry_run: bool,
    /// One JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// A submission or dead letter that was changed.
#[derive(Debug, Serialize)]
pub(super) struct Changed {
    /// Word for the change.
    #[serde(skip)]
    did: &'static str,
    /// The submission, or the record.
    id: Uuid,
    /// Deliveries to be sent; 0 where the next claim pins the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    deliveries: Option<usize>,
    /// The event that announces the change; serialised as its id.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "message_id")]
    #[serde(rename = "message_id")]
    pub(super) announced: Option<Announced>,
}

/// Serialises the event's id; a submission without an event has none.
fn message_id<S: serde::Serializer>(announced: &Option<Announced>, serializer: S) -> Result<S::Ok, S::Error> {
    announced.as_ref().map(Announced::message_id).serialize(serializer)
}

impl Changed {
    /// A dead letter that is closed.
    pub(super) fn closed(id: Uuid, announced: Option<Announced>) -> Self {
        Self { did: "closed", id, deliveries: None, announced }
    }
}

impl BulkItem for Changed {
    fn id(&self) -> Uuid {
        self.id
    }

    fn words(&self, dry_run: bool) -> String {
        let mut text = format!("{} {}", if dry_run { "would be" } else { "is" }, self.did);
        if let Some(deliveries) = self.deliveries {
            text.push_str(&format!(", {deliveries} to be sent"));
        }
        if let Some(announced) = &self.announced {
            text.push_str(&format!(", {}", announced.words()));
        }
        text
    }
}

/// The report of every bulk verb, of these changes.
pub(super) type Report = bulk::Report<Changed>;

/// Reopens the chosen submissions.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let setup = Setup::open(ctx)?;
    let named = !args.ids.is_empty();
    let force = match (&args.force_delivery, args.force_action) {
        (Some(key), _) => Some(Force::Delivery(key)),
        (None, order) => order.map(Force::Action),
    };
    let options = ReplayOptions { force, replan: args.replan };
    let (ids, warnings) = bulk::chosen(&setup, REPLAY, &args.ids, args.filters, Status::Failed).await?;
    if !named && !args.dry_run && !args.yes && !ids.is_empty() {
        agreed(ids.len())?;
    }
    let actor = operator::actor(&ctx.env);
    let asked = Asked { actor: &actor, verb: REPLAY, reason: &args.reason, options, dry_run: args.dry_run };
    let (report, broken) = asked.replay(&setup, &ids, warnings).await?;
    report.tell(args.json)?;
    if let Some(error) = broken {
        // The report has said it already; only the exit code is left.
        return Err(setup::database(error));
    }
    Ok(report.exit(named))
}

/// Asks a person at a terminal; where there is none, nothing is done.
fn agreed(submissions: usize) -> Result<(), CliError> {
    let many =
        if submissions == 1 { "1 submission".to_owned() } else { format!("{submissions} submissions") };
    match output::ask(&format!("{many} would be routed again. Go on? [y/N] "))? {
        Some(true) => Ok(()),
        Some(false) => {
            let nothing = anyhow::anyhow!("nothing was done");
            Err(CliError::new(Exit::FoundWanting, nothing).remedy("--dry-run shows which they are"))
        }
        None => {
            let refused = anyhow::anyhow!("{many} would be routed again, and nobody can be asked");
            Err(CliError::new(Exit::Usage, refused)
                .remedy("--yes does it without asking; --dry-run shows which they are"))
        }
    }
}

/// A person's request.
pub(super) struct Asked<'a> {
    pub(super) actor: &'a str,
    pub(super) verb: &'a str,
    pub(super) reason: &'a str,
    pub(super) options: ReplayOptions<'a>,
    pub(super) dry_run: bool,
}

impl Asked<'_> {
    /// Replays each submission and reports the result; the error is the database's fault, where it met one.
    pub(super) async fn replay(
        &self,
        setup: &Setup,
        ids: &[Uuid],
        warnings: Vec<String>,
    ) -> Result<(Report, Option<DbError>), CliError> {
        let store = setup.writing_store()?;
        let mut announcer = Announcer::of(&setup.config);
        let mut report = Report::new("left as it is", ids.len(), self.dry_run).warned(warnings);
        let replaying: Vec<_> = ids.iter().map(|id| self.one(&store, *id)).collect();
        let mut replaying = futures::stream::iter(replaying).buffered(AT_ONCE);
        let progress = output::Progress::of(ids.len());
        let mut broken = None;
        while let Some((id, answer)) = replaying.next().await {
            match answer {
                Ok(Replayed::Done { form_id, replay }) => {
                    let announced = if self.dry_run { None } else { announcer.announce(id, &form_id).await };
                    let deliveries = Some(replay.open.len());
                    report.changed.push(Changed { did: "open again", id, deliveries, announced });
                }
                Ok(left @ (Replayed::Refused(_) | Replayed::Unknown)) => {
                    report.skip(id, left.refusal().unwrap_or_default());
                }
                Err(error) => {
                    report.skip(id, error.to_string());
                    let gone = error.kind() == DbErrorKind::Unreachable;
                    broken = Some(error);
                    if gone {
                        report.warnings.push("the database is gone: the rest was not tried".to_owned());
                        break;
                    }
                }
            }
            progress.at(report.done());
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
            journal::overrides::replayed(id, form_id, note, replay);
        }
        (id, answer)
    }
}
