//! `forms show VERSION`.

use serde_json::{Value, json};

use super::Office;
use crate::cli::{CliError, Exit, output, setup};
use crate::forms::commands::Signature;
use crate::forms::content::Entry;
use crate::forms::store::Current;
use crate::forms::store::read::Said;
use crate::forms::table::{State, Version};
use crate::kernel::rows::{Recorded, Row};
use crate::routing::explain::at;

/// Arguments of `forms show`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// FORM for its newest version, FORM@NUMBER, or FORM@current
    #[arg(value_name = "VERSION")]
    version: String,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Prints everything about a version.
pub(super) async fn run(office: &Office, args: &Args) -> Result<Exit, CliError> {
    let store = &office.versions.store;
    let row = office.version(&args.version).await?;
    let current = store.current(&row.columns.form_id).await.map_err(setup::database)?;
    let entries = store.entries(row.id).await.map_err(setup::database)?;
    let decisions = store.decisions(row.id).await.map_err(setup::database)?;
    let history = store.history(row.id).await.map_err(setup::database)?;
    let signatures = office.versions.signatures(&row).await.map_err(setup::database)?;
    if args.json {
        let mut document = facts(&row, current.as_ref());
        document["entries"] = entries
            .iter()
            .map(|entry| json!({"kind": entry.kind, "key": entry.key, "content": entry.content}))
            .collect();
        document["decisions"] = json!(decisions);
        document["signatures"] = signatures.iter().map(signature).collect();
        document["history"] = json!(history);
        document["next"] = json!(next(&row, current.as_ref()));
        output::json(&document)?;
    } else {
        output::text(&text(&row, current.as_ref(), &entries, (&signatures, &decisions, &history)))?;
    }
    Ok(Exit::Done)
}

/// A signature, as JSON.
fn signature(Signature { kept, judged }: &Signature) -> Value {
    let signer = judged.as_ref().ok().map(|signed| &signed.signer);
    let why = judged.as_ref().err().map(ToString::to_string);
    json!({"key": kept.key, "at": kept.at, "actor": kept.actor, "signer": signer, "void": why})
}

/// A version's facts, as JSON.
pub(super) fn facts(row: &Row<Version>, current: Option<&Current>) -> Value {
    let facts = &row.columns;
    json!({
        "version": Office::name(row), "id": row.id, "form": facts.form_id, "number": facts.number, "state": row.state,
        "digest": facts.digest, "source": facts.source, "author": facts.author, "created_at": facts.created_at,
        "published_at": facts.published_at, "tombstoned_at": facts.tombstoned_at, "deadline": facts.deadline,
        "is_current": current.is_some_and(|current| current.version == row.id),
        "is_previous": current.is_some_and(|current| current.previous == Some(row.id)),
    })
}

/// What can be done with it.
fn next(row: &Row<Version>, current: Option<&Current>) -> String {
    let (name, facts) = (Office::name(row), &row.columns);
    let form = &facts.form_id;
    match row.state {
        State::Draft => {
            let digest: String = facts.digest.chars().take(12).collect();
            format!(
                "maple-router forms diff {name}, then forms publish {name} --expect {digest}, or forms discard {name}"
            )
        }
        State::Published if current.is_some_and(|current| current.version == row.id) => {
            match current.and_then(|current| current.previous) {
                Some(_) => {
                    format!("it is what the form follows; maple-router forms rollback {form} goes back")
                }
                None => "it is what the form follows".to_owned(),
            }
        }
        State::Published => {
            format!("maple-router forms promote {name}, or forms tombstone {name}")
        }
        State::Tombstoned => match (facts.published_at, facts.deadline) {
            (Some(_), Some(deadline)) => {
                format!("until {} maple-router forms restore {name} takes it back", at(deadline))
            }
            _ => "nothing: it was given up as a draft".to_owned(),
        },
    }
}

fn text(
    row: &Row<Version>,
    current: Option<&Current>,
    entries: &[Entry],
    (signatures, decisions, history): (&[Signature], &[Said], &[Recorded]),
) -> String {
    let facts = &row.columns;
    let mut text = format!("{} is {}\n", Office::name(row), row.state);
    let mut line = |name: &str, what: String| text.push_str(&format!("  {name:<9} {what}\n"));
    line("digest", facts.digest.clone());
    line("loaded", format!("{} by {} ({})", at(facts.created_at), facts.author, facts.source));
    if let Some(published) = facts.published_at {
        line("published", at(published));
    }
    match current {
        Some(current) if current.version == row.id => {
            line("current", format!("since {} by {}", at(current.moved_at), current.moved_by));
        }
        Some(_) => line("current", "no: the form follows another version".to_owned()),
        None => line("current", "no: the form follows its loader".to_owned()),
    }
    for entry in entries {
        line(entry.kind.label(), entry.key.clone());
    }
    for Signature { kept, judged } in signatures {
        let signer = match judged {
            Ok(signed) => format!("by {}", signed.signer),
            Err(why) => format!("counts for nothing: {why}"),
        };
        line("signed", format!("{} with {}, {signer}", at(kept.at), kept.key));
    }
    line("next", next(row, current));
    if !decisions.is_empty() {
        text.push_str("decisions\n");
    }
    for said in decisions {
        let policy = said.policy.as_deref().map_or("no policy", |digest| digest.get(..12).unwrap_or(digest));
        let what = if said.allowed { "allowed" } else { "refused" };
        text.push_str(&format!(
            "  {}  {} {what} for {} by {policy}\n",
            at(said.at),
            said.command,
            said.actor
        ));
        for reason in &said.reasons {
            text.push_str(&format!("    - {reason}\n"));
        }
    }
    text.push_str("history\n");
    for moved in history {
        let why = moved.reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        let (at, command, actor) = (at(moved.at), &moved.command, &moved.actor);
        text.push_str(&format!("  {at}  {command} {} -> {} by {actor}{why}\n", moved.from, moved.to));
    }
    text
}
