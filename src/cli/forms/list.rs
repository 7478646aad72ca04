//! `forms list [FORM]`.

use serde_json::{Value, json};

use super::{Office, show};
use crate::cli::layout::{Side, Table};
use crate::cli::{CliError, Exit, output, setup};
use crate::routing::explain::at;

/// Arguments of `forms list`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The versions of this form
    #[arg(value_name = "FORM")]
    form: Option<String>,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Prints forms, or the versions of one.
pub(super) async fn run(office: &Office, args: &Args) -> Result<Exit, CliError> {
    let store = &office.versions.store;
    let Some(form) = &args.form else {
        let forms = store.forms().await.map_err(setup::database)?;
        let mut table = Table::new(&[
            ("FORM", Side::Left),
            ("FOLLOWS", Side::Left),
            ("SINCE", Side::Left),
            ("BY", Side::Left),
            ("DRAFTS", Side::Right),
            ("PUBLISHED", Side::Right),
        ]);
        for line in &forms {
            table.row(vec![
                line.form_id.clone(),
                line.current.map_or_else(|| "its loader".to_owned(), |number| format!("version {number}")),
                line.moved_at.map(at).unwrap_or_default(),
                line.moved_by.clone().unwrap_or_default(),
                line.drafts.to_string(),
                line.published.to_string(),
            ]);
        }
        output::either(args.json, &forms, || table.text(output::columns()))?;
        return Ok(Exit::Done);
    };
    let versions = store.of_form(form).await.map_err(setup::database)?;
    let current = store.current(form).await.map_err(setup::database)?;
    let mut table = Table::new(&[
        ("VERSION", Side::Left),
        ("STATE", Side::Left),
        ("DIGEST", Side::Left),
        ("LOADED", Side::Left),
        ("BY", Side::Left),
        ("", Side::Left),
    ]);
    for row in &versions {
        let facts = &row.columns;
        let is = |id: Option<uuid::Uuid>| id == Some(row.id);
        let note = match &current {
            Some(current) if is(Some(current.version)) => "current",
            Some(current) if is(current.previous) => "previous",
            Some(_) | None => "",
        };
        table.row(vec![
            Office::name(row),
            row.state.to_string(),
            facts.digest.chars().take(12).collect(),
            at(facts.created_at),
            facts.author.clone(),
            note.to_owned(),
        ]);
    }
    let documents: Vec<Value> = versions.iter().map(|row| show::facts(row, current.as_ref())).collect();
    output::either(args.json, &json!(documents), || table.text(output::columns()))?;
    Ok(if versions.is_empty() { Exit::FoundWanting } else { Exit::Done })
}
