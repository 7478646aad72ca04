//! `render`: the exact mails and tickets a submission would cause. Sends and writes nothing.
//!
//! The links in them are real, so the journal records that they were shown, as `links` does.

use std::sync::Arc;

use super::id::{self, IdArg};
use super::setup::{self, Setup};
use super::{CliError, Context, Exit, operator, output};
use crate::journal;
use crate::ops::rng::Rng;
use crate::ops::telemetry::EventName;
use crate::parts;
use crate::queries::render::{self, NoRendering, Shown};
use crate::routing::worker::prepare::RenderError;

/// Arguments of `render`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Submission id, or its beginning
    #[arg(value_name = "ID", value_parser = id::parse)]
    pub(super) id: IdArg,
    /// Only the action with this action_order
    #[arg(long, value_name = "N")]
    pub(super) action: Option<i32>,
    /// A JSON array
    #[arg(long)]
    pub(super) json: bool,
}

/// Prints the mails and tickets.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let setup = Setup::open(ctx)?;
    let id = setup.submission(&args.id).await?;
    let preparer =
        parts::preparer(&setup.config, setup.store()?, Arc::new(Rng::from_system())).map_err(setup::part)?;
    let rendering = render::rendering(&setup, &preparer, id, args.action).await.map_err(refused)?;
    if rendering.links > 0 {
        journal!(
            warn,
            EventName::Override,
            submission_id = %id,
            form_id = rendering.form_id,
            actor = operator::actor(&ctx.env),
            verb = "render",
            links = rendering.links,
            "an operator was shown mails or tickets with working links"
        );
    }
    if args.json {
        output::json(&rendering.shown)?;
    } else {
        for shown in &rendering.shown {
            output::text(&text(shown))?;
        }
    }
    for note in &rendering.notes {
        output::note(note)?;
    }
    let gaps: Vec<String> = rendering.shown.iter().filter_map(Shown::gap).collect();
    if gaps.is_empty() {
        return Ok(Exit::Done);
    }
    // A mail shown as a sample is refused for what a real one would show.
    Err(CliError::new(Exit::FoundWanting, anyhow::anyhow!(gaps.join("; "))).remedy(
        "where the field may be away, say so in the template (`if`, `default`); else correct its name in the YAML, load it, \
         and render again",
    ))
}

fn text(shown: &Shown) -> String {
    match shown {
        Shown::Mail(mail) => format!(
            "==== action {} to {}\n{}\n",
            mail.action_order,
            mail.to(),
            mail.eml.replace("\r\n", "\n").trim_end()
        ),
        Shown::Ticket(ticket) => {
            format!("==== action {} to the help desk\n{}\n", ticket.action_order, ticket.text())
        }
    }
}

fn refused(error: NoRendering) -> CliError {
    match error {
        NoRendering::Database(error) => setup::database(error),
        NoRendering::Unknown(id) => setup::unknown("submission", id),
        NoRendering::Ledger(_, id) => {
            CliError::new(Exit::FoundWanting, error).remedy(format!("maple-router explain {id}"))
        }
        NoRendering::Mail(RenderError::Unsigned(_)) => CliError::new(Exit::Unavailable, error)
            .remedy("`maple-router check` tells what signing needs (lines signing and link)"),
        NoRendering::Purged(_) | NoRendering::Form(_) | NoRendering::Mail(_) => {
            CliError::new(Exit::FoundWanting, error)
        }
    }
}
