//! `pause`: everything, a form, or a destination domain waits; no waiting spends an attempt.
//!
//! A pause survives restarts of everything. The verb answers when every daemon obeys it, or names those that may
//! not yet; a mail being sent is finished. Killed while it waits, the pause stays.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::setup::{self, Setup};
use super::{CliError, Context, Exit, operator, output};
use crate::journal;
use crate::ops::clock::SystemClock;
use crate::ops::telemetry::EventName;
use crate::routing::explain::at;
use crate::routing::pause::presence::Standing;
use crate::routing::pause::{Pause, Scope};
use crate::routing::upkeep::pauses::{NewPause, Reach, Until};

/// Scope of the pause; nothing named means everything.
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
    /// Also a form that is not there: it may come with the next YAML
    #[arg(long, requires = "form")]
    force: bool,
    #[command(flatten)]
    waiting: Waiting,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Patience with the daemons.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct Waiting {
    /// Wait so long for the daemons to go by it
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = humantime::parse_duration)]
    wait: Duration,
}

impl Waiting {
    pub(super) fn patience(self) -> Duration {
        self.wait
    }
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    pause: Pause,
    /// The pause that this one replaces.
    replaced: Option<Pause>,
    #[serde(flatten)]
    standing: Standing,
}

/// Runs the verb.
pub(super) async fn run(ctx: &Context, args: Args) -> Result<Exit, CliError> {
    let setup = Setup::open(ctx)?;
    let pause_store = setup.pauses();
    let actor = operator::actor(&ctx.env);
    let Args { what, until, reason, force, waiting, json } = args;
    if let Some(unknown) = setup.unknown_form(what.form.as_deref()).await {
        if !force {
            return Err(CliError::new(Exit::FoundWanting, anyhow::anyhow!("{unknown}; nothing was paused"))
                .remedy(
                    "compare the id with `maple-router list`; --force pauses a form that is still to come",
                ));
        }
        output::note(&format!("warning: {unknown}"))?;
    }
    let new = NewPause { scope: what.scope(), until, reason, actor };
    let (pause, replaced) = pause_store.add(new).await.map_err(setup::pauses)?;
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
    let (standing, reach) = pause_store.confirmed(waiting.wait, &SystemClock).await.map_err(setup::pauses)?;
    let exit = if standing.is_settled() { Exit::Done } else { Exit::FoundWanting };
    if json {
        output::json(&Report { pause, replaced, standing })?;
        return Ok(exit);
    }
    let replaced = replaced.map(|old| format!("in place of: {}\n", line(&old))).unwrap_or_default();
    output::text(&format!("paused: {}\n{replaced}ends: {}", line(&pause), pause.remedy()))?;
    say(&standing, reach, waiting)?;
    Ok(exit)
}

/// Prints which daemons obey the change, for people.
pub(super) fn say(standing: &Standing, reach: Reach, waiting: Waiting) -> Result<(), CliError> {
    for line in standing_lines(standing, reach, waiting.wait) {
        output::note(&line)?;
    }
    Ok(())
}

fn standing_lines(standing: &Standing, reach: Reach, waited: Duration) -> Vec<String> {
    let Standing { confirmed_by, unconfirmed, silent } = standing;
    let mut lines = Vec::new();
    let whose = match reach {
        Reach::Database => "of this database",
        Reach::Host | Reach::HostOfSeveral => "of this host",
        Reach::Nobody => {
            let how = "no daemon can be asked by this user: they go by it within two seconds (`maple-router migrate --router` adds \
                       what is missing, 003)";
            return vec![how.to_owned()];
        }
    };
    match (confirmed_by.len(), unconfirmed.is_empty()) {
        (0, true) => lines.push(format!("no daemon {whose} runs: it is in force when one starts")),
        (_, true) => lines.push(format!("in force: confirmed by {}", confirmed_by.join(", "))),
        (_, false) => lines.push(format!(
            "NOT CONFIRMED within {} by {}: it may go by the old state still; look whether it runs \
             (systemctl status maple-router), and repeat",
            humantime::format_duration(waited),
            unconfirmed.join(", ")
        )),
    }
    if !silent.is_empty() {
        lines.push(format!(
            "not waited for, since it has shown no sign of life lately: {}; should it come back, it goes by this within two seconds",
            silent.join(", ")
        ));
    }
    if reach == Reach::HostOfSeveral {
        lines.push(
            "daemons of other hosts cannot be asked, and go by it within two seconds: `maple-router migrate --router` adds \
             what is missing (003)"
                .to_owned(),
        );
    }
    lines
}

/// One line about a pause.
pub(super) fn line(pause: &Pause) -> String {
    let until = pause.until.map(|until| format!(" until {}", at(until))).unwrap_or_default();
    format!("{}{until}, since {} by {}: {}", pause.scope, at(pause.since), pause.actor, pause.reason)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_who_goes_by_it() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let standing = |confirmed: &[&str], unconfirmed: &[&str], silent: &[&str]| Standing {
            confirmed_by: names(confirmed),
            unconfirmed: names(unconfirmed),
            silent: names(silent),
        };
        let cases = [
            (standing(&["h/1", "h/2"], &[], &[]), Reach::Database, &["in force: confirmed by h/1, h/2"][..]),
            (standing(&[], &[], &[]), Reach::Database, &["no daemon of this database runs"]),
            (standing(&[], &[], &[]), Reach::Host, &["no daemon of this host runs"]),
            (standing(&[], &[], &[]), Reach::Nobody, &["no daemon can be asked"]),
            (standing(&["h/1"], &["h/2"], &[]), Reach::Host, &["NOT CONFIRMED within 10s by h/2:"]),
            (
                standing(&["h/1"], &[], &["h/2 (40 s ago)"]),
                Reach::HostOfSeveral,
                &["in force", "h/2 (40 s ago)", "other hosts"],
            ),
        ];
        for (standing, reach, expected) in cases {
            let lines = standing_lines(&standing, reach, Duration::from_secs(10));
            assert_eq!(lines.len(), expected.len(), "{lines:?}");
            for (line, words) in lines.iter().zip(expected) {
                assert!(line.contains(words), "{line}");
            }
        }
    }
}
