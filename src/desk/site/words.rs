//! Values of the grey queue in the words of pages. Pure.

use serde_json::Value;

use crate::desk::pages::decision::{Command, HistoryLine, Remedy as Offered};
use crate::desk::pages::entry::{EntryFacts, Escalation, Fact, Job, Rejection};
use crate::desk::pages::plain;
use crate::desk::pages::queue::{Choice, EntryLine, StateCount};
use crate::grey_queue::decide::Verb;
use crate::grey_queue::entry::{Entry, Moved};
use crate::grey_queue::table::State;
use crate::kernel::subject::Remedy;

/// The causes that entries have today.
const CAUSES: [(&str, &str); 10] = [
    ("failed", "routing failed"),
    ("infected", "an attachment is infected"),
    ("late_infection", "an infected file was mailed"),
    ("bounced", "mail came back"),
    ("dead_letter", "a dead letter"),
    ("screening", "screening asks"),
    ("screening_job", "a screening job failed"),
    ("grading", "a work waits for a person's grade"),
    ("grading_failed", "grading failed"),
    ("grading_message", "a message of grading was set aside"),
];
/// Their reasons.
const REASONS: [&str; 23] = [
    "refused",
    "exhausted",
    "in_doubt",
    "no_actions",
    "ledger_damaged",
    "unknown",
    "infected",
    "bounced",
    "expired",
    "unreadable",
    "unknown_submission",
    "notification",
    "concerns",
    "unavailable",
    "poison",
    "content_changed",
    "source_network",
    "git_unavailable",
    "vendor_block",
    "critical",
    "high",
    "medium",
    "timeout",
];

pub(super) fn choice(value: &str, label: &str) -> Choice {
    Choice { value: value.to_owned(), label: label.to_owned() }
}

pub(super) fn causes() -> Vec<Choice> {
    CAUSES.iter().map(|(value, label)| choice(value, label)).collect()
}

pub(super) fn reasons() -> Vec<Choice> {
    REASONS.iter().map(|value| choice(value, &plain::words(value))).collect()
}

/// A row of a list.
pub(super) fn line(entry: &Entry) -> EntryLine {
    EntryLine {
        id: entry.id,
        version: entry.version,
        state: entry.state.label().to_owned(),
        what: plain::heading(&entry.cause, &entry.reason).to_owned(),
        why: why(entry),
        form_id: entry.form_id.clone(),
        queue: entry.queue.clone(),
        occurrences: count(entry.occurrences),
        assignee: entry.assignee.clone(),
        opened_at: entry.opened_at,
        state_since: entry.state_since,
        expires_at: entry.expires_at.filter(|_| entry.state.is_open()),
    }
}

/// `refused at example.org, 5.1.1`
fn why(entry: &Entry) -> String {
    let text = |name: &str| entry.detail.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let mut words = plain::words(&entry.reason);
    if let Some(domain) = text("domain") {
        words.push_str(&format!(" at {domain}"));
    }
    if let Some(code) = text("code") {
        words.push_str(&format!(", {code}"));
    }
    words
}

fn count(occurrences: i32) -> u64 {
    u64::try_from(occurrences).unwrap_or_default()
}

/// The facts of an entry; the name of its form where it is known.
pub(super) fn facts(entry: &Entry, form_name: Option<String>, max_attempts: u32) -> EntryFacts {
    EntryFacts {
        id: entry.id,
        version: entry.version,
        state: entry.state.label().to_owned(),
        heading: plain::heading(&entry.cause, &entry.reason),
        meaning: plain::meaning(&entry.cause, &entry.reason).to_owned(),
        cause: entry.cause.clone(),
        reason: entry.reason.clone(),
        queue: entry.queue.clone(),
        subject_kind: entry.subject.kind.clone(),
        subject_id: entry.subject.id,
        form_id: entry.form_id.clone(),
        form_name,
        occurrences: count(entry.occurrences),
        opened_at: entry.opened_at,
        seen_at: entry.seen_at,
        state_since: entry.state_since,
        expires_at: entry.expires_at,
        closed_at: entry.closed_at,
        assignee: entry.assignee.clone(),
        escalation: entry.escalation.as_ref().map(|one| Escalation {
            reason: one.reason.clone(),
            by: one.by.clone().unwrap_or_else(|| "system".to_owned()),
            at: one.at,
            alerted_at: one.notified_at,
        }),
        rejection: entry
            .rejection
            .as_ref()
            .map(|one| Rejection { reason: one.reason.clone(), by: one.by.clone() }),
        resolution: entry.resolution.as_ref().map(|resolved| resolved.how.label().to_owned()),
        job: job(entry, max_attempts),
        detail: detail(&entry.detail),
    }
}

fn job(entry: &Entry, max_attempts: u32) -> Option<Job> {
    let job = entry.job.as_ref()?;
    let waits = matches!(entry.state, State::Processing | State::Retrying);
    Some(Job {
        remedy: job.remedy.label().to_owned(),
        attempts: job.attempts,
        max_attempts,
        next_at: waits.then_some(job.next_at),
        asked_by: job.requested_by.clone(),
    })
}

fn detail(detail: &Value) -> Vec<Fact> {
    let shown = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    };
    let object = detail.as_object().into_iter().flatten();
    object.map(|(name, value)| Fact { name: name.clone(), value: shown(value) }).collect()
}

pub(super) fn history(lines: &[Moved]) -> Vec<HistoryLine> {
    let line = |line: &Moved| HistoryLine {
        at: line.at,
        who: line.by.clone(),
        command: line.command.clone(),
        from: line.from.clone(),
        to: line.to.clone(),
        reason: line.reason.clone(),
        version: line.version,
    };
    lines.iter().map(line).collect()
}

pub(super) fn command(verb: Verb) -> Command {
    match verb {
        Verb::Assign => Command::Assign,
        Verb::Unassign => Command::Unassign,
        Verb::Escalate => Command::Escalate,
        Verb::DeEscalate => Command::DeEscalate,
        Verb::Resolve => Command::Resolve,
        Verb::Reject => Command::Reject,
        Verb::Dismiss => Command::Dismiss,
        Verb::Reopen => Command::Reopen,
        Verb::Reset => Command::Reset,
        Verb::Start => Command::Start,
    }
}

/// A remedy as a choice; `None` for one that takes more than a choice.
pub(super) fn remedy(remedy: Remedy, recipients: &[Choice]) -> Option<Offered> {
    let (label, hint) = match remedy {
        Remedy::Check => {
            ("looking again", "Nothing is sent. It ends when what was mended elsewhere is seen.")
        }
        Remedy::Replay => (
            "a replay",
            "Routes it again by the plan of its first attempt. Only what nobody has accepted is sent.",
        ),
        Remedy::Replan => (
            "a replay with a new plan",
            "Routes it again by the form's actions as they are now. Whoever has it already gets no second mail.",
        ),
        Remedy::Release => {
            ("giving its claim back", "For a submission that a worker holds and does not end.")
        }
        Remedy::Redrive => ("redriving the event", "The event is delivered again, as if it had just come."),
        Remedy::ForceDelivery if recipients.is_empty() => return None,
        Remedy::ForceDelivery => (
            "one more mail to one recipient",
            "For a mail that the relay accepted and nobody has: sent again to this recipient alone, as a mail of its own.",
        ),
    };
    let recipients = if remedy == Remedy::ForceDelivery { recipients.to_vec() } else { Vec::new() };
    Some(Offered {
        value: remedy.label().to_owned(),
        label: label.to_owned(),
        hint: hint.to_owned(),
        recipients,
    })
}

/// All states with their counts; closed ones are not counted.
pub(super) fn counts(open: &[(State, u64)]) -> Vec<StateCount> {
    let count = |state: &State| StateCount {
        state: state.label().to_owned(),
        count: open.iter().find(|(known, _)| known == state).map_or(0, |(_, count)| *count),
        open: state.is_open(),
    };
    State::ALL.iter().map(count).collect()
}
