//! `resume`: ends a pause. What it held up comes back by its event, or by the sweep. Answers when every daemon has heard of it.

use serde::Serialize;

use super::desk::Desk;
use super::pause::{Selector, Waiting, book, fault, filled, line, say};
use super::{CliError, Context, Exit, operator, output};
use crate::journal;
use crate::ops::clock::SystemClock;
use crate::ops::telemetry::EventName;
use crate::routing::pause::{Pause, Scope};
use crate::routing::presence::Standing;

/// Arguments of `resume`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    what: Selector,
    /// Every pause there is, whatever it is of
    #[arg(long, conflicts_with_all = ["form", "destination_domain"])]
    all: bool,
    /// Why; recorded
    #[arg(long, value_name = "TEXT", value_parser = filled)]
    reason: String,
    #[command(flatten)]
    waiting: Waiting,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    resumed: Vec<Pause>,
    /// Still in force.
    paused: Vec<Pause>,
    #[serde(flatten)]
    standing: Standing,
}

/// Resumes. Finding nothing to resume is found wanting: whoever typed it expected something.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let book = book(&Desk::open(ctx)?);
    let actor = operator::actor(&ctx.env);
    let scope = args.what.scope();
    let resumed = book.end((!args.all).then_some(&scope)).await.map_err(fault)?;
    for pause in &resumed {
        journal!(
            warn,
            EventName::Override,
            verb = "resume",
            scope = pause.scope.label(),
            value = pause.scope.value(),
            actor = actor,
            reason = args.reason,
            "resumed by {actor}: {}",
            pause.scope
        );
    }
    let paused: Vec<Pause> = book.read().await.map_err(fault)?.iter().cloned().collect();
    let found = !resumed.is_empty();
    // Where nothing has changed nobody has to hear of it.
    let heard = if found {
        Some(book.confirmed(args.waiting.patience(), &SystemClock).await.map_err(fault)?)
    } else {
        None
    };
    let well = heard.as_ref().is_some_and(|(standing, _)| standing.is_settled());
    let exit = if well { Exit::Done } else { Exit::FoundWanting };
    if args.json {
        let standing = heard.map(|(standing, _)| standing).unwrap_or_default();
        output::json(&Report { resumed, paused, standing })?;
        return Ok(exit);
    }
    for pause in &resumed {
        output::text(&format!("resumed: {}", line(pause)))?;
    }
    if !found {
        let what = if args.all { "nothing".to_owned() } else { scope_words(&scope) };
        output::note(&format!("{what} was paused"))?;
    }
    for pause in &paused {
        output::note(&format!("still paused: {}", line(pause)))?;
    }
    if let Some((standing, reach)) = &heard {
        say(standing, *reach, args.waiting)?;
    }
    Ok(exit)
}

fn scope_words(scope: &Scope) -> String {
    match scope {
        Scope::All => "not everything (name a form or a domain, or --all)".to_owned(),
        Scope::Form(_) | Scope::Destination(_) => format!("no {scope}"),
    }
}
