//! `grading list`.

use super::Room;
use crate::cli::layout::{Side, Table};
use crate::cli::{CliError, Context, Exit, output, setup};
use crate::grading::store::views::{AttemptView, ListFilter};
use crate::grading::table::State;
use crate::routing::explain::at;
use crate::routing::submission::text::one_line;

/// Arguments of `grading list`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only in this state, e.g. FAILED
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Option<State>,
    /// Only of this form
    #[arg(long, value_name = "FORM")]
    form: Option<String>,
    /// Only those of which a result came too late
    #[arg(long)]
    late: bool,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
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
    let filter = ListFilter {
        state: args.state,
        form: args.form,
        late: args.late,
        limit: args.limit.saturating_add(1),
    };
    let mut attempts = room.store.list(&filter).await.map_err(setup::database)?;
    let most = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let more = attempts.len() > most;
    attempts.truncate(most);
    output::either(args.json, &attempts, || {
        if attempts.is_empty() { "there is no such attempt\n".to_owned() } else { text(&attempts) }
    })?;
    if more {
        output::note(&format!("only the first {most} are shown: narrow it down, or raise --limit"))?;
    }
    Ok(Exit::Done)
}

fn text(attempts: &[AttemptView]) -> String {
    let columns = [
        ("SUBMISSION", Side::Left),
        ("ATTEMPT", Side::Right),
        ("STATE", Side::Left),
        ("SINCE", Side::Left),
        ("DEADLINE", Side::Left),
        ("FORM", Side::Left),
        ("SKILL", Side::Left),
        ("WHY", Side::Left),
    ];
    let mut table = Table::new(&columns);
    for AttemptView { state, attempt, .. } in attempts {
        let mut why: Vec<String> = attempt.failed_reason.iter().cloned().collect();
        why.extend(attempt.priority.map(|priority| format!("a person is wanted: {priority}")));
        why.extend(attempt.released_at.map(|_| "released".to_owned()));
        why.extend(attempt.closed_at.map(|_| "emptied".to_owned()));
        why.extend((!attempt.is_current).then(|| "another attempt followed".to_owned()));
        table.row(vec![
            attempt.subject.to_string(),
            attempt.attempt.to_string(),
            state.clone(),
            at(attempt.state_since),
            at(attempt.deadline),
            one_line(&attempt.form_id),
            attempt.skill.to_string(),
            why.join(", "),
        ]);
    }
    table.text(output::columns())
}
