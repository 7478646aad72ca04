//! Decisions: the commands of an entry as forms. What is offered is decided elsewhere; a page shows it. Pure.

use jiff::Timestamp;

use super::queue::Choice;

/// A command of people, as the API spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Takes the entry, or gives it to somebody.
    Assign,
    /// Puts it back.
    Unassign,
    /// Passes it to security.
    Escalate,
    /// Takes it back from there.
    DeEscalate,
    /// Ends it as solved.
    Resolve,
    /// Ends it: nothing is to be done, for a reason that is kept.
    Reject,
    /// Ends it without having looked into it.
    Dismiss,
    /// Opens an ended one again.
    Reopen,
    /// Starts a failed one anew.
    Reset,
    /// Has the remedy tried now.
    Start,
}

impl Command {
    /// Every command.
    pub const ALL: [Self; 10] = [
        Self::Assign,
        Self::Unassign,
        Self::Escalate,
        Self::DeEscalate,
        Self::Resolve,
        Self::Reject,
        Self::Dismiss,
        Self::Reopen,
        Self::Reset,
        Self::Start,
    ];

    /// Last segment of its path: forms post to `/entries/ID/SEGMENT`; value of `command` in the bulk form.
    #[must_use]
    pub const fn segment(self) -> &'static str {
        match self {
            Self::Assign => "assign",
            Self::Unassign => "unassign",
            Self::Escalate => "escalate",
            Self::DeEscalate => "de-escalate",
            Self::Resolve => "resolve",
            Self::Reject => "reject",
            Self::Dismiss => "dismiss",
            Self::Reopen => "reopen",
            Self::Reset => "reset",
            Self::Start => "start",
        }
    }

    /// The command of this segment, if any.
    #[must_use]
    pub fn parse(segment: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|command| command.segment() == segment)
    }

    /// Key of the form that gives it: the form's id in its page, and the name of its draft. A resolve is on somebody's word
    /// or not, an assignment takes over or not.
    #[must_use]
    pub const fn form_key(self, take_over: bool, vouch: bool) -> &'static str {
        match self {
            Self::Assign if take_over => "take-over",
            Self::Assign => "assign-to",
            Self::Resolve if vouch => "vouch",
            Self::Unassign
            | Self::Escalate
            | Self::DeEscalate
            | Self::Resolve
            | Self::Reject
            | Self::Dismiss
            | Self::Reopen
            | Self::Reset
            | Self::Start => self.segment(),
        }
    }

    /// Its name for many entries at once; nobody else is named there.
    #[must_use]
    pub(super) fn bulk_label(self) -> &'static str {
        if self == Self::Assign { "Assign to me" } else { self.label() }
    }

    /// Its name on buttons and in lists.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Assign => "Assign",
            Self::Unassign => "Put back",
            Self::Escalate => "Escalate to security",
            Self::DeEscalate => "De-escalate",
            Self::Resolve => "Resolve",
            Self::Reject => "Reject",
            Self::Dismiss => "Dismiss",
            Self::Reopen => "Reopen",
            Self::Reset => "Reset",
            Self::Start => "Start a remedy",
        }
    }
}

/// One form of an entry's page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// What it asks.
    pub ask: Ask,
    /// Its idempotency key; one for each form and rendering, the same again after a failure.
    pub idempotency_key: String,
    /// What was typed, after it was refused.
    pub typed: Typed,
    /// What is wrong with what was typed; shown at its field.
    pub error: Option<FieldError>,
}

/// What a form asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// `assign`, to the reader.
    AssignToMe,
    /// `assign` with `assignee`, one of these.
    AssignTo(Vec<Choice>),
    /// `assign` with `take_over=true`; from whom.
    TakeOver(String),
    /// `unassign`.
    Unassign,
    /// `escalate` with `escalation_reason`.
    Escalate,
    /// `de-escalate` with `reason`.
    DeEscalate,
    /// `resolve` with `remedy` (empty: by the evidence; else one of these) and `reason`.
    Resolve {
        /// Remedies that fit the subject.
        remedies: Vec<Remedy>,
        /// Whether the evidence is sufficient, so that none is needed.
        by_evidence: bool,
    },
    /// `resolve` with `vouch=true` and `reason`.
    Vouch,
    /// `reject` with `reason`.
    Reject,
    /// `dismiss` with `reason`.
    Dismiss,
    /// `reopen` with `reason`.
    Reopen,
    /// `reset` with `reason`.
    Reset,
    /// `start` with `remedy`, one of these.
    Start(Vec<Remedy>),
}

/// A verb that mends a subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remedy {
    /// `replay`, `replan`, …
    pub value: String,
    /// Its name.
    pub label: String,
    /// What it does, and to whom mail goes again.
    pub hint: String,
    /// Whom it can be for, where it is for one; `delivery` of the form.
    pub recipients: Vec<Choice>,
}

/// What was typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Typed {
    /// `reason`, or `escalation_reason`.
    pub reason: String,
    /// `assignee`.
    pub assignee: String,
    /// `remedy`.
    pub remedy: String,
    /// `delivery`.
    pub delivery: String,
}

impl Typed {
    /// Whether nothing was typed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.reason.is_empty() && self.assignee.is_empty() && self.remedy.is_empty()
    }

    /// The person chosen.
    pub(super) fn chosen(&self) -> Option<&str> {
        Some(self.assignee.as_str()).filter(|name| !name.is_empty())
    }
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// The field.
    pub field: Field,
    /// What is wrong and what to do.
    pub text: String,
}

/// A field of a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// `reason`, or `escalation_reason`.
    Reason,
    /// `assignee`.
    Assignee,
    /// `remedy`.
    Remedy,
}

/// A command that is not possible now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotNow {
    /// The command.
    pub command: Command,
    /// Why not, and what would make it possible.
    pub why: String,
}

/// Another's change that came first (409). The form keeps what was typed; where it is not offered any more, it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// What the reader asked.
    pub command: Command,
    /// The version that the reader saw.
    pub seen_version: i64,
    /// What happened since, oldest first.
    pub changes: Vec<HistoryLine>,
    /// What was typed.
    pub typed: Typed,
}

/// One transition of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryLine {
    /// When.
    pub at: Timestamp,
    /// Who, as recorded.
    pub who: String,
    /// Command, as recorded: `open`, `assign`, …
    pub command: String,
    /// State before; absent at birth.
    pub from: Option<String>,
    /// State after.
    pub to: String,
    /// Reason, as given.
    pub reason: Option<String>,
    /// Version after.
    pub version: i64,
}
