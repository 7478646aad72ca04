//! The line that says how the action went which led here: a word of a closed set in the URL, never a text. Pure.
//!
//! It is said only where the entry's history bears it out, so that a link cannot claim what nobody did.

use uuid::Uuid;

use crate::desk::pages::frame::{Draft, Flash, Tone};
use crate::grey_queue::entry::Moved;
use crate::kernel::words;

words! {
    /// The form that was accepted: the key of an entry's form.
    Done {
        /// Taken.
        AssignMe = "assign-me",
        /// Given to somebody.
        AssignTo = "assign-to",
        /// Taken from somebody.
        TakeOver = "take-over",
        /// Put back.
        Unassign = "unassign",
        /// Passed to security.
        Escalate = "escalate",
        /// Passed back.
        DeEscalate = "de-escalate",
        /// Resolved, or about to be.
        Resolve = "resolve",
        /// Resolved on somebody's word.
        Vouch = "vouch",
        /// Rejected.
        Reject = "reject",
        /// Set aside.
        Dismiss = "dismiss",
        /// Opened again.
        Reopen = "reopen",
        /// Made anew.
        Reset = "reset",
        /// A remedy is under way.
        Start = "start",
        /// A work is graded.
        Graded = "review",
    }
}

impl Done {
    /// The command that the history has last, where it is done.
    fn recorded(self) -> &'static [&'static str] {
        match self {
            Self::AssignMe | Self::AssignTo => &["assign", "hand_over"],
            Self::TakeOver => &["assign"],
            Self::Unassign => &["unassign"],
            Self::Escalate => &["escalate"],
            Self::DeEscalate => &["de_escalate"],
            Self::Resolve => &["resolve", "start"],
            Self::Vouch => &["resolve"],
            Self::Reject => &["reject"],
            Self::Dismiss => &["dismiss"],
            Self::Reopen => &["reopen", "reset"],
            Self::Reset => &["reset"],
            Self::Start => &["start"],
            Self::Graded => &["resolve"],
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::AssignMe | Self::TakeOver => "It is yours now.",
            Self::AssignTo => "It is assigned; a mail tells them.",
            Self::Unassign => "It is put back: nobody has it.",
            Self::Escalate => "Security is asked, and will be notified.",
            Self::DeEscalate => "It is back with its reviewer.",
            Self::Resolve => "It is resolved.",
            Self::Vouch => "It is resolved on your word.",
            Self::Reject => "It is rejected.",
            Self::Dismiss => "It is dismissed.",
            Self::Reopen => "It is open again.",
            Self::Reset => "It waits again, with no attempt spent.",
            Self::Start => "The remedy is under way.",
            Self::Graded => "Your grade is recorded, and the entry is resolved.",
        }
    }
}

/// The line for an entry whose history is this; `None` where `by` has not done that last.
pub(super) fn flash(
    done: Option<Done>,
    entry: Uuid,
    history: &[Moved],
    by: &str,
    next: Option<Uuid>,
) -> Option<Flash> {
    let done = done?;
    // A worker looks after a remedy from here, and may have ended it.
    let last = history.iter().rev().find(|line| line.by == by)?;
    if !done.recorded().contains(&last.command.as_str()) {
        return None;
    }
    let underway = last.command == "start";
    let text = if underway && done == Done::Resolve {
        "The remedy is under way: the entry ends when there is evidence, and comes back to you when there is none."
    } else {
        done.text()
    };
    Some(Flash {
        tone: if underway { Tone::Underway } else { Tone::Done },
        text: text.to_owned(),
        accepted: Some(Draft::Entry(entry, done.label())),
        next,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_link_cannot_claim_what_nobody_did() {
        let line = |command: &str, by: &str| Moved {
            version: 2,
            at: jiff::Timestamp::UNIX_EPOCH,
            command: command.to_owned(),
            from: None,
            to: "Resolved".to_owned(),
            by: by.to_owned(),
            reason: None,
            metadata: Value::Null,
        };
        let history =
            [line("open", "system"), line("assign", "reviewer:anna"), line("resolve", "reviewer:ben")];
        let of = |done, by| flash(Some(done), Uuid::nil(), &history, by, None);
        assert!(of(Done::Resolve, "reviewer:anna").is_none(), "ben did");
        assert!(of(Done::Reject, "reviewer:ben").is_none(), "he resolved it");
        assert!(of(Done::Resolve, "reviewer:ben").is_some());
        assert!(of(Done::AssignMe, "reviewer:anna").is_some());
        assert!(flash(None, Uuid::nil(), &history, "reviewer:ben", None).is_none());
    }
}
