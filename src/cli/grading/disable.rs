//! `grading disable FORM`.

use clap::builder::NonEmptyStringValueParser;
use serde_json::json;

use super::{PublisherUrl, Room};
use crate::cli::{CliError, Context, Exit, output, setup};
use crate::grading::journal;
use crate::routing::submission::text::one_line;

/// Arguments of `grading disable`.
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

/// Has a form graded no more.
pub(super) async fn run(ctx: &Context, args: &Args) -> Result<Exit, CliError> {
    let room = Room::open(ctx).await?;
    let (form, shown) = (&args.form, one_line(&args.form));
    if !room.publisher(ctx, &args.publisher).await?.disable(form).await.map_err(setup::database)? {
        return Err(CliError::new(Exit::FoundWanting, anyhow::anyhow!("form {shown} is not graded"))
            .remedy("maple-router grading forms"));
    }
    journal::set(form, &format!("graded no more: {}", one_line(&args.reason)), &room.actor);
    output::either(args.json, &json!({"form_id": form}), || {
        format!(
            "form {shown} is graded no more; attempts that are open go on, and their mails wait for them: maple-router grading list --form {shown}\n"
        )
    })?;
    Ok(Exit::Done)
}
