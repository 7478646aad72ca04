//! `links revoke`: every mailed link to a submission's files answers 404 from then on, while the files stay under another name. Whoever
//! needs one has `links` make it anew.
//!
//! Recorded first, then done, file by file; what is not done is done by the command again, or by the collector's next run.

use clap::builder::NonEmptyStringValueParser;
use serde_json::json;

use super::super::gc::{CollectorUrl, Office};
use super::super::id::{self, IdArg};
use super::super::setup::{self, Setup};
use super::super::{CliError, Context, Exit, operator, output};
use crate::retention::journal;
use crate::retention::recall::Recaller;
use crate::routing::store::overrides::Override;
use crate::routing::table::Status;
use crate::scrub::scrub;

/// Arguments of `links revoke`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Submission id, or its beginning
    #[arg(value_name = "ID", value_parser = id::parse)]
    id: IdArg,
    /// Why; recorded
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    reason: String,
    #[command(flatten)]
    collector: CollectorUrl,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Recalls the links of a submission.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let setup = Setup::open(ctx)?;
    let id = setup.submission(&args.id).await?;
    let view = setup.look(id).await?;
    if view.status == Status::Purged {
        let purged =
            anyhow::anyhow!("{id} is purged: its attachments were removed, and no link to them works");
        return Err(CliError::new(Exit::FoundWanting, purged));
    }
    let office = Office::open(ctx, &args.collector).await?;
    let recaller = Recaller { store: office.store.clone(), objects: office.objects()? };
    let (actor, reason) = (operator::actor(&ctx.env), args.reason.as_str());
    let recalls = office.store.plan_recalls(id, reason, &actor).await.map_err(setup::database)?;
    if recalls.is_empty() {
        output::either(args.json, &json!({"revoked": 0, "failed": []}), || {
            "it has no attachments\n".to_owned()
        })?;
        return Ok(Exit::Done);
    }
    let more = json!({"files": recalls.len()});
    let note = Override { actor: &actor, verb: "links revoke", reason: Some(reason), more: &more };
    setup.overrides().note(id, note).await.map_err(setup::database)?;
    let (mut revoked, mut others, mut failed, mut again) = (0_usize, 0_i64, Vec::new(), false);
    for recall in recalls {
        let blob = recall.blob;
        match recaller.carry_out(recall).await {
            Ok(attachments) => {
                revoked += 1;
                others += (attachments - 1).max(0);
            }
            Err(error) => {
                again |= error.is_tried_again();
                failed.push((blob, scrub(&error.to_string())));
            }
        }
    }
    journal::links_revoked(id, &view.form_id, revoked, &actor, reason);
    let still: Vec<_> = failed.iter().map(|(blob, why)| json!({"blob": blob, "why": why})).collect();
    output::either(args.json, &json!({"revoked": revoked, "failed": still}), || {
        let mut text = format!(
            "{revoked} files: every link that was mailed answers 404 from now on; the files stay, under other names\n"
        );
        if others > 0 {
            text.push_str(&format!(
                "{others} attachments of other submissions are the same files: their links are dead as well\n"
            ));
        }
        for (blob, why) in &failed {
            text.push_str(&format!("blob {blob}: not done: {why}\n"));
        }
        if failed.is_empty() {
            text.push_str(&format!("a new link, where the file is clean: maple-router links {id}\n"));
        } else if again {
            text.push_str("the same command again, or the next run of the collector, goes on from there\n");
        }
        text
    })?;
    Ok(match (failed.is_empty(), again) {
        (true, _) => Exit::Done,
        (false, true) => Exit::Unavailable,
        (false, false) => Exit::FoundWanting,
    })
}
