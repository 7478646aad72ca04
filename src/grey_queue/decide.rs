//! What a person's command does to an entry: the steps through the table, or why not. Pure.
//!
//! A command is read under the entry's lock; it may be several transitions (a remedy asked for during a review is "unassign"
//! and "start"), each of them recorded.

mod refusal;
mod steps;

#[cfg(test)]
pub(super) mod tests;

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

pub use refusal::Refusal;
pub use steps::{Plan, Step};

use super::entry::{Entry, LATE_INFECTION, Resolution};
use super::table::{ADMIN, Command, INSTRUCTOR, REVIEWER, State};
use crate::kernel::Who;
use crate::kernel::subject::{Deciding, Evidence, Looked, Remedy};
use crate::scrub::scrub;
use crate::words;
use steps::Steps;

words! {
    /// The commands that people give, as the API spells them.
    Verb {
        /// Take it, or give it to somebody.
        Assign = "assign",
        /// Give it back.
        Unassign = "unassign",
        /// Ask the security team.
        Escalate = "escalate",
        /// Give it back to a reviewer.
        DeEscalate = "de-escalate",
        /// It is done, or a remedy will do it.
        Resolve = "resolve",
        /// It is not to be acted upon.
        Reject = "reject",
        /// Set it aside.
        Dismiss = "dismiss",
        /// Open it again.
        Reopen = "reopen",
        /// Have it tried from the beginning.
        Reset = "reset",
        /// Begin a remedy.
        Start = "start",
    }
}

/// Somebody who gives commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// The name, as of `[desk.users]`, or the user of the host.
    pub name: String,
    /// The role.
    pub role: Who,
    /// The name in records: `reviewer:anna`, `operator:root`.
    pub label: String,
}

/// A command and what was said with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// The command.
    pub verb: Verb,
    /// Why; recorded.
    pub reason: Option<String>,
    /// Who is to review it; absent: whoever asks.
    pub assignee: Option<String>,
    /// Take it from its reviewer.
    pub take_over: bool,
    /// What the security team is asked.
    pub escalation_reason: Option<String>,
    /// What mends the subject.
    pub remedy: Option<Remedy>,
    /// The delivery, for [`Remedy::ForceDelivery`].
    pub delivery: Option<String>,
    /// The person vouches that it is done, whatever the evidence.
    pub vouch: bool,
}

impl Ask {
    /// The command alone.
    #[must_use]
    pub fn plain(verb: Verb) -> Self {
        Self {
            verb,
            reason: None,
            assignee: None,
            take_over: false,
            escalation_reason: None,
            remedy: None,
            delivery: None,
            vouch: false,
        }
    }

    /// The command with a reason.
    #[must_use]
    pub fn because(verb: Verb, reason: &str) -> Self {
        Self { reason: Some(reason.to_owned()), ..Self::plain(verb) }
    }
}

/// What a decision rests on beside the entry.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// The database's time.
    pub now: Timestamp,
    /// For how long a reviewer keeps an entry before anybody may take it over.
    pub takeover_after: Duration,
    /// The role of a user; absent for nobody's name.
    pub role_of: &'a (dyn Fn(&str) -> Option<Who> + Send + Sync),
    /// The remedies of this kind of subject.
    pub remedies: &'a [Remedy],
    /// How people decide about this kind of subject, where its entry is its own last word.
    pub deciding: Option<Deciding>,
    /// The subject, where it was looked at.
    pub looked: Option<&'a Looked>,
}

/// Longest reason, in characters.
pub const LONGEST: usize = 2_000;
/// The queue that reviewers only read.
const SECURITY_QUEUE: &str = "security";
/// The queue of whoever grades: its entries end with a grade, which is given in the same transaction.
pub const GRADING_QUEUE: &str = "grading";

/// Returns the steps that `ask` takes, or why it takes none.
///
/// # Errors
/// [`Refusal`].
pub fn decide(entry: &Entry, ask: &Ask, person: &Person, rules: &Rules<'_>) -> Result<Plan, Refusal> {
    let steps = Steps::new(entry, person, rules, said("reason", ask.reason.as_deref())?);
    let legal = verbs(entry, rules.deciding);
    if !legal.contains(&ask.verb) {
        return Err(Refusal::not_possible(entry, ask.verb, legal));
    }
    permitted(entry, ask, person)?;
    match ask.verb {
        Verb::Assign => assign(steps, ask),
        Verb::Unassign => Ok(steps.back_to_pending(Command::Unassign)?.plan()),
        Verb::Escalate => {
            let why = required("escalation_reason", ask.escalation_reason.as_deref())?;
            Ok(steps.escalate(&why)?.plan())
        }
        Verb::DeEscalate => {
            let to = ask.assignee.clone().or_else(|| entry.assignee.clone());
            let to = to.filter(|to| reviews(to, entry, rules)).unwrap_or_else(|| person.name.clone());
            able("assignee", &to, entry, person, rules)?;
            Ok(steps.de_escalate(&to)?.plan())
        }
        Verb::Resolve => resolve(steps.reasoned()?, ask),
        Verb::Reject => Ok(steps.reasoned()?.reject()?.plan()),
        Verb::Dismiss => Ok(steps.reasoned()?.dismiss()?.plan()),
        Verb::Reopen if entry.state == State::Failed => {
            Ok(steps.reasoned()?.back_to_pending(Command::Reset)?.plan())
        }
        Verb::Reopen => Ok(steps.reasoned()?.back_to_pending(Command::Reopen)?.plan()),
        Verb::Reset => Ok(steps.reasoned()?.back_to_pending(Command::Reset)?.plan()),
        Verb::Start => {
            let remedy =
                remedy(ask, rules)?.ok_or_else(|| Refusal::guard("remedy", one_of(rules.remedies)))?;
            let steps = steps.reasoned()?;
            Ok(steps.start(remedy, ask.delivery.clone())?.plan())
        }
    }
}

/// The commands that a state has, whoever asks. An entry that is its subject's own last word is taken, escalated, and then resolved;
/// or rejected. One of queue grading is resolved by whoever has taken it; that a grade is owed whatever was handed in, its
/// room says to whoever rejects it.
#[must_use]
pub fn verbs(entry: &Entry, deciding: Option<Deciding>) -> &'static [Verb] {
    if deciding.is_some() && entry.queue == GRADING_QUEUE {
        return match entry.state {
            State::Pending => &[Verb::Assign],
            State::UnderReview => {
                &[Verb::Assign, Verb::Unassign, Verb::Escalate, Verb::Resolve, Verb::Reject]
            }
            State::Escalated => &[Verb::DeEscalate, Verb::Resolve, Verb::Reject],
            State::Processing
            | State::Retrying
            | State::Resolved
            | State::Rejected
            | State::Failed
            | State::Expired
            | State::Dismissed => &[],
        };
    }
    if deciding.is_some() {
        return match entry.state {
            State::Pending => &[Verb::Assign],
            State::UnderReview => &[Verb::Assign, Verb::Unassign, Verb::Escalate, Verb::Reject],
            State::Escalated => &[Verb::Resolve, Verb::Reject],
            State::Processing
            | State::Retrying
            | State::Resolved
            | State::Rejected
            | State::Failed
            | State::Expired
            | State::Dismissed => &[],
        };
    }
    match entry.state {
        State::Pending => &[Verb::Assign, Verb::Resolve, Verb::Start, Verb::Dismiss],
        State::Processing => &[Verb::Assign],
        State::Retrying | State::Resolved | State::Expired => &[],
        State::UnderReview => &[Verb::Assign, Verb::Unassign, Verb::Escalate, Verb::Resolve, Verb::Reject],
        State::Escalated => &[Verb::DeEscalate, Verb::Resolve, Verb::Reject],
        State::Rejected | State::Dismissed => &[Verb::Reopen],
        State::Failed => &[Verb::Reopen, Verb::Reset],
    }
}

/// Whether a role is one that decides about entries of this queue.
fn decides(role: Who, queue: &str) -> bool {
    if role == INSTRUCTOR {
        return queue == GRADING_QUEUE;
    }
    super::table::PEOPLE.contains(&role) && !(queue == SECURITY_QUEUE && role == REVIEWER)
}

/// Whose entry it is: the security queue's are its team's, one under review its reviewer's; an instructor's are those of queue grading.
fn permitted(entry: &Entry, ask: &Ask, person: &Person) -> Result<(), Refusal> {
    let grades = person.role == INSTRUCTOR;
    if grades && entry.queue != GRADING_QUEUE {
        return Err(Refusal::not_allowed("an instructor decides about entries of queue grading alone"));
    }
    if !grades && !super::table::PEOPLE.contains(&person.role) {
        return Err(Refusal::not_allowed(
            "a viewer decides nothing: this needs role reviewer, security or admin",
        ));
    }
    if entry.queue == SECURITY_QUEUE && person.role == REVIEWER {
        return Err(Refusal::not_allowed(
            "entries of queue security are decided by roles security and admin",
        ));
    }
    let takes_over = ask.verb == Verb::Assign;
    let is_anothers = entry.assignee.as_deref() != Some(person.name.as_str());
    let is_bound = grades || person.role == REVIEWER;
    if entry.state == State::UnderReview && is_anothers && !takes_over && is_bound {
        let whose = entry.assignee.as_deref().unwrap_or("nobody");
        return Err(Refusal::not_allowed(format!(
            "it is under review by {whose}: its reviewer, security or admin may do this; `assign` with take_over takes it"
        )));
    }
    Ok(())
}

fn assign(steps: Steps<'_>, ask: &Ask) -> Result<Plan, Refusal> {
    let (entry, person, rules) = (steps.entry, steps.person, steps.rules);
    let to = ask.assignee.clone().unwrap_or_else(|| person.name.clone());
    able("assignee", &to, entry, person, rules)?;
    if to != person.name && person.role != ADMIN {
        return Err(Refusal::not_allowed(
            "others are assigned by an admin; without `assignee` it becomes yours",
        ));
    }
    if entry.state != State::UnderReview {
        return Ok(steps.assign(&to)?.plan());
    }
    let whose = entry.assignee.as_deref().unwrap_or_default();
    if whose == to {
        return Err(Refusal::guard("assignee", format!("it is under review by {to} already")));
    }
    if !ask.take_over {
        return Err(Refusal::guard(
            "take_over",
            format!("it is under review by {whose}; take_over takes it from there"),
        ));
    }
    let had = entry.assigned_at.map(|since| rules.now.duration_since(since));
    let long =
        had.and_then(|had| Duration::try_from(had).ok()).is_some_and(|had| had >= rules.takeover_after);
    if person.role != ADMIN && !long {
        return Err(Refusal::not_allowed(format!(
            "{whose} has it for less than {}: until then an admin may take it over",
            humantime::format_duration(rules.takeover_after)
        )));
    }
    Ok(steps.back_to_pending(Command::Unassign)?.assign(&to)?.plan())
}

/// Honest: by evidence, by a remedy that brings it, or by somebody who vouches and is named for it.
fn resolve(steps: Steps<'_>, ask: &Ask) -> Result<Plan, Refusal> {
    let (entry, person, rules) = (steps.entry, steps.person, steps.rules);
    if let Some(deciding) = rules.deciding {
        if deciding.four_eyes
            && entry.escalation.as_ref().and_then(|asked| asked.by.as_deref()) == Some(person.name.as_str())
        {
            return Err(Refusal::not_allowed(
                "whoever escalated it does not approve it: four eyes look at it",
            ));
        }
        return Ok(steps.resolve(Resolution::Owner)?.plan());
    }
    if let Some(remedy) = remedy(ask, rules)? {
        if ask.vouch {
            return Err(Refusal::guard(
                "vouch",
                "a remedy is judged by its evidence: vouch, or name a remedy, not both",
            ));
        }
        let steps = match entry.state {
            State::Escalated => steps.de_escalate(&person.name)?.back_to_pending(Command::Unassign)?,
            State::UnderReview => steps.back_to_pending(Command::Unassign)?,
            State::Pending
            | State::Processing
            | State::Retrying
            | State::Resolved
            | State::Rejected
            | State::Failed
            | State::Expired
            | State::Dismissed => steps,
        };
        return Ok(steps.start(remedy, ask.delivery.clone())?.plan());
    }
    let how = match (ask.vouch, rules.looked) {
        (true, _) => Resolution::Vouched,
        (false, Some(Looked::Sufficient(_))) if entry.cause == LATE_INFECTION => {
            let what = "that it was delivered is what is wrong: recall its links, tell whoever has the file, and vouch";
            return Err(Refusal::EvidenceMissing(vec![what.to_owned()]));
        }
        (false, Some(Looked::Sufficient(evidence))) => resolution(*evidence),
        (false, Some(Looked::Missing { what, .. })) => return Err(Refusal::EvidenceMissing(what.clone())),
        (false, Some(Looked::Gone)) => {
            return Err(Refusal::EvidenceMissing(vec!["retention has emptied its subject".to_owned()]));
        }
        (false, None) => {
            return Err(Refusal::EvidenceMissing(vec!["its subject could not be looked at".to_owned()]));
        }
    };
    let steps = if entry.state == State::Pending { steps.assign(&person.name)? } else { steps };
    Ok(steps.resolve(how)?.plan())
}

/// The resolution that evidence brings.
#[must_use]
pub fn resolution(evidence: Evidence) -> Resolution {
    match evidence {
        Evidence::Delivered => Resolution::Delivered,
        Evidence::Routed => Resolution::Routed,
        Evidence::Redriven => Resolution::Redriven,
    }
}

fn remedy(ask: &Ask, rules: &Rules<'_>) -> Result<Option<Remedy>, Refusal> {
    let Some(remedy) = ask.remedy else { return Ok(None) };
    if !rules.remedies.contains(&remedy) {
        return Err(Refusal::guard("remedy", one_of(rules.remedies)));
    }
    if remedy == Remedy::ForceDelivery && ask.delivery.as_deref().is_none_or(|key| key.trim().is_empty()) {
        return Err(Refusal::guard(
            "delivery",
            "force_delivery needs the key of the delivery, as `explain` shows it",
        ));
    }
    Ok(Some(remedy))
}

fn one_of(remedies: &[Remedy]) -> String {
    if remedies.is_empty() {
        return "none: an infected file that was mailed has no remedy but a person's".to_owned();
    }
    let labels: Vec<&str> = remedies.iter().map(|remedy| remedy.label()).collect();
    format!("one of: {}", labels.join(", "))
}

fn able(
    field: &'static str,
    to: &str,
    entry: &Entry,
    person: &Person,
    rules: &Rules<'_>,
) -> Result<(), Refusal> {
    // Whoever asks was let in a moment ago; at the command line there need be no user of that name.
    if to == person.name || reviews(to, entry, rules) {
        return Ok(());
    }
    let role = match entry.queue.as_str() {
        SECURITY_QUEUE => "security or admin",
        GRADING_QUEUE => "instructor, reviewer, security or admin",
        _ => "reviewer, security or admin",
    };
    Err(Refusal::guard(
        field,
        format!("{to} is no user of the desk with role {role}; see [desk.users] on the host"),
    ))
}

fn reviews(name: &str, entry: &Entry, rules: &Rules<'_>) -> bool {
    (rules.role_of)(name).is_some_and(|role| decides(role, &entry.queue))
}

/// A text that people wrote, without addresses.
fn said(field: &'static str, text: Option<&str>) -> Result<Option<String>, Refusal> {
    // PostgreSQL's texts have no NUL.
    let text = text.map(|text| text.replace('\0', ""));
    let Some(text) = text.as_deref().map(str::trim).filter(|text| !text.is_empty()) else { return Ok(None) };
    let text = scrub(text);
    if text.chars().count() > LONGEST {
        return Err(Refusal::guard(field, format!("at most {LONGEST} characters")));
    }
    Ok(Some(text))
}

fn required(field: &'static str, text: Option<&str>) -> Result<String, Refusal> {
    said(field, text)?.ok_or_else(|| Refusal::guard(field, "it is kept for those who ask later: say why"))
}

/// A command of a state, and whether this person may give it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Possible {
    /// The command.
    pub command: Verb,
    /// The state it leads to at once.
    pub to: State,
    /// Whether it is possible for whoever asks.
    pub allowed: bool,
    /// Why not.
    pub why_not: Option<String>,
    /// What must be said with it.
    pub requires: &'static [&'static str],
}

/// The commands that the entry's state has, each judged for `person`.
#[must_use]
pub fn possible(entry: &Entry, person: &Person, rules: &Rules<'_>) -> Vec<Possible> {
    verbs(entry, rules.deciding).iter().map(|verb| judged(entry, *verb, person, rules)).collect()
}

fn judged(entry: &Entry, verb: Verb, person: &Person, rules: &Rules<'_>) -> Possible {
    let why = "a reason";
    let ask = Ask {
        take_over: true,
        escalation_reason: Some(why.to_owned()),
        remedy: (verb == Verb::Start).then(|| rules.remedies.first().copied()).flatten(),
        vouch: verb == Verb::Resolve && rules.deciding.is_none(),
        ..Ask::because(verb, why)
    };
    let (requires, usual): (&[&str], State) = match verb {
        Verb::Assign => (&[], State::UnderReview),
        Verb::Unassign => (&[], State::Pending),
        Verb::Escalate => (&["escalation_reason"], State::Escalated),
        Verb::DeEscalate => (&[], State::UnderReview),
        Verb::Resolve if rules.deciding.is_some() => (&["reason"], State::Resolved),
        Verb::Resolve => (&["reason", "remedy, vouch, or sufficient evidence"], State::Resolved),
        Verb::Reject => (&["reason"], State::Rejected),
        Verb::Dismiss => (&["reason"], State::Dismissed),
        Verb::Reopen | Verb::Reset => (&["reason"], State::Pending),
        Verb::Start => (&["reason", "remedy"], State::Processing),
    };
    let decided = decide(entry, &ask, person, rules);
    let to = decided.as_ref().ok().and_then(Plan::ends_in).unwrap_or(usual);
    let why_not = decided.err().map(|refusal| refusal.to_string());
    Possible { command: verb, to, allowed: why_not.is_none(), why_not, requires }
}
