//! `erase`: a person's data is removed before its time. First it is told what would go and what is not ours to remove; then the same
//! command with what that told, so that nothing goes that nobody looked at.
//!
//! Each submission is erased by itself; if we die in the middle, the others stay as they were, and the command again erases the rest.
//! A field's value is neither printed nor logged.

use std::io::Read as _;

use clap::builder::NonEmptyStringValueParser;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::gc::{CollectorUrl, Office};
use super::{CliError, Context, Exit, output, setup};
use crate::retention::journal;
use crate::retention::store::submissions::{Authority, Erasable};
use crate::retention::why::meaning;
use crate::routing::submission::text::one_line;

/// Submissions that are found by one statement.
const PAGE: usize = 500;
/// Submissions of one erasure.
const MOST: usize = 10_000;
/// Digits of what a dry run says for the next command.
const DIGITS: usize = 12;

/// Arguments of `erase`.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(false).args(["ids", "field"])))]
#[command(group(clap::ArgGroup::new("how").required(true).args(["dry_run", "expect"])))]
pub(super) struct Args {
    #[command(flatten)]
    collector: CollectorUrl,
    /// Submissions, by their whole ids
    #[arg(value_name = "ID")]
    ids: Vec<Uuid>,
    /// Every submission with this value in a field; the value - is read from standard input, so that no history of a shell has it
    #[arg(long, value_name = "NAME=VALUE")]
    field: Option<String>,
    /// Those that were never claimed, instead of those that have ended
    #[arg(long)]
    abandon: bool,
    /// Only tell what would go, and what is not ours to remove
    #[arg(long)]
    dry_run: bool,
    /// Erase what the dry run told, which ended with this
    #[arg(long, value_name = "TOKEN", requires = "reason")]
    expect: Option<String>,
    /// Why; recorded
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    reason: Option<String>,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Tells, or erases.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let office = Office::open(ctx, &args.collector).await?;
    let authority = if args.abandon { Authority::Abandonment } else { Authority::Erasure };
    let ids = chosen(&office, &args).await?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        match office.store.erasable(id, authority).await.map_err(setup::database)? {
            Some(erasable) => found.push(erasable),
            None => return Err(setup::unknown("submission", id)),
        }
    }
    let token = token(&found, authority);
    match (&args.expect, &args.reason) {
        (Some(expected), Some(reason)) => {
            if *expected != token {
                let moved = anyhow::anyhow!(
                    "what would be erased is not what {expected} stood for: nothing was erased"
                );
                return Err(CliError::new(Exit::FoundWanting, moved).remedy("look again with --dry-run"));
            }
            erase(&office, &found, authority, reason, args.json).await
        }
        _ => {
            let document = json!({"submissions": found, "expect": token});
            output::either(args.json, &document, || told(&found, &token))?;
            Ok(if found.iter().all(|one| one.why.is_none()) { Exit::Done } else { Exit::FoundWanting })
        }
    }
}

/// The submissions that are meant, in the order of their ids.
async fn chosen(office: &Office, args: &Args) -> Result<Vec<Uuid>, CliError> {
    let Some(field) = &args.field else {
        let mut ids = args.ids.clone();
        ids.sort_unstable();
        ids.dedup();
        return Ok(ids);
    };
    let Some((name, value)) = field.split_once('=').filter(|(name, _)| !name.is_empty()) else {
        return Err(CliError::new(Exit::Usage, anyhow::anyhow!("--field names no value"))
            .remedy("write NAME=VALUE, or NAME=- and the value on standard input"));
    };
    let mut read = String::new();
    if value == "-" {
        std::io::stdin().take(1 << 16).read_to_string(&mut read)?;
    }
    let value = if value == "-" { read.trim() } else { value.trim() };
    if value.is_empty() {
        return Err(CliError::new(
            Exit::Usage,
            anyhow::anyhow!("the value is empty: that would be everybody's"),
        ));
    }
    let (mut ids, mut behind) = (Vec::new(), Uuid::nil());
    loop {
        let page = office.store.with_field(name, value, behind, PAGE).await.map_err(setup::database)?;
        let Some(last) = page.last() else { break };
        behind = *last;
        ids.extend(page);
        if ids.len() > MOST {
            let many =
                anyhow::anyhow!("more than {MOST} submissions have this value in field {}", one_line(name));
            return Err(
                CliError::new(Exit::FoundWanting, many).remedy("is it a person's? erase them by their ids")
            );
        }
    }
    if ids.is_empty() {
        let none = anyhow::anyhow!("no submission has this value in field {}", one_line(name));
        return Err(CliError::new(Exit::FoundWanting, none)
            .remedy("compare the field's name, and the value in full; upper and lower case are the same"));
    }
    Ok(ids)
}

/// Stands for what a dry run told: which submissions, in which state, kept or not.
fn token(found: &[Erasable], authority: Authority) -> String {
    let mut hash = Sha256::new_with_prefix(authority.label());
    for one in found {
        hash.update(format!("\n{} {} {:?} {} {}", one.id, one.status, one.why, one.fields, one.files));
    }
    hex::encode(hash.finalize()).chars().take(DIGITS).collect()
}

async fn erase(
    office: &Office,
    found: &[Erasable],
    authority: Authority,
    reason: &str,
    json: bool,
) -> Result<Exit, CliError> {
    let mut purged = Vec::with_capacity(found.len());
    for one in found {
        let done = office.store.purge(&[one.id], authority, &office.actor, None).await;
        let done = done.map_err(setup::database)?;
        for one in &done {
            if one.why.is_none() {
                journal::erased(one.id, &office.actor, reason);
            }
        }
        purged.extend(done);
    }
    let kept = purged.iter().filter(|one| one.why.as_deref().is_some_and(|why| why != "purged")).count();
    output::either(json, &json!({"submissions": purged}), || {
        let mut text = String::new();
        for (one, about) in purged.iter().zip(found) {
            text.push_str(&match one.why.as_deref() {
                None => format!("{}: erased\n{}", one.id, elsewhere(about)),
                Some("purged") => format!("{}: was emptied before\n", one.id),
                Some(why) => format!("{}: kept, {}\n", one.id, meaning(why)),
            });
        }
        text.push_str("files go with the next run, or now: maple-router gc run; maple-router receipts show ID proves it\n");
        text
    })?;
    Ok(if kept == 0 { Exit::Done } else { Exit::FoundWanting })
}

fn told(found: &[Erasable], token: &str) -> String {
    let mut text = String::new();
    for one in found {
        text.push_str(&format!("{} of form {}, {}\n", one.id, one_line(&one.form_id), one.status));
        match one.why.as_deref() {
            None => {
                text.push_str(&format!("  would be erased: {} fields, {} files\n", one.fields, one.files));
            }
            Some("purged") => text.push_str("  is emptied already\n"),
            Some(why) => text.push_str(&format!("  would be kept: {}\n", meaning(why))),
        }
        if one.shared > 0 {
            text.push_str(&format!(
                "  {} of its files stay, other submissions have them as well\n",
                one.shared
            ));
        }
        text.push_str(&elsewhere(one));
    }
    text.push_str("nothing was changed. Database backups keep what they have until they end, and so does the bucket's soft delete\n");
    text.push_str(&format!(
        "to erase exactly this: the same command with --expect {token} --reason TEXT instead of --dry-run\n"
    ));
    text
}

/// What is not ours to remove.
fn elsewhere(one: &Erasable) -> String {
    let mut text = String::new();
    if one.mails > 0 {
        text.push_str(&format!("  not ours to remove: {} mails in their recipients' mailboxes\n", one.mails));
    }
    if let Some(ticket) = &one.ticket {
        text.push_str(&format!("  not ours to remove: ticket {} at the help desk\n", one_line(ticket)));
    }
    if one.reviews > 0 {
        text.push_str(&format!(
            "  {} entries of the review name it; what people wrote there goes when they are pruned\n",
            one.reviews
        ));
    }
    text
}
