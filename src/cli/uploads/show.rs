//! `uploads show ID`.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{store, unknown};
use crate::cli::setup::{self, Setup};
use crate::cli::{CliError, Context, Exit, output};
use crate::kernel::rows::Recorded;
use crate::routing::explain::at;
use crate::uploads::problem::Problem;
use crate::uploads::store::{Blob, Seen, Verdict};
use crate::uploads::table::State;

/// Arguments of `uploads show`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The upload
    #[arg(value_name = "UPLOAD_ID")]
    id: Uuid,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Prints everything about an upload.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let setup = Setup::open(ctx)?;
    let store = store(&setup);
    let seen = store.get(args.id).await.map_err(setup::database)?.ok_or_else(|| unknown(args.id))?;
    let mut history = store.history(args.id).await.map_err(setup::database)?;
    // A session is told from its beginning.
    history.reverse();
    let blob = match seen.row.columns.blob_id {
        Some(id) => store.blob(id).await.map_err(setup::database)?,
        None => None,
    };
    if args.json {
        output::json(&document(&seen, blob.as_ref(), &history))?;
    } else {
        output::text(&text(&seen, blob.as_ref(), &history))?;
    }
    Ok(Exit::Done)
}

fn document(seen: &Seen, blob: Option<&Blob>, history: &[Recorded]) -> Value {
    let (row, session) = (&seen.row, &seen.row.columns);
    json!({
        "id": row.id, "state": row.state, "form": session.form_id, "owner": session.owner.0, "file_name": session.file_name.0,
        "content_type": session.content_type, "length": session.length, "sha256": session.sha256, "parts": session.parts(),
        "part_size": session.part_size, "submission": session.submission_id, "deduplicated": session.deduplicated,
        "problem": session.problem, "blob": blob, "claims": row.claims, "created_at": session.created_at,
        "expires_at": session.expires_at, "ended_at": session.ended_at, "history": history, "next": next(seen, blob),
    })
}

/// What happens next, or what to do.
fn next(seen: &Seen, blob: Option<&Blob>) -> String {
    let (row, session) = (&seen.row, &seen.row.columns);
    match row.state {
        State::Initiated | State::PartsUploading => {
            format!("the client sends its parts; at {} the session ends by itself", at(session.expires_at))
        }
        State::PendingCommit if row.token.is_some() => "a daemon reads, compares and scans it".to_owned(),
        State::PendingCommit => {
            "a daemon will read, compare and scan it; `journalctl -u maple-router EVENT=upload_waits` says what it waits for".to_owned()
        }
        State::Aborted => match &session.problem {
            Some(kept) => format!("nothing: {}", Problem::of_kept(kept).detail()),
            None => "nothing".to_owned(),
        },
        State::Committed => match blob.map(|blob| blob.verdict) {
            Some(Verdict::Unscanned) => "the scanner is asked again; until then its submission waits".to_owned(),
            Some(Verdict::Unscannable) => {
                "the scanner cannot judge it: look at it, then `maple-router mark-attachment` on its attachment (rb-011)".to_owned()
            }
            Some(Verdict::Infected) => "its submission fails (rb-008)".to_owned(),
            Some(Verdict::Clean) if session.submission_id.is_none() => {
                "a submission attaches it, or its reference ends".to_owned()
            }
            _ => "nothing: it is an attachment".to_owned(),
        },
    }
}

fn text(seen: &Seen, blob: Option<&Blob>, history: &[Recorded]) -> String {
    let (row, session) = (&seen.row, &seen.row.columns);
    let mut text = format!(
        "upload {} is {}\n  form        {}\n  file        {} ({}, {} bytes in {} parts)\n",
        row.id,
        row.state,
        session.form_id,
        session.file_name.0,
        session.content_type,
        session.length,
        session.parts()
    );
    let mut line = |name: &str, what: String| text.push_str(&format!("  {name:<11} {what}\n"));
    if let Some(sha256) = &session.sha256 {
        line("sha256", sha256.clone());
    }
    if let Some(submission) = session.submission_id {
        line("submission", submission.to_string());
    }
    if let Some(blob) = blob {
        let named = blob.signature.as_deref().map(|named| format!(" ({named})")).unwrap_or_default();
        let by = blob.scanner.as_deref().map(|by| format!(", {by}")).unwrap_or_default();
        line("blob", format!("{}{}", blob.id, if session.deduplicated { ", there before" } else { "" }));
        line("verdict", format!("{}{named}{by}", blob.verdict));
        line("attachments", blob.attachments.to_string());
    }
    line("next", next(seen, blob));
    text.push_str("history\n");
    for moved in history {
        let why = moved.reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        let (at, command, actor) = (at(moved.at), &moved.command, &moved.actor);
        text.push_str(&format!("  {at}  {command} {} -> {} by {actor}{why}\n", moved.from, moved.to));
    }
    text
}
