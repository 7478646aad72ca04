//! `grading forms`.

use super::Room;
use crate::cli::layout::{Side, Table};
use crate::cli::{CliError, Context, Exit, output, setup};
use crate::grading::store::setup::GradedForm;
use crate::routing::explain::at;
use crate::routing::submission::text::one_line;

/// Arguments of `grading forms`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A JSON array
    #[arg(long)]
    json: bool,
}

/// Prints the forms.
pub(super) async fn run(ctx: &Context, args: &Args) -> Result<Exit, CliError> {
    let forms = Room::open(ctx).await?.store.forms().await.map_err(setup::database)?;
    output::either(args.json, &forms, || {
        if forms.is_empty() { "no form is graded\n".to_owned() } else { text(&forms) }
    })?;
    Ok(Exit::Done)
}

fn text(forms: &[GradedForm]) -> String {
    let columns = [
        ("FORM", Side::Left),
        ("SKILL", Side::Left),
        ("QUESTION", Side::Left),
        ("MAIL", Side::Left),
        ("WITHIN", Side::Right),
        ("OPEN", Side::Right),
        ("SINCE", Side::Left),
        ("BY", Side::Left),
    ];
    let mut table = Table::new(&columns);
    for form in forms {
        let mail = match (form.gate, form.on_failed.as_str()) {
            (false, _) => "goes at once",
            (true, "send") => "waits; without a grade it goes",
            (true, _) => "waits; without a grade a person decides",
        };
        table.row(vec![
            one_line(&form.form_id),
            form.skill.to_string(),
            one_line(&form.question),
            mail.to_owned(),
            format!("{:.0} s", form.sla_seconds),
            form.open.to_string(),
            at(form.since),
            one_line(&form.set_by),
        ]);
    }
    table.text(output::columns())
}
