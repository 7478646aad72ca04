//! `screening forms`.

use super::Room;
use crate::cli::layout::{Side, Table};
use crate::cli::{CliError, Context, Exit, output, setup};
use crate::routing::explain::at;
use crate::routing::submission::text::one_line;
use crate::screening::store::setup::ScreenedForm;

/// Arguments of `screening forms`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A JSON array
    #[arg(long)]
    json: bool,
}

/// Prints the forms that are screened.
pub(super) async fn run(ctx: &Context, args: &Args) -> Result<Exit, CliError> {
    let room = Room::open(ctx).await?;
    let forms = room.store.forms().await.map_err(setup::database)?;
    output::either(args.json, &forms, || {
        if forms.is_empty() { "no form is screened\n".to_owned() } else { text(&forms) }
    })?;
    Ok(Exit::Done)
}

fn text(forms: &[ScreenedForm]) -> String {
    let columns = ["FORM", "PROFILE", "SINCE", "ENFORCED SINCE", "PEOPLE", "BY"];
    let mut table = Table::new(&columns.map(|name| (name, Side::Left)));
    for form in forms {
        table.row(vec![
            one_line(&form.form_id),
            form.profile.to_string(),
            at(form.since),
            form.enforced_since.map_or_else(|| "in shadow".to_owned(), at),
            if form.force_review { "each" } else { "in doubt" }.to_owned(),
            one_line(&form.set_by),
        ]);
    }
    table.text(output::columns())
}
