//! `screening disable FORM`.

use clap::builder::NonEmptyStringValueParser;
use serde_json::json;

use super::{PublisherUrl, Room};
use crate::cli::{CliError, Context, Exit, output, setup};
use crate::routing::submission::text::one_line;
use crate::screening::journal;

/// Arguments of `screening disable`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The form
    #[arg(value_name = "FORM")]
    form: String,
    /// Why; in the journal
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    reason: String,
    #[command(flatten)]
    publisher: PublisherUrl,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Has a form screened no more.
pub(super) async fn run(ctx: &Context, args: &Args) -> Result<Exit, CliError> {
    let room = Room::open(ctx).await?;
    let (form, shown) = (&args.form, one_line(&args.form));
    if !room.publisher(ctx, &args.publisher).await?.disable(form).await.map_err(setup::database)? {
        return Err(CliError::new(Exit::FoundWanting, anyhow::anyhow!("form {shown} is not screened"))
            .remedy("maple-router screening forms"));
    }
    journal::set(form, &format!("screened no more: {}", one_line(&args.reason)), &room.actor);
    let (open, enforced) = room.store.open_runs(form).await.map_err(setup::database)?;
    output::either(args.json, &json!({"form_id": form, "open_runs": open, "waited_for": enforced}), || {
        let mut text = format!("form {shown} is screened no more; {open} of its runs are open and go on\n");
        if enforced > 0 {
            text.push_str(&format!(
                "the submissions of {enforced} of them go on waiting until theirs is published: maple-router screening list --form {shown}\n"
            ));
        }
        text
    })?;
    Ok(Exit::Done)
}
