//! `publish`: a routing event for each submission named.
//!
//! An event only says "look at this submission"; one too many changes nothing. Dying in the middle leaves some
//! published, and doing it again is harmless. Writes nothing to the database; where that answers, it is asked whether the
//! submissions exist.

use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use uuid::Uuid;

use super::{CliError, Context, Exit, output};
use crate::config::Config;
use crate::gateway::pubsub::publisher::{PublishError, PubsubPublisher};
use crate::ops::clock::SystemClock;
use crate::parts;
use crate::routing::event::{Reason, RoutingEvent, encode};

/// Submissions looked up, and events published, at once.
const AT_ONCE: usize = 64;
/// Connections to the database: this is a glance, not a job.
const CONNECTIONS: usize = 2;
/// Patience with the database: the events do not depend on it.
const GLANCE: Duration = Duration::from_secs(10);

const UNKNOWN: &str = "the database has no such submission: the event will end as a dead letter";

/// Arguments of `publish`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Submission ids
    #[arg(required = true, value_name = "ID")]
    pub(super) ids: Vec<Uuid>,
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
    /// What to know about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<&'static str>,
}

/// A submission without an event.
#[derive(Debug, Serialize)]
struct Skipped {
    id: Uuid,
    why: String,
}

/// As every bulk verb tells it.
#[derive(Debug, Serialize)]
struct Report {
    /// Submissions named, each once.
    matched: usize,
    /// Events published; those that would be, in a dry run.
    changed: Vec<Published>,
    /// Submissions for which none was.
    skipped: Vec<Skipped>,
    /// Nothing was published.
    dry_run: bool,
    /// What concerns all of them.
    warnings: Vec<String>,
}

/// Publishes the events.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let loaded = ctx.config()?;
    let settings = parts::pubsub(&loaded.config)?;
    let mut seen = BTreeSet::new();
    let ids: Vec<Uuid> = args.ids.into_iter().filter(|id| seen.insert(*id)).collect();
    let mut warnings = Vec::new();
    let forms = forms_of(&loaded.config, &ids).await.unwrap_or_else(|why| {
        warnings.push(format!("whether the submissions exist is not known: {why}"));
        HashMap::new()
    });
    let mut report = Report {
        matched: ids.len(),
        changed: Vec::new(),
        skipped: Vec::new(),
        dry_run: args.dry_run,
        warnings,
    };
    let mut first_error = None;
    let publisher = if args.dry_run { None } else { Some(PubsubPublisher::open(&settings).await?) };
    let publishing: Vec<_> = ids.iter().map(|id| publish(publisher.as_ref(), *id, &forms)).collect();
    let mut publishing = futures::stream::iter(publishing).buffered(AT_ONCE);
    while let Some((id, answer)) = publishing.next().await {
        let warning = matches!(forms.get(&id), Some(None)).then_some(UNKNOWN);
        match answer {
            Ok(message_id) => report.changed.push(Published { id, message_id, warning }),
            Err(error) => {
                report.skipped.push(Skipped { id, why: error.to_string() });
                first_error.get_or_insert(error);
            }
        }
    }
    tell(&report, args.json)?;
    // Told in the report already; the code is what remains to be said.
    match first_error {
        Some(error) => Err(CliError::from(error)),
        None => Ok(Exit::Done),
    }
}

async fn publish(
    publisher: Option<&PubsubPublisher>,
    id: Uuid,
    forms: &HashMap<Uuid, Option<String>>,
) -> (Uuid, Result<Option<String>, PublishError>) {
    let Some(publisher) = publisher else { return (id, Ok(None)) };
    let form_id = forms.get(&id).cloned().flatten();
    let (attributes, data) = encode(&RoutingEvent { submission_id: id, form_id, reason: Reason::Operator });
    (id, publisher.publish(attributes, data).await.map(Some))
}

/// The form of each submission; `None` for one that does not exist. The error is why the database cannot tell.
async fn forms_of(config: &Config, ids: &[Uuid]) -> Result<HashMap<Uuid, Option<String>>, String> {
    let mut config = config.clone();
    config.database.max_connections = CONNECTIONS;
    let looking = async {
        let pool = parts::pool(&config, Arc::new(SystemClock)).map_err(|error| error.to_string())?;
        let store = parts::store(&config, pool).map_err(|error| error.to_string())?;
        let looks: Vec<_> = ids
            .iter()
            .map(|id| async { Ok((*id, store.dossier(*id).await?.map(|dossier| dossier.form_id))) })
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

fn tell(report: &Report, json: bool) -> Result<(), CliError> {
    if json {
        return output::json(report);
    }
    let mut text = String::new();
    let mut err = std::io::stderr().lock();
    for warning in &report.warnings {
        writeln!(err, "warning: {warning}")?;
    }
    for published in &report.changed {
        let id = published.id;
        match &published.message_id {
            Some(message_id) => text.push_str(&format!("{id}: published as message {message_id}\n")),
            None => text.push_str(&format!("{id}: would be published\n")),
        }
        if let Some(warning) = published.warning {
            writeln!(err, "warning: {id}: {warning}")?;
        }
    }
    for skipped in &report.skipped {
        text.push_str(&format!("{}: not published: {}\n", skipped.id, skipped.why));
    }
    let (changed, skipped) = (report.changed.len(), report.skipped.len());
    text.push_str(&format!("{} matched, {changed} changed, {skipped} skipped\n", report.matched));
    output::text(&text)
}
