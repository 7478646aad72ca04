//! The line that says how a command went which led to a version's page: a word of a closed set in the URL, never a text. Pure.

use uuid::Uuid;

use crate::desk::pages::forms::Place;
use crate::desk::pages::frame::{Draft, Flash, Tone};
use crate::forms::commands::ROLLED_BACK;
use crate::forms::table::{Command, Version};
use crate::kernel::rows::{Recorded, Row};
use crate::kernel::words;

words! {
    /// The form that was accepted and led here.
    Done {
        /// The version was promoted.
        Promote = "promote",
        /// The form went back to it.
        RollBack = "rollback",
    }
}

/// The line that says how the command went which led here, where the history bears it out: so a link cannot claim what nobody did.
pub(super) fn flash(
    done: Option<Done>,
    (row, place): (&Row<Version>, Place),
    history: &[Recorded],
    (by, previous): (&str, Option<Uuid>),
) -> Option<Flash> {
    let done = done?;
    let last = history.first()?;
    let went_back = last.reason.as_deref().is_some_and(|reason| reason.starts_with(ROLLED_BACK));
    let promoted = last.command == Command::Promote.label() && last.actor == by && place == Place::Current;
    if !promoted || went_back != (done == Done::RollBack) {
        return None;
    }
    let number = row.columns.number;
    let (text, draft) = match done {
        Done::Promote => (format!("The form follows version {number} now."), Some(row.id)),
        Done::RollBack => (format!("The form follows version {number} again."), previous),
    };
    Some(Flash {
        tone: Tone::Done,
        text: format!("{text} What is on its way keeps the version that it began with."),
        accepted: draft.map(|id| Draft::Version(id, done.label())),
        next: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forms::store::{Facts, Source};
    use crate::forms::table::State;

    #[test]
    fn a_link_cannot_claim_what_nobody_did() {
        let at = jiff::Timestamp::UNIX_EPOCH;
        let columns = Facts {
            form_id: "f".to_owned(),
            number: 2,
            digest: String::new(),
            source: Source::Yaml,
            author: "zoe".to_owned(),
            created_at: at,
            published_at: Some(at),
            tombstoned_at: None,
            deadline: None,
        };
        let row = Row {
            id: Uuid::nil(),
            state: State::Published,
            attempts: 0,
            claims: 0,
            token: None,
            version: None,
            columns,
        };
        let line = |command: &str, reason: &str| Recorded {
            from: "published".to_owned(),
            to: "published".to_owned(),
            command: command.to_owned(),
            actor: "admin:ada".to_owned(),
            actor_type: "admin".to_owned(),
            reason: Some(reason.to_owned()),
            at,
        };
        let told =
            |done, place, line: Recorded, by| flash(Some(done), (&row, place), &[line], (by, None)).is_some();
        let promoted = || line("promote", "reviewed with the team");
        assert!(told(Done::Promote, Place::Current, promoted(), "admin:ada"));
        assert!(!told(Done::Promote, Place::Current, promoted(), "admin:bob"), "ada did");
        assert!(!told(Done::RollBack, Place::Current, promoted(), "admin:ada"), "it was promoted");
        assert!(!told(Done::Promote, Place::Previous, promoted(), "admin:ada"), "another is followed since");
        assert!(!told(Done::Promote, Place::Current, line("publish", ""), "admin:ada"));
        assert!(told(Done::RollBack, Place::Current, line("promote", "rolled back: odd"), "admin:ada"));
        assert!(flash(None, (&row, Place::Current), &[promoted()], ("admin:ada", None)).is_none());
    }
}
