//! The tickets a submission would cause, made by the same functions as those that are sent, to be judged and never sent.
//!
//! Nothing is claimed, written, logged or signed: attachments are named without their links. Whoever asks has not decided yet
//! to send anything.

use uuid::Uuid;

use super::{Preparer, Source};
use crate::db::DbError;
use crate::ports::{Fault, NewTicket};
use crate::routing::compose::{Attachment, Place};
use crate::routing::submission::ledger::Ledger;

/// What would become of one action. No `Debug` shows a content: a ticket's shows none.
#[derive(Debug)]
pub struct Foreseen {
    /// Order of the action.
    pub action_order: i32,
    /// Category as the action names it; absent where it names none.
    pub category: Option<String>,
    /// The ticket, or why there can be none. The words have neither a field's value nor an address in them.
    pub ticket: Result<NewTicket, Fault>,
}

impl Preparer {
    /// The tickets of these actions of a ledger's plan; nothing where the submission is gone, or there is no help desk.
    ///
    /// # Errors
    /// [`DbError`]: the submission could not be read.
    pub async fn foreseen(
        &self,
        id: Uuid,
        ledger: &Ledger,
        actions: &[i32],
    ) -> Result<Vec<Foreseen>, DbError> {
        let (Some(rules), Some(content)) = (&self.tickets, self.store.content(id).await?) else {
            return Ok(Vec::new());
        };
        let attachments: Vec<Attachment> =
            content.attachments.iter().map(|one| unlinked(one.file_name.as_deref())).collect();
        let wanted = ledger.plan.iter().filter(|action| actions.contains(&action.action_order));
        let foreseen = wanted.map(|action| {
            let (content, attachments) = (&content, attachments.as_slice());
            let source = Source { id, action, ledger, content, attachments, files: &[], targets: &[] };
            Foreseen {
                action_order: action.action_order,
                category: action
                    .happyfox_category
                    .as_deref()
                    .map(str::trim)
                    .filter(|name| !name.is_empty())
                    .map(str::to_owned),
                ticket: self.ticket_and_gaps(rules, &source).map(|(ticket, _)| ticket),
            }
        });
        Ok(foreseen.collect())
    }
}

/// An attachment as a ticket names one that has no link.
fn unlinked(file_name: Option<&str>) -> Attachment {
    Attachment {
        file_name: file_name.unwrap_or_default().to_owned(),
        size_bytes: None,
        content_type: None,
        place: Place::Gone("not linked before it is sent".to_owned()),
    }
}
