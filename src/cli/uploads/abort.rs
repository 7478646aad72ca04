//! `uploads abort ID`.

use serde_json::json;
use uuid::Uuid;

use super::{store, unknown};
use crate::cli::setup::{self, Setup};
use crate::cli::{CliError, Context, Exit, operator, output};
use crate::kernel::Who;
use crate::uploads::commands::{By, abort};

/// Arguments of `uploads abort`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The upload
    #[arg(value_name = "UPLOAD_ID")]
    id: Uuid,
    /// Why; recorded
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Ends the upload.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let setup = Setup::open(ctx)?;
    let store = store(&setup);
    let seen = store.get(args.id).await.map_err(setup::database)?.ok_or_else(|| unknown(args.id))?;
    let actor = operator::actor(&ctx.env);
    let by = By { who: Who::OPERATOR, name: &actor };
    abort(&store, &seen, by, Some(&args.reason)).await.map_err(|problem| {
        CliError::new(Exit::FoundWanting, anyhow::anyhow!("{}", problem.detail().to_owned()))
            .remedy(problem.remedy().to_owned())
    })?;
    let did = format!("upload {} has ended; a daemon removes what was brought\n", args.id);
    output::either(args.json, &json!({"id": args.id, "state": "aborted"}), || did)?;
    Ok(Exit::Done)
}
