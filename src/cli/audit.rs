//! `audit`: the audit log's digests of recipients. Reads only: nobody may change a row of it.

use clap::Subcommand;
use serde::Serialize;

use super::setup::{self, Setup};
use super::{CliError, Context, Exit, output};
use crate::parts;
use crate::routing::explain::at;
use crate::routing::store::view::{AuditDigests, UNKEYED_ROWS};

/// Arguments of `audit`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Name the rows whose digests of addresses were made without a key, or with another one
    Rekey(Rekey),
}

#[derive(Debug, clap::Args)]
struct Rekey {
    /// One JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    /// Name of this host's key; absent where it has not been made yet.
    key: Option<String>,
    rows: Vec<AuditDigests>,
}

/// Runs the verb. Rows without a key are found wanting.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let Verb::Rekey(Rekey { json }) = args.verb;
    let setup = Setup::open(ctx)?;
    let there = parts::audit_key_there(&setup.config).map_err(setup::part)?;
    let key = there.and_then(|(key, _)| key.name().map(str::to_owned));
    let Some(rows) = setup.view().audit_digests().await.map_err(setup::database)? else {
        let error = anyhow::anyhow!("the audit log is not readable with this role");
        return Err(CliError::new(Exit::FoundWanting, error)
            .remedy("ask with a role that may read audit_log ([database] url, DATABASE_URL)"));
    };
    let exit = if rows.iter().any(|row| row.unkeyed) { Exit::FoundWanting } else { Exit::Done };
    let report = Report { key, rows };
    output::either(json, &report, || text_of(&report))?;
    Ok(exit)
}

fn text_of(Report { key, rows }: &Report) -> String {
    let here = key.as_deref().map_or_else(
        || "no key has been made on this host yet: the daemon does at its start".to_owned(),
        |key| format!("this host's key is {key}"),
    );
    let mut text = format!("{here}\n");
    for row in rows {
        let AuditDigests { key: with, unkeyed, rows, first, last } = row;
        let made = match with {
            _ if *unkeyed => "WITHOUT A KEY".to_owned(),
            Some(with) if key.as_ref() == Some(with) => format!("with this host's key {with}"),
            Some(with) => format!("with another key, {with}"),
            None => "no digest, the domain alone".to_owned(),
        };
        text.push_str(&format!("{rows} rows {made}, {} to {}\n", at(*first), at(*last)));
    }
    if rows.is_empty() {
        text.push_str("no row names a recipient\n");
    }
    if rows.iter().any(|row| row.unkeyed) {
        text.push_str(&format!(
            "Who has a list of addresses finds those without a key in it. Nobody may change the audit log, so they stay until its \
             retention removes them: let as few as possible read it until then. They are:\n{UNKEYED_ROWS}\n",
        ));
    }
    let others = rows.iter().filter(|row| row.key.is_some() && row.key != *key).count();
    if others > 0 && key.is_some() {
        text.push_str(
            "Digests made with different keys cannot be compared: several hosts share one key ([audit] key_file), and an old key \
             is kept as long as its rows are.\n",
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: Option<&str>, unkeyed: bool) -> AuditDigests {
        let time = "2026-11-01T10:00:00Z".parse().expect("a time");
        AuditDigests { key: key.map(str::to_owned), unkeyed, rows: 7, first: time, last: time }
    }

    #[test]
    fn what_follows_is_said_of_each() {
        let report = |rows| Report { key: Some("aaaaaaaa".to_owned()), rows };
        let cases = [
            (report(vec![]), "no row names", &["WITHOUT", "different"][..]),
            (
                report(vec![row(Some("aaaaaaaa"), false)]),
                "7 rows with this host's key",
                &["WITHOUT", "different"],
            ),
            (report(vec![row(None, false)]), "the domain alone", &["WITHOUT", "different"]),
            (report(vec![row(Some("bbbbbbbb"), false)]), "cannot be compared", &["WITHOUT"]),
            (report(vec![row(None, true)]), "Nobody may change", &["different"]),
        ];
        for (report, said, not) in cases {
            let text = text_of(&report);
            assert!(text.contains(said), "{said}: {text}");
            assert!(not.iter().all(|words| !text.contains(words)), "{text}");
        }
    }
}
