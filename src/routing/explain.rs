//! Explanation of a submission's state, of its next step and time, and of the remedies (`explain`).
//!
//! Invariant: no I/O here; database time is an argument. The explanation follows the decisions of the claim, the finish
//! and the sweep, and decides nothing itself. Texts may contain a relay's words, on one line and without control
//! characters; they are for an operator's eyes and never for the journal.

mod around;
mod deferred;
mod ended;
mod event;
mod open;
#[cfg(test)]
mod tests;
pub mod tickets;
pub mod tracking;
pub mod version;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use uuid::Uuid;

use super::submission::grading::GradingAttempt;
use super::submission::ledger::{Delivery, DeliveryState, ErrorClass, Ledger, LedgerFault};
use super::submission::screening::{Gate, ScreeningRun};
use super::submission::text::{bounded, one_line};
use super::table::Status;
use crate::ports::{Reply, Stage};

pub use around::{Around, Daemon, Letter, Reason};
pub use event::Event;

/// The runbook for malware, on a host that has the package.
const INFECTED: &str = "/usr/share/doc/maple-router/runbooks/rb-008-infected-attachment.md";
/// Largest number of attachments named by their commands; a page is a screen.
const MOST_MARKED: usize = 3;

/// Longest part of a relay's reply that is shown, in characters.
const MAX_REPLY: usize = 120;

/// Limits and settings that decide the next step (protocol, "Defaults").
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Largest number of attempts of a submission.
    pub max_attempts: u32,
    /// Longest back-off of the configuration.
    pub longest_pause: Duration,
    /// A row not ready for this long is alerted.
    pub unready_alert_after: Duration,
    /// Whether deliveries in doubt are sent again; else they are put on hold (`routing.in_doubt`).
    pub resend: bool,
    /// Whether a webhook is configured: without one there are no notifications of failures.
    pub alerts: bool,
    /// Longest life of a link.
    pub link_ttl: Duration,
    /// `processing` untouched for this long is taken back.
    pub stuck_after: Duration,
    /// Interval of the sweep.
    pub sweep_interval: Duration,
    /// A due retry is left to its event for this long.
    pub due_grace: Duration,
    /// A ready row without an event is an orphan after this long.
    pub orphan_after: Duration,
    /// Earliest creation time of rows that the sweep handles.
    pub not_before: Option<Timestamp>,
    /// Whether there is a help desk: what was deferred without one can be made.
    pub tickets: bool,
}

/// One submission, in its state at `now`.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// Id of the submission.
    pub id: Uuid,
    /// Its form.
    pub form: &'a str,
    /// Status of the submission.
    pub status: Status,
    /// The ledger, or the reason why it is not believed.
    pub ledger: Result<&'a Ledger, &'a LedgerFault>,
    /// Whether the submission is finalized.
    pub finalized: bool,
    /// What screening and grading say.
    pub gate: Gate,
    /// Its current run of screening.
    pub run: Option<&'a ScreeningRun>,
    /// Its current attempt at grading.
    pub attempt: Option<&'a GradingAttempt>,
    /// Attachments still to be scanned.
    pub pending: &'a [Uuid],
    /// Infected attachments.
    pub infected: &'a [Uuid],
    /// Number of attachments in all.
    pub attachments: usize,
    /// Number of the form's current actions; absent where this version does not understand them.
    pub actions: Option<usize>,
    /// The event that brings the submission to a worker.
    pub event: &'a Event,
    /// Time of submission.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Time at which retention empties the submission.
    pub retention_expires_at: Option<Timestamp>,
    /// The end that whoever collects goes by; absent where nobody does.
    pub retained: Option<Retained<'a>>,
    /// Database time.
    pub now: Timestamp,
}

/// How long a submission that has ended is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retained<'a> {
    /// Its end; absent: none.
    pub ends_at: Option<Timestamp>,
    /// Why it stays whatever its end says, in words; absent where the end alone counts.
    pub kept: Option<&'a str>,
}

/// Explanation of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// Next step.
    pub next: Next,
    /// Reason of the present state.
    pub why: String,
    /// Remedies, most useful first; empty where no action is needed.
    pub remedy: Vec<Remedy>,
}

/// One remedy: a command, or advice where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remedy {
    /// Condition of the remedy; absent where it always applies.
    pub question: Option<&'static str>,
    /// The command, or the advice, as shown.
    pub line: String,
    /// Verb of `maple-router` that the command runs; a client leaves out verbs that its binary does not have.
    pub verb: Option<&'static str>,
}

impl Serialize for Remedy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.question {
            Some(question) => serializer.collect_str(&format_args!("{question} {}", self.line)),
            None => serializer.serialize_str(&self.line),
        }
    }
}

impl Remedy {
    fn advice(line: impl Into<String>) -> Self {
        Self { question: None, line: line.into(), verb: None }
    }

    /// `maple-router VERB REST`
    fn command(verb: &'static str, rest: &str) -> Self {
        let line = format!("maple-router {verb} {rest}").trim_end().to_owned();
        Self { question: None, line, verb: Some(verb) }
    }

    /// Adds the condition of the remedy.
    fn when(self, question: &'static str) -> Self {
        Self { question: Some(question), ..self }
    }
}

/// The next step of a submission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Next {
    /// Kind of step.
    pub code: Step,
    /// Description for people.
    pub what: String,
    /// Time of the step: latest, earliest or since, according to `what`; absent where none is known.
    pub when: Option<Timestamp>,
}

/// Kind of next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The backend finalizes the submission.
    Finalize,
    /// The attachments are scanned.
    Scan,
    /// Its screening ends.
    Screen,
    /// It is graded, or its mail is let go without.
    Grade,
    /// A worker claims it.
    Claim,
    /// Another attempt.
    Attempt,
    /// The worker that has claimed the submission ends its claim.
    Finish,
    /// The sweep takes the submission back.
    Rescue,
    /// The submission fails without being sent.
    Fail,
    /// The failure is reported.
    Alert,
    /// A newer version of this program is needed.
    Upgrade,
    /// Retention empties the submission.
    Purge,
    /// No step by itself.
    Nothing,
}

/// Explains a case.
#[must_use]
pub fn explain(case: &Case<'_>, rules: &Rules) -> Explanation {
    if let (Err(fault @ LedgerFault::Newer(_)), false) = (case.ledger, case.status == Status::Purged) {
        return Explanation {
            why: format!("{fault}; until then this program leaves it untouched"),
            next: Next::now(Step::Upgrade, "nothing by this version"),
            remedy: vec![Remedy::advice(
                "upgrade maple-router on this host, or ask the host that runs the newer one",
            )],
        };
    }
    match case.status {
        Status::Received => open::received(case, rules),
        Status::Processing => open::processing(case, rules),
        Status::Routed => ended::routed(case, rules),
        Status::Failed => ended::failed(case, rules),
        Status::Purged => Explanation {
            why: "its retention period has ended: its contents were removed, and what happened to it stands in the \
                  audit log only"
                .to_owned(),
            next: Next::now(Step::Nothing, "nothing any more"),
            remedy: Vec::new(),
        },
    }
}

impl Next {
    fn now(code: Step, what: impl Into<String>) -> Self {
        Self { code, what: what.into(), when: None }
    }

    fn at(code: Step, what: impl Into<String>, when: Timestamp) -> Self {
        Self { code, what: what.into(), when: Some(when) }
    }
}

impl Case<'_> {
    /// `maple-router VERB ID REST`
    fn command(&self, verb: &'static str, rest: &str) -> Remedy {
        Remedy::command(verb, &format!("{} {rest}", self.id))
    }

    /// The commands that mark attachments as clean.
    fn marked_clean(&self, ids: &[Uuid]) -> impl Iterator<Item = Remedy> {
        let marked = |id: &Uuid| Remedy::command("mark-attachment", &format!("{id} --clean --reason TEXT"));
        ids.iter().take(MOST_MARKED).map(marked).collect::<Vec<_>>().into_iter()
    }

    fn older_than(&self, since: Timestamp, age: Duration) -> bool {
        plus(since, age) <= self.now
    }

    /// Whether the sweep leaves the submission alone, because it was created before the router was installed.
    fn is_history(&self, rules: &Rules) -> bool {
        rules.not_before.is_some_and(|not_before| self.created_at < not_before)
    }
}

/// `at + by`, at most the last instant there is.
fn plus(at: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| at.checked_add(by).ok()).unwrap_or(Timestamp::MAX)
}

/// `1 attachment`, `2 attachments`.
fn number(count: usize, one: &str) -> String {
    let plural = match one.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{one}s"),
    };
    if count == 1 { format!("1 {one}") } else { format!("{count} {plural}") }
}

/// Deliveries in a state.
fn deliveries(ledger: &Ledger, state: DeliveryState) -> impl Iterator<Item = (&str, &Delivery)> {
    ledger.deliveries.iter().filter(move |(_, d)| d.state == state).map(|(key, d)| (key.as_str(), d))
}

/// The worst error of deliveries in `state`: one of a doubt first, then one with a server's code.
fn trouble(ledger: &Ledger, state: DeliveryState) -> Option<String> {
    deliveries(ledger, state)
        .filter_map(|(_, delivery)| delivery.error.as_ref())
        .min_by_key(|error| (error.class != ErrorClass::InDoubt, error.reply.code.is_none()))
        .map(|error| said(error.stage, &error.reply))
}

/// Formats as `RCPT 451 4.3.0 mailbox busy`, fit for a terminal.
#[must_use]
pub fn said(stage: Stage, reply: &Reply) -> String {
    let mut words = vec![stage_label(stage)];
    words.extend(reply.code.map(|code| code.to_string()));
    words.extend(reply.enhanced.as_deref().map(one_line));
    words.push(bounded(one_line(&reply.reply), MAX_REPLY));
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

/// A stage as the ledger writes it.
#[must_use]
pub fn stage_label(stage: Stage) -> String {
    match serde_json::to_value(stage) {
        Ok(serde_json::Value::String(label)) => label,
        Ok(_) | Err(_) => String::new(),
    }
}

/// Whether a delivery is perhaps delivered, as seen from outside: a recorded doubt, or an intent of a claim that is not
/// the live one.
#[must_use]
pub fn is_in_doubt(status: Status, ledger: &Ledger, delivery: &Delivery) -> bool {
    let live = match (status, &ledger.claim) {
        (Status::Processing, Some(claim)) => claim.token.as_str(),
        (Status::Received | Status::Processing | Status::Routed | Status::Failed | Status::Purged, _) => "",
    };
    delivery.in_doubt(live)
}

/// Formats a time for people: `2026-11-01 10:00:00Z`.
#[must_use]
pub fn at(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}
