//! `pause`: everything, a form, or a destination domain waits; nothing of it spends an attempt.
//!
//! Survives restarts of everything. A running daemon goes by it within two seconds; what is being sent is finished.

use std::time::Duration;

use jiff::Timestamp;

use super::desk::{self, Desk};
use super::{CliError, Context, Exit, operator, output};
use crate::journal;
use crate::ops::telemetry::EventName;
use crate::parts;
use crate::routing::explain::at;
use crate::routing::pause::{Pause, Scope};
use crate::routing::pauses::{NewPause, PauseBook, PauseError, Until};

/// What is meant; nothing named means everything.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub(super) struct Selector {
    /// One form, by its id
    #[arg(long, value_name = "FORM", conflicts_with = "destination_domain", value_parser = filled)]
    form: Option<String>,
    /// One destination domain
    #[arg(long, value_name = "DOMAIN", value_parser = domain)]
    destination_domain: Option<String>,
}

impl Selector {
    pub(super) fn scope(&self) -> Scope {
        match (&self.form, &self.destination_domain) {
            (Some(form), _) => Scope::Form(form.clone()),
            (None, Some(domain)) => Scope::destination(domain),
            (None, None) => Scope::All,
        }
    }
}

/// Arguments of `pause`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    what: Selector,
    /// Ends by itself at this time (RFC 3339) or after this duration, e.g. 2h; else when resumed
    #[arg(long, value_name = "TIME", value_parser = until)]
    until: Option<Until>,
    /// Why; recorded
    #[arg(long, value_name = "TEXT", value_parser = filled)]
    reason: String,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Pauses.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let desk = Desk::open(ctx)?;
    let book = book(&desk);
    let actor = operator::actor(&ctx.env);
    let Args { what, until, reason, json } = args;
    // Said, and done all the same: a form may come with the next YAML.
    if let Some(unknown) = desk.unknown_form(what.form.as_deref()).await {
        output::note(&format!("warning: {unknown}"))?;
    }
    let new = NewPause { scope: what.scope(), until, reason, actor };
    let pause = book.add(new).await.map_err(fault)?;
    journal!(
        warn,
        EventName::Override,
        verb = "pause",
        scope = pause.scope.label(),
        value = pause.scope.value(),
        actor = pause.actor,
        reason = pause.reason,
        "paused by {}: {}",
        pause.actor,
        pause.scope
    );
    if json {
        output::json(&pause)?;
    } else {
        output::text(&format!("paused: {}\nends: {}", line(&pause), pause.remedy()))?;
    }
    Ok(Exit::Done)
}

/// One line about a pause.
pub(super) fn line(pause: &Pause) -> String {
    let until = pause.until.map(|until| format!(" until {}", at(until))).unwrap_or_default();
    format!("{}{until}, since {} by {}: {}", pause.scope, at(pause.since), pause.actor, pause.reason)
}

/// Where pauses are kept.
pub(super) fn book(desk: &Desk) -> PauseBook {
    parts::pause_book(&desk.config, desk.pool())
}

pub(super) fn fault(error: PauseError) -> CliError {
    match error {
        PauseError::Database(error) => desk::database(error),
        PauseError::File { .. } | PauseError::Damaged { .. } => CliError::new(Exit::Unavailable, error),
    }
}

pub(super) fn filled(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() { Err("it must not be empty".to_owned()) } else { Ok(text.to_owned()) }
}

fn domain(text: &str) -> Result<String, String> {
    match Scope::destination(text) {
        Scope::Destination(domain) if !domain.is_empty() && !domain.contains(['@', ' ']) => Ok(domain),
        Scope::Destination(_) | Scope::All | Scope::Form(_) => {
            Err("write a domain, as in example.org".to_owned())
        }
    }
}

fn until(text: &str) -> Result<Until, String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(Until::At(at));
    }
    let span: Duration = humantime::parse_duration(text)
        .map_err(|_| "write a time as 2026-11-01T00:00:00Z, or a duration as 2h or 7d".to_owned())?;
    Ok(Until::In(span))
}
