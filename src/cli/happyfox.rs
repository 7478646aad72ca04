//! `happyfox`: what only a help desk makes possible.

mod backfill;

use clap::Subcommand;

use super::{CliError, Context, Exit};

/// Arguments of `happyfox`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make the tickets that were deferred while there was no help desk
    Backfill(backfill::Args),
}

/// Runs the verb.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    match args.verb {
        Verb::Backfill(args) => backfill::run(ctx, args).await,
    }
}
