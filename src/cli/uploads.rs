//! `uploads`: sessions of files that are being brought, and what became of them. Names of files and owners are shown to whoever may
//! run this.

mod abort;
mod list;
mod show;

use clap::Subcommand;
use uuid::Uuid;

use super::setup::Setup;
use super::{CliError, Context, Exit};
use crate::parts;
use crate::uploads::store::UploadStore;

/// Arguments of `uploads`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List open uploads, or ended ones
    List(list::Args),
    /// Tell everything about an upload, and what happens next
    Show(show::Args),
    /// End an open upload; what was brought is removed
    Abort(abort::Args),
}

/// Runs the verb.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    match args.verb {
        Verb::List(args) => list::run(ctx, args).await,
        Verb::Show(args) => show::run(ctx, args).await,
        Verb::Abort(args) => abort::run(ctx, args).await,
    }
}

/// The uploads of the configured database.
pub(super) fn store(setup: &Setup) -> UploadStore {
    parts::upload_store(&setup.config, setup.pool.clone())
}

/// The remedy where there is no such upload.
pub(super) fn unknown(id: Uuid) -> CliError {
    CliError::new(Exit::FoundWanting, anyhow::anyhow!("there is no upload {id}"))
        .remedy("maple-router uploads list; with --ended those that have come to their end")
}
