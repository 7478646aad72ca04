//! One entry: what is wrong, what is known, what can be done, what was done. Pure.

use askama::Template;
use jiff::Timestamp;
use uuid::Uuid;

use super::assessment::{self, AssessmentView};
use super::decision::{self, Action, Conflict, FieldError, HistoryLine, NotNow, Typed};
use super::frame::{Frame, Problem};
use super::queue::EntryLine;
use super::story::{LetterView, RunView, Story};
use super::{assets, entry, filters, plain, queue, when};

/// The page at `/entries/ID`; with `conflict`, the answer 409; with an action's `error`, 422.
#[derive(Debug, Clone, Template)]
#[template(path = "entry.html")]
pub struct EntryPage {
    /// Its surroundings.
    pub frame: Frame,
    /// The entry.
    pub entry: EntryFacts,
    /// What an honest resolve needs.
    pub evidence: Evidence,
    /// What the reader may do now, the likeliest first.
    pub actions: Vec<Action>,
    /// What is not possible now.
    pub not_now: Vec<NotNow>,
    /// Another's change that came first.
    pub conflict: Option<Conflict>,
    /// Every transition, oldest first.
    pub history: Vec<HistoryLine>,
    /// What the entry is about.
    pub subject: SubjectView,
    /// Other entries about the same subject, open and ended.
    pub others: Vec<EntryLine>,
    /// Who else has looked at it in the last minutes: a hint, no lock.
    pub watching: Vec<String>,
    /// The next entry to decide, in the order and filters the reader came from.
    pub next: Option<Uuid>,
}

/// The entry itself.
#[derive(Debug, Clone)]
pub struct EntryFacts {
    /// Its id.
    pub id: Uuid,
    /// Its version as read; each form carries it.
    pub version: i64,
    /// State, as in the database.
    pub state: String,
    /// What is wrong, in plain words ([`super::plain::heading`]); the page's heading and title.
    pub heading: &'static str,
    /// What that means, one or two sentences ([`super::plain::meaning`]).
    pub meaning: String,
    /// Cause, as in the database.
    pub cause: String,
    /// Reason, as in the database.
    pub reason: String,
    /// Queue.
    pub queue: String,
    /// `submission`, `dead_letter`, …
    pub subject_kind: String,
    /// Its id.
    pub subject_id: Uuid,
    /// Form id.
    pub form_id: Option<String>,
    /// Form's name.
    pub form_name: Option<String>,
    /// Events that it stands for.
    pub occurrences: u64,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When the last event was seen.
    pub seen_at: Timestamp,
    /// Since when it is in this state.
    pub state_since: Timestamp,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// When it ended.
    pub closed_at: Option<Timestamp>,
    /// Who has it.
    pub assignee: Option<String>,
    /// Its escalation.
    pub escalation: Option<Escalation>,
    /// Its rejection.
    pub rejection: Option<Rejection>,
    /// How it was resolved: `delivered`, `vouched`, …
    pub resolution: Option<String>,
    /// The remedy being tried.
    pub job: Option<Job>,
    /// What the event said: closed words, codes, domains, counts, by name.
    pub detail: Vec<Fact>,
}

/// A name and a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
}

/// An escalation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Escalation {
    /// Why.
    pub reason: String,
    /// Who.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Since when security is known to be notified.
    pub alerted_at: Option<Timestamp>,
}

/// A rejection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Why.
    pub reason: String,
    /// Who.
    pub by: String,
}

/// A remedy being tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The remedy.
    pub remedy: String,
    /// Attempts made.
    pub attempts: u32,
    /// At most.
    pub max_attempts: u32,
    /// When it is tried or looked at next.
    pub next_at: Option<Timestamp>,
    /// Who asked; absent for the policy.
    pub asked_by: Option<String>,
}

/// What an honest resolve needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Whether nothing is missing.
    pub sufficient: bool,
    /// What is missing, in plain words.
    pub missing: Vec<String>,
}

/// What an entry is about.
#[derive(Debug, Clone)]
pub enum SubjectView {
    /// A submission, with everything that ever happened to it.
    Submission(Box<Story>),
    /// A dead letter.
    Letter(Box<LetterView>),
    /// A run of screening.
    Run(Box<RunView>),
    /// A work that waits for a grade.
    Assessment(Box<AssessmentView>),
    /// Nothing that can be shown: purged, or unreadable now. Why, and what to do.
    Away(String),
}

impl EntryFacts {
    /// When it expires, while that can happen.
    fn expires(&self) -> Option<&Timestamp> {
        self.expires_at.as_ref().filter(|_| self.closed_at.is_none())
    }
}

impl EntryPage {
    /// Gives a refused form back: what was typed stands in it, and what is wrong stands at its field and before the content.
    /// `key` is the form's ([`Command::form_key`](decision::Command::form_key)). A form that is not offered any more is left
    /// to the conflict, which shows what was typed.
    pub fn give_back(&mut self, key: &str, typed: Typed, error: Option<FieldError>) {
        let Some(action) = self.actions.iter_mut().find(|action| action.key() == key) else { return };
        if let Some(error) = &error {
            let field = Some(action.anchor(error.field));
            self.frame.problems.push(Problem { text: error.text.clone(), field });
        }
        action.typed = typed;
        action.error = error;
    }

    fn title(&self) -> String {
        format!("{} ({})", self.entry.heading, plain::short(&self.entry.id))
    }

    fn section(&self) -> &'static str {
        "queue"
    }

    fn asks_reasons(&self) -> bool {
        self.actions.iter().any(|action| action.form().reason.is_some())
    }

    fn list_query(&self) -> String {
        self.frame.list.query()
    }

    fn path(&self) -> String {
        format!("/entries/{}", self.entry.id)
    }

    fn watching_words(&self) -> String {
        match self.watching.as_slice() {
            [] => String::new(),
            [one] => format!("{one} has it open, too; nothing is locked."),
            [rest @ .., last] => {
                format!("{} and {last} have it open, too; nothing is locked.", rest.join(", "))
            }
        }
    }

    /// The form that the conflict is about, where it is still offered: the one in which something was typed, else any.
    fn asked_again(&self) -> Option<&Action> {
        let conflict = self.conflict.as_ref()?;
        let same = || self.actions.iter().filter(|action| action.form().command == conflict.command);
        same().find(|action| !action.typed.is_empty()).or_else(|| same().next())
    }

    fn is_still_possible(&self) -> bool {
        self.asked_again().is_some()
    }

    fn conflict_anchor(&self) -> &'static str {
        self.asked_again().map_or("decide", Action::key)
    }
}
