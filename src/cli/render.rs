//! `render`: the exact mails a submission would cause. Sends and writes nothing.
//!
//! The links in a mail are real, so the journal records that they were shown, as `links` does.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;
use uuid::Uuid;

use super::id::{self, IdArg};
use super::setup::{self, Setup};
use super::{CliError, Context, Exit, operator, output};
use crate::journal;
use crate::ops::rng::Rng;
use crate::ops::telemetry::EventName;
use crate::parts;
use crate::routing::store::view::Scan;
use crate::routing::table::Status;
use crate::routing::worker::prepare::{RenderError, RenderScope, Rendered};

/// Arguments of `render`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Submission id, or its beginning
    #[arg(value_name = "ID", value_parser = id::parse)]
    pub(super) id: IdArg,
    /// Only the action with this action_order
    #[arg(long, value_name = "N")]
    pub(super) action: Option<i32>,
    /// A JSON array
    #[arg(long)]
    pub(super) json: bool,
}

/// One mail (interfaces page, `render`).
#[derive(Debug, Serialize)]
struct Mail {
    action_order: i32,
    recipients: Vec<String>,
    message_id: String,
    /// The message as it goes to the relay.
    eml: String,
    /// Some delivery of the mail is still to be sent.
    open: bool,
    /// Names that its templates ask for and that have no value.
    missing: Vec<String>,
}

/// Prints the mails.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let setup = Setup::open(ctx)?;
    let id = setup.submission(&args.id).await?;
    let view = setup.look(id).await?;
    if view.status == Status::Purged {
        return Err(wanting(format!("{id} is purged: its contents were removed")));
    }
    let ledger = view
        .ledger
        .map_err(|fault| wanting(fault.to_string()).remedy(format!("maple-router explain {id}")))?;
    let current = match &view.current {
        Ok(current) => current.as_slice(),
        Err(_) if !ledger.plan.is_empty() => &[],
        Err(why) => return Err(wanting(format!("the form's actions are not understood: {why}"))),
    };
    let linkable: HashSet<Uuid> =
        view.attachments.iter().filter(|scan| scan.is_clean()).map(|scan| scan.id).collect();
    let scope = RenderScope {
        id,
        ledger: &ledger,
        current,
        action_order: args.action,
        linkable: &linkable,
        max_recipients: setup.config.mail.max_recipients,
    };
    let preparer =
        parts::preparer(&setup.config, setup.store()?, Arc::new(Rng::from_system())).map_err(setup::part)?;
    let mails = preparer.render(&scope).await.map_err(unrendered)?;
    let links: usize = mails.iter().map(|mail| mail.links).max().unwrap_or(0);
    if links > 0 {
        journal!(
            warn,
            EventName::Override,
            submission_id = %id,
            form_id = view.form_id,
            actor = operator::actor(&ctx.env),
            verb = "render",
            links,
            "an operator was shown mails with working links"
        );
    }
    let shown: Vec<Mail> = mails.into_iter().map(Mail::from).collect();
    if args.json {
        output::json(&shown)?;
    } else {
        for mail in &shown {
            output::text(&text(mail))?;
        }
    }
    for note in notes(&shown, &view.attachments) {
        output::note(&note)?;
    }
    let gaps: Vec<String> = shown.iter().filter_map(gap).collect();
    if gaps.is_empty() {
        return Ok(Exit::Done);
    }
    Err(wanting(gaps.join("; ")).remedy(
        "where the field may be away, say so in the template (`if`, `default`); else correct its name in the YAML, load it, \
         and render again",
    ))
}

/// Why a mail shown as a sample is refused: a gap, which a real one would show.
fn gap(mail: &Mail) -> Option<String> {
    let names = mail.missing.join(", ");
    let order = mail.action_order;
    (!names.is_empty()).then(|| {
        format!("action {order}: its templates ask for what this submission does not have: {names}; the mail says [missing: …] there")
    })
}

impl From<Rendered> for Mail {
    fn from(mail: Rendered) -> Self {
        Self {
            action_order: mail.action_order,
            recipients: mail.recipients,
            message_id: mail.message_id,
            // ASCII by construction.
            eml: String::from_utf8_lossy(&mail.message).into_owned(),
            open: mail.open,
            missing: mail.missing,
        }
    }
}

fn text(mail: &Mail) -> String {
    let to = if mail.recipients.is_empty() { "nobody".to_owned() } else { mail.recipients.join(", ") };
    format!("==== action {} to {to}\n{}\n", mail.action_order, mail.eml.replace("\r\n", "\n").trim_end())
}

/// Notes that the mails alone would not give.
fn notes(mails: &[Mail], attachments: &[Scan]) -> Vec<String> {
    let mut notes = Vec::new();
    if mails.is_empty() {
        notes.push("no mail: the form has no action that is carried out by mail".to_owned());
    }
    for mail in mails.iter().filter(|mail| !mail.open) {
        notes.push(format!(
            "action {}: nothing of it is open; this is its mail all the same",
            mail.action_order
        ));
    }
    for mail in mails.iter().filter(|mail| mail.recipients.is_empty()) {
        notes.push(format!("action {}: no usable recipient; it would be refused", mail.action_order));
    }
    let left_out = attachments.iter().filter(|scan| !scan.is_clean()).count();
    if left_out > 0 {
        notes.push(format!(
            "{left_out} of {} attachments not clean: left out here, and nothing is sent before all of them are",
            attachments.len()
        ));
    }
    notes
}

fn wanting(what: String) -> CliError {
    CliError::new(Exit::FoundWanting, anyhow::anyhow!(what))
}

fn unrendered(error: RenderError) -> CliError {
    match error {
        RenderError::Database(error) => setup::database(error),
        RenderError::Unsigned(_) => CliError::new(Exit::Unavailable, error)
            .remedy("`maple-router check` tells what signing needs (lines signing and link)"),
        RenderError::Gone(_) | RenderError::NoSuchAction { .. } | RenderError::Unmakeable(_) => {
            CliError::new(Exit::FoundWanting, error)
        }
    }
}
