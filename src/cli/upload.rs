//! `upload FILE`: brings a file through the API, as any client does: in parts, with their digests, resumed after any interruption.
//!
//! The key of the request follows from the file's bytes, its name, owner and form: whoever repeats the command, after Ctrl-C or a kill,
//! goes on with the parts that are missing, and the same file again sends nothing.

mod client;
mod file;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use uuid::Uuid;

use self::client::{Client, Shown};
use self::file::Read;
use super::{CliError, Context, Exit, output};
use crate::config::Config;
use crate::parts;

/// Sessions of one file that are tried one after the other, where the earlier ones have come to nothing.
const SESSIONS: u32 = 20;

/// Arguments of `upload`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The form that it is for
    #[arg(long, value_name = "FORM")]
    form: String,
    /// Whoever brings it
    #[arg(long, value_name = "OWNER")]
    owner: String,
    /// Its media type
    #[arg(long, value_name = "TYPE", default_value = "application/pdf")]
    content_type: String,
    /// The name that its readers see [default: the file's own]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Make it an attachment of this submission
    #[arg(long, value_name = "SUBMISSION_ID")]
    submission: Option<Uuid>,
    /// Address of the API [default: uploads.listen]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Parts sent at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=32))]
    parallel: u16,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Brings the file.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let config = ctx.config()?.config;
    let key = config
        .uploads_key()
        .map_err(|error| CliError::new(Exit::BadConfig, anyhow::Error::from(error)))?
        .ok_or_else(|| {
            CliError::new(Exit::BadConfig, anyhow::anyhow!("the backend's key is missing")).remedy(
                "name uploads.key_file, or run it with sudo: /etc/maple-router/credentials/uploads-key",
            )
        })?;
    parts::uploads_key(&config).map_err(super::setup::part)?;
    let read = Read::of(&args.file, args.name.as_deref())
        .await
        .map_err(|error| CliError::new(Exit::Usage, anyhow::anyhow!("{}: {error}", args.file.display())))?;
    let client = Client::new(&address(&config, args.url.as_deref())?, key.secret.expose())?;
    let (shown, sent) = brought(&client, &read, &args).await?;
    let attachment = match args.submission {
        Some(submission) if shown.state == "committed" => Some(client.attach(shown.id, submission).await?),
        _ => None,
    };
    let document = json!({
        "id": shown.id, "state": shown.state, "verdict": shown.verdict, "deduplicated": shown.deduplicated, "sha256": read.sha256,
        "bytes_sent": sent, "attachment": attachment,
    });
    let line = format!(
        "upload {} is {}: {sent} of {} bytes were sent{}; scanner: {}{}\n",
        shown.id,
        shown.state,
        read.length,
        if shown.deduplicated { ", the same file was there" } else { "" },
        shown.verdict.as_deref().unwrap_or("nothing yet"),
        attachment.map(|id| format!("; attachment {id}")).unwrap_or_default()
    );
    output::either(args.json, &document, || line)?;
    Ok(if shown.verdict.as_deref() == Some("infected") { Exit::FoundWanting } else { Exit::Done })
}

fn address(config: &Config, given: Option<&str>) -> Result<String, CliError> {
    let listen = || config.uploads.listen.as_ref().map(|listen| format!("http://{listen}"));
    given.map(str::to_owned).or_else(listen).ok_or_else(|| {
        CliError::new(Exit::BadConfig, anyhow::anyhow!("no address of the API is configured"))
            .remedy("set uploads.listen, or name it with --url")
    })
}

/// Brings the file in the first session that does not come to nothing. Returns the bytes that were sent.
async fn brought(client: &Client, read: &Read, args: &Args) -> Result<(Shown, u64), CliError> {
    let mut sent = 0;
    for session in 0..SESSIONS {
        let key = read.key(&args.owner, &args.form, session);
        let made = client.create(&key, read, &args.owner, &args.form, &args.content_type).await?;
        let client = client.with_token(&made.token);
        let shown = client.show(made.id, Duration::ZERO).await?;
        if shown.state == "aborted" {
            // An earlier call's, expired or given up since.
            continue;
        }
        let progress = output::Progress::of(usize::try_from(read.length).unwrap_or(usize::MAX));
        let done = client.bring(&shown, read, usize::from(args.parallel), |now| {
            progress.at(usize::try_from(now).unwrap_or(usize::MAX));
        });
        let done = done.await;
        progress.end();
        let (shown, more) = done?;
        sent += more;
        if shown.state == "aborted" {
            let why = shown
                .problem
                .as_ref()
                .and_then(|problem| problem.get("detail")?.as_str())
                .unwrap_or("it has ended");
            return Err(CliError::new(
                Exit::FoundWanting,
                anyhow::anyhow!("upload {} came to nothing: {why}", shown.id),
            ));
        }
        return Ok((shown, sent));
    }
    Err(CliError::new(
        Exit::FoundWanting,
        anyhow::anyhow!("{SESSIONS} uploads of this file have come to nothing"),
    )
    .remedy("maple-router uploads list --ended"))
}
