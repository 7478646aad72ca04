//! `uploads list`.

use serde_json::{Value, json};

use super::store;
use crate::cli::layout::{Side, Table};
use crate::cli::setup::{self, Setup};
use crate::cli::{CliError, Context, Exit, output};
use crate::uploads::store::Seen;
use crate::uploads::table::State;

/// Arguments of `uploads list`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Uploads that have come to their end, the latest first
    #[arg(long)]
    ended: bool,
    /// Only in this state
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Option<State>,
    /// Only of this form
    #[arg(long, value_name = "FORM")]
    form: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// A JSON array
    #[arg(long)]
    json: bool,
}

fn state(text: &str) -> Result<State, String> {
    let known: Vec<&str> = State::ALL.iter().map(|state| state.label()).collect();
    State::parse(text).ok_or_else(|| format!("there is no such state; known are {}", known.join(", ")))
}

/// Prints the list.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let setup = Setup::open(ctx)?;
    let ended = args.ended || args.state.is_some_and(State::is_ended);
    let mut seen = store(&setup)
        .list(ended, args.state, args.form.as_deref(), args.limit + 1)
        .await
        .map_err(setup::database)?;
    let more = seen.len() > args.limit;
    seen.truncate(args.limit);
    if args.json {
        output::json(&seen.iter().map(document).collect::<Vec<_>>())?;
    } else if seen.is_empty() {
        output::text(if ended { "no upload has ended\n" } else { "no upload is open\n" })?;
    } else {
        output::text(&text(&seen))?;
    }
    if more {
        output::note(&format!("only the first {} are shown: narrow it down, or raise --limit", args.limit))?;
    }
    Ok(Exit::Done)
}

fn document(seen: &Seen) -> Value {
    let (row, session) = (&seen.row, &seen.row.columns);
    json!({
        "id": row.id, "state": row.state, "form": session.form_id, "file_name": session.file_name.0, "length": session.length,
        "deduplicated": session.deduplicated, "submission": session.submission_id, "blob": session.blob_id,
        "problem": session.problem, "claims": row.claims, "created_at": session.created_at, "expires_at": session.expires_at,
        "ended_at": session.ended_at,
    })
}

fn text(seen: &[Seen]) -> String {
    let columns = [
        ("UPLOAD", Side::Left),
        ("STATE", Side::Left),
        ("FORM", Side::Left),
        ("BYTES", Side::Right),
        ("WHEN", Side::Left),
    ];
    let mut table = Table::new(&columns);
    for seen in seen {
        let (row, session) = (&seen.row, &seen.row.columns);
        let when = match session.ended_at {
            Some(at) => format!("ended {}", crate::routing::explain::at(at)),
            None => format!("until {}", crate::routing::explain::at(session.expires_at)),
        };
        table.row(vec![
            row.id.to_string(),
            row.state.to_string(),
            session.form_id.clone(),
            session.length.to_string(),
            when,
        ]);
    }
    table.text(output::columns())
}
