//! `lifecycle`: the transition tables, as the program itself uses them. Reads no configuration.

use clap::Subcommand;
use clap::builder::PossibleValuesParser;

use super::{CliError, Exit, output};
use crate::daemon::ROOMS;
use crate::kernel::describe::Described;

/// Arguments of `lifecycle`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the lifecycles
    List(List),
    /// Show the transitions of one: who may, when, and what else happens
    Show(Show),
    /// Print the diagram of one in Mermaid
    Diagram(Name),
}

#[derive(Debug, clap::Args)]
struct List {
    /// A JSON array
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Show {
    #[command(flatten)]
    which: Name,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Name {
    /// Its name
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(all().into_iter().map(|lifecycle| lifecycle.name)))]
    name: String,
}

/// Prints the tables asked for.
pub(super) fn run(args: &Args) -> Result<Exit, CliError> {
    match &args.verb {
        Verb::List(List { json: true }) => output::json(&all())?,
        Verb::List(List { json: false }) => {
            for lifecycle in all() {
                output::text(&format!(
                    "{:<14}{} ({})",
                    lifecycle.name,
                    lifecycle.about,
                    lifecycle.states.join(", ")
                ))?;
            }
        }
        Verb::Show(Show { which, json }) => {
            let lifecycle = find(which)?;
            output::either(*json, &lifecycle, || table(&lifecycle))?;
        }
        Verb::Diagram(which) => output::text(&find(which)?.mermaid())?,
    }
    Ok(Exit::Done)
}

/// The lifecycles of all rooms.
fn all() -> Vec<Described> {
    ROOMS.iter().flat_map(|room| room.lifecycles).map(|describe| describe()).collect()
}

fn find(Name { name }: &Name) -> Result<Described, CliError> {
    all()
        .into_iter()
        .find(|lifecycle| lifecycle.name == name)
        .ok_or_else(|| CliError::new(Exit::Usage, anyhow::anyhow!("there is no lifecycle {name}")))
}

fn table(lifecycle: &Described) -> String {
    let mut text = format!("{}: {}\n", lifecycle.name, lifecycle.about);
    for t in &lifecycle.transitions {
        text.push_str(&format!("\n{} -> {}  {} ({})\n", t.from, t.to, t.command, t.who.join(", ")));
        text.push_str(&format!("    when  {}\n", t.guard));
        if !t.with.is_empty() {
            text.push_str(&format!("    with  {}\n", t.with));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::describe::Transition;

    #[test]
    fn each_name_is_described_and_every_transition_is_drawn() {
        let all = all();
        assert_eq!(
            all.iter().map(|lifecycle| lifecycle.name).collect::<Vec<_>>(),
            [
                "submission",
                "outbox",
                "grey_queue",
                "upload",
                "version",
                "blob",
                "screening",
                "grading",
                "grading_job"
            ]
        );
        for lifecycle in all {
            let drawn = lifecycle.mermaid();
            assert!(drawn.starts_with("stateDiagram-v2\n    [*] --> "), "{drawn}");
            for Transition { from, to, command, who, guard, .. } in &lifecycle.transitions {
                let arrow = format!("    {from} --> {to}: ");
                let line = drawn.lines().find(|line| line.starts_with(&arrow)).expect("an arrow");
                assert!(line[arrow.len()..].split(", ").any(|drawn| drawn == command), "{line}: {command}");
                assert!(!who.is_empty() && !guard.is_empty(), "{command}");
            }
            // A version that is out of use may be taken back.
            assert!(!lifecycle.finals.is_empty() || lifecycle.name == "version", "{drawn}");
        }
    }
}
