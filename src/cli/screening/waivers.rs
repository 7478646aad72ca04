//! `screening waivers`.

use super::Room;
use crate::cli::layout::{Side, Table};
use crate::cli::{CliError, Context, Exit, output, setup};
use crate::routing::explain::at;
use crate::routing::submission::text::one_line;
use crate::screening::store::setup::KeptWaiver;

/// Arguments of `screening waivers`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only of this form
    #[arg(long, value_name = "FORM")]
    form: Option<String>,
    /// A JSON array
    #[arg(long)]
    json: bool,
}

/// Prints the waivers that stand.
pub(super) async fn run(ctx: &Context, args: &Args) -> Result<Exit, CliError> {
    let room = Room::open(ctx).await?;
    if let Some(form) = &args.form {
        room.known_form(form).await?;
    }
    let waivers = room.store.waivers(args.form.as_deref()).await.map_err(setup::database)?;
    output::either(args.json, &waivers, || {
        if waivers.is_empty() { "no rule is waived\n".to_owned() } else { text(&waivers) }
    })?;
    Ok(Exit::Done)
}

fn text(waivers: &[KeptWaiver]) -> String {
    let columns = [
        ("WAIVER", Side::Right),
        ("FORM", Side::Left),
        ("RULE", Side::Left),
        ("PLACE", Side::Left),
        ("REASON", Side::Left),
        ("SINCE", Side::Left),
        ("BY", Side::Left),
        ("WHY", Side::Left),
    ];
    let mut table = Table::new(&columns);
    for waiver in waivers {
        table.row(vec![
            waiver.id.to_string(),
            one_line(&waiver.form_id),
            one_line(&waiver.rule),
            waiver.place.as_deref().map_or_else(|| "everywhere".to_owned(), one_line),
            waiver.reason.to_string(),
            at(waiver.at),
            one_line(&waiver.actor),
            one_line(&waiver.why),
        ]);
    }
    table.text(output::columns())
}
