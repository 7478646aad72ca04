//! `dlq`: what Pub/Sub or the outbox gave up on, and what to do with it.
//!
//! Three kinds: messages that nobody can read, events of submissions that are not there (both recorded by the daemon),
//! and submissions that failed because nothing was left to try (their row is the record). A redrive publishes first and
//! closes second: dying in between leaves the record open, and an event too many changes nothing.

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::announce::{Again, Announced, Announcer};
use super::bulk;
use super::desk::{self, Desk};
use super::replay::{Asked, Changed, Report};
use super::{CliError, Context, Exit, operator, output};
use crate::db::DbErrorKind;
use crate::journal;
use crate::ops::telemetry::EventName;
use crate::routing::dead_letter::{Closing, Record, RecordError, Records};
use crate::routing::explain::at;
use crate::routing::replay::ReplayOptions;
use crate::routing::store::dead_letters::{DISCARD, ExhaustedRow};
use crate::routing::store::seams::Override;
use crate::routing::text::{bounded, one_line};

/// Shown and done where `--limit` says nothing.
const LIMIT: u32 = 1000;

/// Arguments of `dlq`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the records that are open
    List(List),
    /// Show one record with its payload
    Show(Show),
    /// Publish payloads again, or replay exhausted submissions
    Redrive(Close),
    /// Close records that are not needed any more
    Discard(Close),
}

#[derive(Debug, clap::Args)]
struct List {
    /// Only of this kind
    #[arg(long, value_name = "KIND", value_parser = KINDS)]
    kind: Option<String>,
    /// Closed ones as well
    #[arg(long)]
    all: bool,
    /// At most this many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// A JSON array
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Show {
    /// Record id
    #[arg(value_name = "ID")]
    id: Uuid,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Close {
    /// Record ids; without any, --kind chooses
    #[arg(value_name = "ID", required_unless_present = "kind", conflicts_with = "kind")]
    ids: Vec<Uuid>,
    /// Every open record of this kind
    #[arg(long, value_name = "KIND", value_parser = KINDS)]
    kind: Option<String>,
    /// At most this many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Why; recorded
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    reason: String,
    /// Only tell what would be done
    #[arg(long)]
    dry_run: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

const EXHAUSTED: &str = "exhausted";
const KINDS: [&str; 3] = ["unreadable", "unknown_submission", EXHAUSTED];

/// One record, wherever it is.
enum Entry {
    Letter(Box<Record>),
    Row(ExhaustedRow),
}

impl Entry {
    fn id(&self) -> Uuid {
        match self {
            Self::Letter(record) => record.id,
            Self::Row(row) => row.id,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Letter(record) => record.kind.label(),
            Self::Row(_) => EXHAUSTED,
        }
    }

    fn at(&self) -> Timestamp {
        match self {
            Self::Letter(record) => record.at,
            Self::Row(row) => row.at,
        }
    }

    /// As the interfaces page tells it; a submission's event carries nothing but its id, so it has no payload.
    fn json(&self) -> serde_json::Value {
        match self {
            Self::Letter(record) => json!(record),
            Self::Row(row) => json!({
                "id": row.id, "kind": EXHAUSTED, "at": row.at, "submission_id": row.id, "reason": row.reason,
                "payload_sha256": null,
            }),
        }
    }

    fn line(&self) -> String {
        let (about, reason) = match self {
            Self::Letter(record) => (record.submission_id, &record.reason),
            Self::Row(row) => (Some(row.id), &row.reason),
        };
        let about = about.map_or("-".to_owned(), |id| id.to_string());
        let closed = match self {
            Self::Letter(record) => {
                record.closed.as_ref().map(|closed| format!("; closed by {}", closed.actor))
            }
            Self::Row(_) => None,
        };
        format!(
            "{}  {}  {:<18}  {about:<36}  {}{}\n",
            self.id(),
            at(self.at()),
            self.kind(),
            bounded(one_line(reason), 60),
            one_line(&closed.unwrap_or_default())
        )
    }
}

/// Does what was asked for.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let desk = Desk::open(ctx)?;
    let records = desk.records();
    match args.verb {
        Verb::List(args) => list(&records, &args).await,
        Verb::Show(args) => show(&records, &args).await,
        Verb::Redrive(args) => close(ctx, &desk, &records, &args, Closing::Redriven).await,
        Verb::Discard(args) => close(ctx, &desk, &records, &args, Closing::Discarded).await,
    }
}

/// Records of a kind, or of every kind, oldest first.
async fn find(records: &Records, kind: Option<&str>, all: bool, limit: u32) -> Result<Vec<Entry>, CliError> {
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut found = Vec::new();
    if kind != Some(EXHAUSTED) {
        let letters = records.list(all, usize::MAX >> 1).await.map_err(fault)?;
        let wanted = letters.into_iter().filter(|record| kind.is_none_or(|kind| kind == record.kind.label()));
        found.extend(wanted.map(|record| Entry::Letter(Box::new(record))));
    }
    if kind.is_none_or(|kind| kind == EXHAUSTED) {
        let rows = records.store.exhausted(None, all, i64::from(limit)).await.map_err(desk::database)?;
        found.extend(rows.into_iter().map(Entry::Row));
    }
    found.sort_by_key(|entry| (entry.at(), entry.id()));
    found.truncate(most);
    Ok(found)
}

/// One record, open or closed.
async fn one(records: &Records, id: Uuid) -> Result<Option<Entry>, CliError> {
    if let Some(record) = records.get(id).await.map_err(fault)? {
        return Ok(Some(Entry::Letter(Box::new(record))));
    }
    let rows = records.store.exhausted(Some(id), false, 1).await.map_err(desk::database)?;
    Ok(rows.into_iter().next().map(Entry::Row))
}

async fn list(records: &Records, args: &List) -> Result<Exit, CliError> {
    let limit = args.limit.unwrap_or(LIMIT);
    let mut found = find(records, args.kind.as_deref(), args.all, limit.saturating_add(1)).await?;
    let shown = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = found.len() > shown;
    found.truncate(shown);
    if args.json {
        output::json(&found.iter().map(Entry::json).collect::<Vec<_>>())?;
    } else if found.is_empty() {
        output::text("no dead letters")?;
    } else {
        output::text(&found.iter().map(Entry::line).collect::<String>())?;
    }
    if more {
        output::note(&format!("only the first {limit} are shown: raise --limit"))?;
    }
    Ok(Exit::Done)
}

async fn show(records: &Records, args: &Show) -> Result<Exit, CliError> {
    let Some(entry) = one(records, args.id).await? else { return Err(desk::unknown("dead letter", args.id)) };
    if args.json {
        output::json(&entry.json())?;
        return Ok(Exit::Done);
    }
    let mut text = entry.line();
    match &entry {
        Entry::Letter(record) => {
            text.push_str(&format!("message     {}\n", one_line(&record.message_id)));
            for (name, value) in &record.attributes {
                text.push_str(&format!(
                    "attribute   {} = {}\n",
                    one_line(name),
                    bounded(one_line(value), 100)
                ));
            }
            text.push_str(&format!("sha256      {}\n", record.payload_sha256));
            let payload = String::from_utf8_lossy(&record.payload);
            text.push_str(&format!(
                "payload     {} bytes: {}\n",
                record.payload.len(),
                bounded(one_line(&payload), 400)
            ));
            let told = record.alerted_at.map_or("nobody yet".to_owned(), at);
            text.push_str(&format!("alerted     {told}\n"));
            if let Some(closed) = &record.closed {
                text.push_str(&format!(
                    "closed      {} by {}: {}\n",
                    at(closed.at),
                    one_line(&closed.actor),
                    one_line(&closed.reason)
                ));
            }
        }
        Entry::Row(row) => {
            text.push_str(&format!("the submission itself is the record: maple-router explain {}\n", row.id));
        }
    }
    output::text(&text)?;
    Ok(Exit::Done)
}

/// Redrive and discard: the same choice, another end.
async fn close(
    ctx: &Context,
    desk: &Desk,
    records: &Records,
    args: &Close,
    how: Closing,
) -> Result<Exit, CliError> {
    let actor = operator::actor(&ctx.env);
    let ids: Vec<Uuid> = match &args.kind {
        Some(kind) => {
            let found = find(records, Some(kind), false, args.limit.unwrap_or(LIMIT)).await?;
            found.iter().map(Entry::id).collect()
        }
        None => bulk::each_once(args.ids.clone()),
    };
    let closer = Closer { desk, records, actor: &actor, args, how };
    let mut report = Report::new("left as it is", ids.len(), args.dry_run);
    let mut announcer = Announcer::of(&desk.config);
    let progress = output::Progress::of(ids.len());
    for (done, id) in ids.iter().enumerate() {
        match closer.close(*id, &mut announcer).await? {
            Ok(announced) => report.changed.push(Changed::closed(*id, announced)),
            Err(why) => report.skip(*id, why),
        }
        progress.at(done + 1);
    }
    progress.end();
    report.tell(args.json)?;
    Ok(report.exit(true))
}

struct Closer<'a> {
    desk: &'a Desk,
    records: &'a Records,
    actor: &'a str,
    args: &'a Close,
    how: Closing,
}

impl Closer<'_> {
    /// Closes one: how it was announced, or why it stays as it is.
    async fn close(
        &self,
        id: Uuid,
        announcer: &mut Announcer<'_>,
    ) -> Result<Result<Option<Announced>, String>, CliError> {
        match one(self.records, id).await? {
            None => Ok(Err("there is no such dead letter".to_owned())),
            Some(Entry::Row(row)) => self.close_row(&row).await,
            Some(Entry::Letter(record)) if record.closed.is_some() => {
                Ok(Err("it is closed already".to_owned()))
            }
            Some(Entry::Letter(_)) if self.args.dry_run => Ok(Ok(None)),
            Some(Entry::Letter(record)) => self.close_letter(*record, announcer).await,
        }
    }

    async fn close_letter(
        &self,
        record: Record,
        announcer: &mut Announcer<'_>,
    ) -> Result<Result<Option<Announced>, String>, CliError> {
        let (id, submission_id) = (record.id, record.submission_id);
        let announced = match self.how {
            Closing::Discarded => None,
            Closing::Redriven => {
                match announcer.again(self.desk, &record, (self.actor, &self.args.reason)).await? {
                    Again::Announced(announced) => Some(announced),
                    Again::Refused(why) => return Ok(Err(why)),
                    Again::Closed(announced) => {
                        self.told(id, submission_id);
                        return Ok(Ok(Some(announced)));
                    }
                }
            }
        };
        if !self.records.close(id, self.how, self.actor, &self.args.reason).await.map_err(fault)? {
            return Ok(Err("it was closed by somebody else meanwhile".to_owned()));
        }
        self.told(id, submission_id);
        Ok(Ok(announced))
    }

    /// A failed row: replayed, or noted as not needed.
    async fn close_row(&self, row: &ExhaustedRow) -> Result<Result<Option<Announced>, String>, CliError> {
        match self.how {
            Closing::Redriven => {
                let asked = Asked {
                    actor: self.actor,
                    verb: "dlq redrive",
                    reason: &self.args.reason,
                    options: ReplayOptions::default(),
                    dry_run: self.args.dry_run,
                };
                let (report, broken) = asked.replay(self.desk, &[row.id], Vec::new()).await?;
                match broken {
                    Some(error) => Err(desk::database(error)),
                    None => Ok(report.only().map(|changed| changed.announced)),
                }
            }
            Closing::Discarded if self.args.dry_run => Ok(Ok(None)),
            Closing::Discarded => {
                let more = json!({"for": row.token});
                let reason = Some(self.args.reason.as_str());
                let note = Override { actor: self.actor, verb: DISCARD, reason, more: &more };
                self.desk.seams().note(row.id, note).await.map_err(desk::database)?;
                self.told(row.id, Some(row.id));
                Ok(Ok(None))
            }
        }
    }

    fn told(&self, id: Uuid, submission_id: Option<Uuid>) {
        journal!(
            warn,
            EventName::Override,
            submission_id = submission_id.map(tracing::field::display),
            dead_letter = %id,
            actor = self.actor,
            verb = match self.how {
                Closing::Redriven => "dlq redrive",
                Closing::Discarded => DISCARD,
            },
            reason = self.args.reason,
            "an operator closed a dead letter"
        );
    }
}

fn fault(error: RecordError) -> CliError {
    match error {
        RecordError::Database(error) => match error.kind() {
            DbErrorKind::Contract => CliError::new(Exit::BadConfig, error)
                .remedy("as the owner: maple-router migrate --router; `maple-router check` tells more"),
            DbErrorKind::Unreachable | DbErrorKind::Busy | DbErrorKind::Bug => desk::database(error),
        },
        error @ RecordError::File { .. } => CliError::new(Exit::FoundWanting, error),
    }
}
