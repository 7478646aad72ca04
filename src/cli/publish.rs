//! `publish`: announces each submission named, by an event where events announce them.
//!
//! An event only says "look at this submission"; one too many changes nothing. If we die in the middle, some are
//! published, and doing it again is harmless. Changes no submission; where the database answers, it is asked
//! whether they exist, and an id it does not have is refused.

use std::collections::HashMap;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use uuid::Uuid;

use super::announce::{Announced, Way};
use super::bulk::{self, BulkItem, Report};
use super::id::{self, IdArg};
use super::setup::Setup;
use super::{CliError, Context, Exit, output};
use crate::config::{Config, SourceKind};
use crate::parts;
use crate::routing::event::Reason;

/// Submissions looked up, and events published, at once.
const AT_ONCE: usize = 64;
/// Connections to the database: a look needs few.
const CONNECTIONS: usize = 2;
/// Limit of the wait for the database: the events do not depend on it.
const GLANCE: Duration = Duration::from_secs(10);

const UNKNOWN: &str = "the database has no such submission: the event will end as a dead letter";
const REFUSED: &str = "the database has no such submission: its event would end as a dead letter (--force publishes it \
                       all the same)";

/// Arguments of `publish`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Submission ids, or their beginnings
    #[arg(required = true, value_name = "ID", value_parser = id::parse)]
    pub(super) ids: Vec<IdArg>,
    /// Publish also for ids that the database does not have; such an event ends as a dead letter
    #[arg(long)]
    pub(super) force: bool,
    /// Only tell what would be published
    #[arg(long)]
    pub(super) dry_run: bool,
    /// One JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// One event.
#[derive(Debug, Serialize)]
struct Published {
    /// The submission.
    id: Uuid,
    /// Id of the message; absent in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
    /// The announcement.
    #[serde(skip)]
    announced: Option<Announced>,
    /// A warning about the submission.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<&'static str>,
}

impl BulkItem for Published {
    fn warning(&self) -> Option<&str> {
        self.warning
    }

    fn id(&self) -> Uuid {
        self.id
    }

    fn words(&self, _dry_run: bool) -> String {
        self.announced.as_ref().map_or_else(|| "would be published".to_owned(), Announced::words)
    }
}

/// Publishes the events.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let loaded = ctx.config()?;
    let ids = bulk::each_once(Setup::open(ctx)?.submissions(&args.ids).await?);
    let mut warnings = Vec::new();
    let forms = forms_of(&loaded.config, &ids).await.unwrap_or_else(|why| {
        warnings.push(format!("whether the submissions exist is not known: {why}"));
        HashMap::new()
    });
    let mut report = Report::new("not published", ids.len(), args.dry_run).warned(warnings);
    let progress = output::Progress::of(ids.len());
    let mut first_error = None;
    // With PostgreSQL only the database knows whether there is an outbox.
    let opened = !args.dry_run || loaded.config.source.kind == SourceKind::Postgres;
    let way = if opened { Some(Way::open(&loaded.config).await?) } else { None };
    let is_unknown = |id: &Uuid| matches!(forms.get(id), Some(None));
    let (refused, ids): (Vec<Uuid>, Vec<Uuid>) =
        ids.into_iter().partition(|id| is_unknown(id) && !args.force);
    for id in &refused {
        report.skip(*id, REFUSED);
    }
    let publishing: Vec<_> = ids.iter().map(|id| publish(way.as_ref(), *id, &forms, args.dry_run)).collect();
    let mut publishing = futures::stream::iter(publishing).buffered(AT_ONCE);
    while let Some((id, answer)) = publishing.next().await {
        let warning = is_unknown(&id).then_some(UNKNOWN);
        match answer {
            Ok(announced) => {
                let message_id = announced.as_ref().map(Announced::message_id).map(str::to_owned);
                report.changed.push(Published { id, message_id, announced, warning });
            }
            Err(error) => {
                report.skip(id, format!("{error:#}"));
                first_error.get_or_insert(error);
            }
        }
        progress.at(report.done());
    }
    progress.end();
    report.tell(args.json)?;
    // The report has said it already; only the exit code is left.
    match first_error {
        Some(error) => Err(CliError::from(error)),
        None if refused.is_empty() => Ok(Exit::Done),
        None => Ok(Exit::FoundWanting),
    }
}

async fn publish(
    way: Option<&Way>,
    id: Uuid,
    forms: &HashMap<Uuid, Option<String>>,
    dry_run: bool,
) -> (Uuid, anyhow::Result<Option<Announced>>) {
    match way {
        Some(way) if !dry_run => {
            let form_id = forms.get(&id).and_then(Option::as_deref);
            (id, way.announce(id, form_id, Reason::Operator).await.map(Some))
        }
        Some(_) | None => (id, Ok(None)),
    }
}

/// The form of each submission; `None` for one that does not exist. The error: why the database does not answer.
async fn forms_of(config: &Config, ids: &[Uuid]) -> Result<HashMap<Uuid, Option<String>>, String> {
    let mut config = config.clone();
    config.database.max_connections = CONNECTIONS;
    let looking = async {
        let pool = parts::verbs_pool(&config).map_err(|error| error.to_string())?;
        let store = parts::store(&config, pool).map_err(|error| error.to_string())?;
        let looks: Vec<_> = ids
            .iter()
            .map(|id| async { Ok((*id, store.content(*id).await?.map(|content| content.form_id))) })
            .collect();
        let found: Result<_, crate::db::DbError> =
            futures::stream::iter(looks).buffered(CONNECTIONS).try_collect().await;
        found.map_err(|error| error.to_string())
    };
    match tokio::time::timeout(GLANCE, looking).await {
        Ok(found) => found,
        Err(_) => Err("the database did not answer in time".to_owned()),
    }
}
