//! `resume`: ends a pause. Paused submissions return by event or sweep. Answers when every daemon has confirmed.

use serde::Serialize;

use super::pause::{Selector, Waiting, filled, line, say};
use super::setup::{self, Setup};
use super::{CliError, Context, Exit, operator, output};
use crate::journal;
use crate::ops::clock::SystemClock;
use crate::ops::telemetry::EventName;
use crate::routing::pause::presence::Standing;
use crate::routing::pause::{Pause, Scope};

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
    /// Pauses still in force.
    paused: Vec<Pause>,
    #[serde(flatten)]
    standing: Standing,
}

/// Ends pauses. Without one to end the verb is found wanting: the person expected one.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let pause_store = Setup::open(ctx)?.pauses();
    let actor = operator::actor(&ctx.env);
    let scope = args.what.scope();
    let resumed = pause_store.end((!args.all).then_some(&scope)).await.map_err(setup::pauses)?;
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
    let paused: Vec<Pause> = pause_store.read().await.map_err(setup::pauses)?.iter().cloned().collect();
    let found = !resumed.is_empty();
    // Without a change no daemon has to confirm.
    let answer = if found {
        Some(pause_store.confirmed(args.waiting.patience(), &SystemClock).await.map_err(setup::pauses)?)
    } else {
        None
    };
    let well = answer.as_ref().is_some_and(|(standing, _)| standing.is_settled());
    let exit = if well { Exit::Done } else { Exit::FoundWanting };
    if args.json {
        let standing = answer.map(|(standing, _)| standing).unwrap_or_default();
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
    if let Some((standing, reach)) = &answer {
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
