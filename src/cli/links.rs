//! `links`: fresh signed URLs for the attachments of a submission. Recorded, since a URL gives access.
//!
//! Recorded first, shown second: if we die in between, the record says more than was given, never less. Attachments
//! that are not clean are refused by name.

mod revoke;

use clap::Subcommand;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::id::{self, IdArg};
use super::setup::{self, Setup};
use super::{CliError, Context, Exit, operator, output};
use crate::gateway::signed_url::SignError;
use crate::journal;
use crate::ops::telemetry::EventName;
use crate::parts;
use crate::ports::LinkRequest;
use crate::routing::compose::{clean_file_name, link_ttl};
use crate::routing::explain::at;
use crate::routing::store::overrides::{Noted, Override};
use crate::routing::store::view::Scan;
use crate::routing::submission::content::{Attachment, SubmissionContent};
use crate::routing::submission::text::one_line;
use crate::routing::table::Status;

/// Links signed at once.
const AT_ONCE: usize = 8;

/// Arguments of `links`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Args {
    /// Submission id, or its beginning
    #[arg(value_name = "ID", required = true, value_parser = id::parse)]
    id: Option<IdArg>,
    /// A JSON array
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make every mailed link of a submission answer 404; the files stay
    Revoke(revoke::Args),
}

/// One link (interfaces page, `links`). Has no `Debug`: anybody with the URL can read the object.
#[derive(Serialize)]
struct Link {
    attachment_id: Uuid,
    file_name: String,
    url: String,
    valid_until: Timestamp,
}

/// Makes links, or makes them worthless.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    match (args.verb, args.id) {
        (Some(Verb::Revoke(revoke)), _) => revoke::run(ctx, revoke).await,
        (None, Some(id)) => made(ctx, &id, args.json).await,
        (None, None) => Err(CliError::new(Exit::Usage, anyhow::anyhow!("no submission is named"))),
    }
}

/// Prints the URLs.
async fn made(ctx: &Context, id: &IdArg, json: bool) -> Result<Exit, CliError> {
    let setup = Setup::open(ctx)?;
    let id = setup.submission(id).await?;
    let view = setup.look(id).await?;
    if view.status == Status::Purged {
        let purged = anyhow::anyhow!("{id} is purged: its attachments were removed");
        return Err(CliError::new(Exit::FoundWanting, purged));
    }
    let content = setup.store()?.content(id).await.map_err(setup::database)?;
    let Some(content) = content else { return Err(setup::unknown("submission", id)) };
    let (wanted, mut refused) = sort_out(&content, &view.attachments, setup.config.signed_url.ttl);
    let signer = parts::signer(&setup.config).map_err(setup::part)?;
    let requests: Vec<LinkRequest> = wanted.iter().map(|(_, request)| request.clone()).collect();
    let mut links = Vec::new();
    for ((attachment, request), signed) in wanted.into_iter().zip(signer.sign_all(&requests, AT_ONCE).await) {
        match signed {
            Ok(link) => links.push(Link {
                attachment_id: attachment.id,
                file_name: request.file_name,
                url: link.url,
                valid_until: link.valid_until,
            }),
            Err(SignError::UnsignableObject { why, .. }) => refused.push(refusal(attachment, &why)),
            Err(error) => {
                let remedy = error.remedy();
                return Err(CliError::new(
                    Exit::Unavailable,
                    anyhow::anyhow!(error.detail()).context("no link can be signed"),
                )
                .remedy(remedy));
            }
        }
    }
    if !links.is_empty() {
        record(ctx, &setup, id, &view.form_id, links.len()).await?;
    }
    if json {
        output::json(&links)?;
    } else if links.is_empty() && refused.is_empty() {
        output::text("it has no attachments")?;
    } else {
        for link in &links {
            output::text(&format!(
                "{}  {}\n  {}\n  valid until at the latest {}",
                link.attachment_id,
                link.file_name,
                link.url,
                at(link.valid_until)
            ))?;
        }
    }
    for line in &refused {
        output::note(line)?;
    }
    Ok(if refused.is_empty() { Exit::Done } else { Exit::FoundWanting })
}

/// Attachments that can be linked, and why the rest cannot.
fn sort_out<'a>(
    content: &'a SubmissionContent,
    scans: &[Scan],
    ttl: std::time::Duration,
) -> (Vec<(&'a Attachment, LinkRequest)>, Vec<String>) {
    let ttl = link_ttl(ttl, content.retention_expires_at, content.now);
    let (mut wanted, mut refused) = (Vec::new(), Vec::new());
    for attachment in &content.attachments {
        let scan = scans.iter().find(|scan| scan.id == attachment.id);
        let status = scan.and_then(|scan| scan.clamav_status.as_deref()).unwrap_or("unknown");
        if !scan.is_some_and(Scan::is_clean) {
            refused.push(refusal(attachment, &format!("it is not clean ({})", one_line(status))));
            continue;
        }
        match (ttl, &attachment.bucket, &attachment.object) {
            (Some(ttl), Some(bucket), Some(object)) => {
                let file_name = clean_file_name(attachment.file_name.as_deref().unwrap_or_default());
                let (bucket, object) = (bucket.clone(), object.clone());
                wanted.push((attachment, LinkRequest { bucket, object, file_name, ttl }));
            }
            (None, _, _) => refused.push(refusal(attachment, "its retention period has ended")),
            (Some(_), _, _) => refused.push(refusal(attachment, "where it is stored was not recorded")),
        }
    }
    (wanted, refused)
}

fn refusal(attachment: &Attachment, why: &str) -> String {
    let name = clean_file_name(attachment.file_name.as_deref().unwrap_or_default());
    format!("no link to {} \"{name}\": {why}", attachment.id)
}

/// Records who was given how many links, never which.
async fn record(ctx: &Context, setup: &Setup, id: Uuid, form_id: &str, links: usize) -> Result<(), CliError> {
    let actor = operator::actor(&ctx.env);
    let more = json!({"links": links});
    let note = Override { actor: &actor, verb: "links", reason: None, more: &more };
    let noted = setup.overrides().note(id, note).await.map_err(setup::database)?;
    journal!(
        warn,
        EventName::Override,
        submission_id = %id,
        form_id = form_id,
        actor = actor,
        verb = "links",
        links,
        "an operator was given signed URLs{}",
        match noted {
            Noted::InLedger => "",
            Noted::Nowhere => "; its ledger cannot be read, so only this line records it",
        }
    );
    Ok(())
}
