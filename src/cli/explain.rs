//! `explain`: everything about one submission on one screen, and what happens next.
//!
//! Reads only. An operator's tool: recipients are shown as the ledger has them; field values never are.

use clap::CommandFactory as _;
use uuid::Uuid;

use super::id::{self, IdArg};
use super::output::{self, Palette};
use super::setup::{self, Setup};
use super::{Cli, CliError, Context, Exit};
use crate::queries::explain::{self, Instead, text};
use crate::routing::explain::{Remedy, at};

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Submission id, or its beginning
    #[arg(value_name = "ID", value_parser = id::parse)]
    pub(super) id: IdArg,
    /// One JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Prints the explanation.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let setup = Setup::open(ctx)?;
    let id = setup.submission(&args.id).await?;
    let Some(mut page) = explain::page(&setup, id).await.map_err(setup::query)? else {
        return Err(nowhere(id, explain::instead(&setup, id).await));
    };
    page.explanation.remedy.retain(is_at_hand);
    let width = output::columns().unwrap_or(text::WIDTH);
    output::either(args.json, &page, || text::page(&page, Palette::of_stdout(), width))?;
    Ok(Exit::Done)
}

/// The error where no submission has this id: perhaps another record has.
fn nowhere(id: Uuid, instead: Option<Instead>) -> CliError {
    let (text, letter) = match instead {
        Some(Instead::Letter) => (format!("{id} is a dead letter, not a submission"), id),
        Some(Instead::Event(letter)) => (
            format!("there is no submission {id}: its event became a dead letter at {}", at(letter.at)),
            letter.id,
        ),
        None => return setup::unknown("submission", id),
    };
    CliError::new(Exit::FoundWanting, anyhow::anyhow!(text)).remedy(format!("maple-router dlq show {letter}"))
}

/// Says whether this binary has the remedy's verb: no other is recommended.
fn is_at_hand(remedy: &Remedy) -> bool {
    remedy.verb.is_none_or(|verb| {
        let command = Cli::command();
        verb.split(' ').try_fold(&command, |within, name| within.find_subcommand(name)).is_some()
    })
}
