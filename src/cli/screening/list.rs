//! `screening list`.

use super::Room;
use crate::cli::layout::{Side, Table};
use crate::cli::{CliError, Context, Exit, output, setup};
use crate::routing::explain::at;
use crate::routing::submission::text::one_line;
use crate::screening::store::views::{Chosen, RunView};
use crate::screening::table::State;

/// Arguments of `screening list`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only in this state, e.g. NEEDS_REVIEW
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Option<State>,
    /// Only of this form
    #[arg(long, value_name = "FORM")]
    form: Option<String>,
    /// Only those whose job was given up on
    #[arg(long)]
    dead: bool,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// A JSON array
    #[arg(long)]
    json: bool,
}

fn state(text: &str) -> Result<State, String> {
    let known: Vec<&str> = State::ALL.iter().map(|state| state.label()).collect();
    State::parse(&text.to_ascii_uppercase())
        .ok_or_else(|| format!("there is no such state; known are {}", known.join(", ")))
}

/// Prints the list.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let room = Room::open(ctx).await?;
    if let Some(form) = &args.form {
        room.known_form(form).await?;
    }
    let chosen = Chosen { state: args.state, form: args.form, subject: None, dead: args.dead };
    let most = args.limit.saturating_add(1);
    let mut runs = room.store.list(&chosen, most).await.map_err(setup::database)?;
    let more = runs.len() > args.limit;
    runs.truncate(args.limit);
    output::either(args.json, &runs, || {
        if runs.is_empty() { "there is no such run\n".to_owned() } else { text(&runs) }
    })?;
    if more {
        output::note(&format!("only the first {} are shown: narrow it down, or raise --limit", args.limit))?;
    }
    Ok(Exit::Done)
}

fn text(runs: &[RunView]) -> String {
    let columns = [
        ("SUBMISSION", Side::Left),
        ("RUN", Side::Right),
        ("STATE", Side::Left),
        ("SINCE", Side::Left),
        ("FORM", Side::Left),
        ("SCORE", Side::Right),
        ("WHY", Side::Left),
    ];
    let mut table = Table::new(&columns);
    for RunView { state, run, .. } in runs {
        table.row(vec![
            run.subject.to_string(),
            run.run.to_string(),
            state.clone(),
            at(run.state_since),
            one_line(&run.form_id),
            run.score.map(|score| score.to_string()).unwrap_or_default(),
            why(run),
        ]);
    }
    table.text(output::columns())
}

/// What is worth knowing of a run beside its state, in words.
fn why(run: &crate::screening::run::Run) -> String {
    let mut words = Vec::new();
    if !run.is_current {
        words.push("another run took its place".to_owned());
    } else if run.closed_at.is_some() {
        words.push("closed without an end".to_owned());
    }
    if !run.is_enforced {
        words.push("in shadow".to_owned());
    }
    words.extend(run.dead_reason.iter().map(|reason| format!("given up on: {reason}")));
    words.extend(run.bars.iter().cloned());
    words.join(", ")
}
