//! `gc undelete`: a blob without a reference lives again, and is kept for a time, within which somebody refers to it.

use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use serde_json::json;
use uuid::Uuid;

use super::Office;
use crate::cli::{CliError, Exit, output, setup};
use crate::retention::journal;
use crate::retention::table::State;
use crate::routing::explain::at;

/// Arguments of `gc undelete`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The blob, as a receipt or `gc reconcile` names it
    #[arg(value_name = "BLOB")]
    blob: Uuid,
    /// Why; recorded
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    reason: String,
    /// Time for which it is kept without a reference [default: retention.grace]
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration)]
    span: Option<Duration>,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Takes a blob back.
pub(super) async fn run(office: &Office, args: &Args) -> Result<Exit, CliError> {
    let (store, blob) = (&office.store, args.blob);
    let Some((view, _, state)) = store.blob(blob).await.map_err(setup::database)? else {
        return Err(CliError::new(Exit::FoundWanting, anyhow::anyhow!("there is no blob {blob}"))
            .remedy("maple-router receipts show SUBMISSION names those of a submission"));
    };
    if state == State::Live {
        let line = format!("blob {blob} lives: {} references\n", view.references);
        output::either(args.json, &view, || line)?;
        return Ok(Exit::Done);
    }
    if state == State::Deleted {
        let remedy = match view.restorable_until {
            Some(until) => format!(
                "until {} the store can bring the object back: gcloud storage restore (rb-013)",
                at(until)
            ),
            None => "a backup of the bucket, if there is one (rb-013)".to_owned(),
        };
        return Err(CliError::new(
            Exit::FoundWanting,
            anyhow::anyhow!("blob {blob} is deleted, which is final"),
        )
        .remedy(remedy));
    }
    let span = args.span.unwrap_or(office.config.retention.grace);
    let until = store.undelete(blob, &office.actor, &args.reason, span).await.map_err(setup::database)?;
    let Some(until) = until else {
        return Err(CliError::new(Exit::FoundWanting, anyhow::anyhow!("blob {blob} is gone")));
    };
    journal::taken_back(blob, &office.actor, &args.reason);
    let document = json!({"blob": blob, "state": State::Live, "until": until});
    output::either(args.json, &document, || {
        format!(
            "blob {blob} lives again, and is kept until {}: by then something has to refer to it\n",
            at(until)
        )
    })?;
    Ok(Exit::Done)
}
