//! `forms diff VERSION [--from VERSION]`.

use super::{Office, refused};
use crate::cli::{CliError, Exit, output, setup};
use crate::forms::content;
use crate::forms::definition::Definition;
use crate::forms::diff::{Diff, Line, diff};
use crate::forms::table::Version;
use crate::kernel::rows::Row;

/// Arguments of `forms diff`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// FORM for its newest version, FORM@NUMBER, or FORM@current
    #[arg(value_name = "VERSION")]
    version: String,
    /// The version to compare with [default: what the form follows now]
    #[arg(long, value_name = "VERSION")]
    from: Option<String>,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Prints what a version changes.
pub(super) async fn run(office: &Office, args: &Args) -> Result<Exit, CliError> {
    let store = &office.versions.store;
    let row = office.version(&args.version).await?;
    let form = row.columns.form_id.clone();
    let before = match &args.from {
        Some(from) => Some(office.version(from).await?),
        None => match store.current(&form).await.map_err(setup::database)? {
            Some(current) => store.by_id(current.version).await.map_err(setup::database)?,
            None => None,
        },
    };
    let after = definition(office, &row).await?;
    let old = match &before {
        Some(before) => Some(definition(office, before).await?),
        None => None,
    };
    let templates: Vec<&str> = after.templates.keys().map(String::as_str).collect();
    let shared = store
        .pool()
        .transaction("version_shared", async |tx| store.shared(&tx, &form, &templates).await)
        .await
        .map_err(setup::database)?;
    let diff = diff(old.as_ref(), &after, &shared, &*office.versions.composer);
    let from = before.as_ref().map_or_else(|| "nothing".to_owned(), Office::name);
    output::either(args.json, &diff, || text(&from, &Office::name(&row), &diff))?;
    Ok(Exit::Done)
}

async fn definition(office: &Office, row: &Row<Version>) -> Result<Definition, CliError> {
    let entries = office.versions.store.entries(row.id).await.map_err(setup::database)?;
    let form = &row.columns.form_id;
    content::definition(form, &entries).map_err(|error| refused(error.into(), form))
}

fn text(from: &str, to: &str, diff: &Diff) -> String {
    let mut text = format!("from {from} to {to}\n");
    if diff.is_empty() {
        text.push_str("nothing changes\n");
    }
    if let Some((before, after)) = &diff.name {
        text.push_str(&format!("name: {before} -> {after}\n"));
    }
    for action in &diff.actions {
        text.push_str(&format!("action {}\n", action.order));
        for (name, before, after) in &action.parts {
            let of = |value: &Option<String>| value.clone().unwrap_or_else(|| "(none)".to_owned());
            text.push_str(&format!("  {name:<12} {}  ->  {}\n", of(before), of(after)));
        }
    }
    for change in &diff.templates {
        text.push_str(&format!("template {} {}\n{}", change.template, change.part, lines(&change.lines)));
    }
    for change in &diff.assets {
        let of = |value: &Option<String>| {
            value.as_ref().map_or("(none)".to_owned(), |sha256| sha256.chars().take(12).collect())
        };
        text.push_str(&format!("asset {}: {} -> {}\n", change.name, of(&change.before), of(&change.after)));
    }
    for mail in &diff.mails {
        text.push_str(&format!(
            "what action {} sends on sample {}: {}\n{}",
            mail.order,
            mail.sample,
            mail.part,
            lines(&mail.lines)
        ));
    }
    for shared in &diff.shared {
        let follows = if shared.managed { "is managed, and has to agree" } else { "changes with it" };
        text.push_str(&format!(
            "template {} is also form {}'s, which {follows}\n",
            shared.template_id, shared.form_id
        ));
    }
    text
}

fn lines(lines: &[Line]) -> String {
    lines.iter().map(|line| format!("  {} {}\n", line.sign, line.text)).collect()
}
