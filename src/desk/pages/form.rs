//! What the form of an action says and carries: one row for each thing that can be asked. Pure.

use super::decision::{Action, Ask, Command, Field, Remedy};
use super::queue::Choice;

/// A form, ready to be written.
pub(super) struct Form<'a> {
    /// Id of the form in its page; ids of its fields begin with it.
    pub(super) key: &'static str,
    pub(super) command: Command,
    /// Its heading, where it is folded.
    pub(super) title: String,
    pub(super) button: &'static str,
    /// What will happen.
    pub(super) hint: &'static str,
    /// A hidden field beside version and key.
    pub(super) fixed: Option<(&'static str, &'static str)>,
    pub(super) reason: Option<Reason>,
    pub(super) people: &'a [Choice],
    pub(super) remedies: &'a [Remedy],
    /// The evidence is offered as the first remedy.
    pub(super) by_evidence: bool,
}

/// The field of a reason.
pub(super) struct Reason {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) required: bool,
}

const REQUIRED: Option<Reason> = Some(Reason { name: "reason", label: "Reason", required: true });
const OPTIONAL: Option<Reason> =
    Some(Reason { name: "reason", label: "Reason (not required)", required: false });
const ESCALATION: Option<Reason> =
    Some(Reason { name: "escalation_reason", label: "Reason", required: true });

impl Form<'_> {
    const fn new(command: Command, reason: Option<Reason>, hint: &'static str) -> Self {
        Self {
            key: command.segment(),
            command,
            title: String::new(),
            button: command.label(),
            hint,
            fixed: None,
            reason,
            people: &[],
            remedies: &[],
            by_evidence: false,
        }
    }

    /// Whether one button is the whole form.
    pub(super) const fn is_button(&self) -> bool {
        self.reason.is_none() && self.people.is_empty() && self.remedies.is_empty()
    }

    /// Whether its button stands back behind others.
    pub(super) fn is_quiet(&self) -> bool {
        self.command == Command::Unassign
    }
}

impl Action {
    /// The form of this action.
    pub(super) fn form(&self) -> Form<'_> {
        let form = match &self.ask {
            Ask::AssignToMe => {
                Form { key: "assign-me", button: "Assign to me", ..Form::new(Command::Assign, None, "") }
            }
            Ask::AssignTo(people) => Form {
                key: Command::Assign.form_key(false, false),
                title: "Assign to somebody".to_owned(),
                people,
                ..Form::new(Command::Assign, None, "They get a mail with the link.")
            },
            Ask::TakeOver(from) => Form {
                key: Command::Assign.form_key(true, false),
                title: format!("Take over from {from}"),
                button: "Take over",
                fixed: Some(("take_over", "true")),
                ..Form::new(Command::Assign, OPTIONAL, "It is yours then, and a remedy under way is void.")
            },
            Ask::Unassign => Form::new(Command::Unassign, None, ""),
            Ask::Escalate => Form::new(
                Command::Escalate,
                ESCALATION,
                "Security is notified and decides. Only they can hand it back.",
            ),
            Ask::DeEscalate => Form::new(Command::DeEscalate, REQUIRED, "It goes back to its assignee."),
            Ask::Resolve { remedies, by_evidence } => Form {
                remedies,
                by_evidence: *by_evidence,
                ..Form::new(
                    Command::Resolve,
                    REQUIRED,
                    if *by_evidence {
                        "The evidence is there: by the evidence, it ends now."
                    } else {
                        "It ends when the remedy has worked, and comes back to you when it has not."
                    },
                )
            },
            Ask::Vouch => Form {
                key: Command::Resolve.form_key(false, true),
                title: "Resolve on my word".to_owned(),
                button: "Resolve on my word",
                fixed: Some(("vouch", "true")),
                ..Form::new(Command::Resolve, REQUIRED, "Without evidence, and marked so.")
            },
            Ask::Reject => Form::new(
                Command::Reject,
                REQUIRED,
                "It ends: nothing is to be done, for a reason that is kept.",
            ),
            Ask::Dismiss => Form::new(Command::Dismiss, REQUIRED, "It ends without having been looked into."),
            Ask::Reopen => Form::new(Command::Reopen, REQUIRED, "It waits for a decision again."),
            Ask::Reset => Form::new(Command::Reset, REQUIRED, "It waits again, with no attempt spent."),
            Ask::Start(remedies) => Form {
                remedies,
                button: "Start",
                ..Form::new(Command::Start, REQUIRED, "Tried now, and looked at until there is evidence.")
            },
        };
        if form.title.is_empty() { Form { title: form.command.label().to_owned(), ..form } } else { form }
    }

    /// Whether the form is unfolded from the start: something was typed, or is wrong.
    pub(super) fn is_open(&self) -> bool {
        self.error.is_some() || !self.typed.is_empty()
    }

    /// What is wrong with a field.
    pub(super) fn wrong(&self, field: Field) -> Option<&str> {
        self.error.as_ref().filter(|error| error.field == field).map(|error| error.text.as_str())
    }

    /// Anchor of a field, without `#`, for a [`Problem`](super::frame::Problem).
    #[must_use]
    pub fn anchor(&self, field: Field) -> String {
        format!("{}-{}", self.form().key, field.name())
    }

    /// Its form's key ([`Command::form_key`]; one button to assign to oneself has another).
    #[must_use]
    pub fn key(&self) -> &'static str {
        self.form().key
    }
}

impl Field {
    const fn name(self) -> &'static str {
        match self {
            Self::Reason => "reason",
            Self::Assignee => "assignee",
            Self::Remedy => "remedy",
        }
    }
}
