//! Lines about attachments that were to travel inside a mail or a ticket. An attachment is named by its id.

use std::time::Duration;

use uuid::Uuid;

use crate::journal;
use crate::routing::words::EventName;

/// The action whose files these are.
#[derive(Debug, Clone, Copy)]
pub(in crate::routing) struct OfAction<'a> {
    pub(in crate::routing) id: Uuid,
    pub(in crate::routing) form_id: &'a str,
    pub(in crate::routing) action_order: i32,
}

impl OfAction<'_> {
    /// A file is linked instead.
    pub(in crate::routing) fn not_inside(&self, attachment: Uuid, reason: &str) {
        journal!(
            info,
            EventName::NotInside,
            submission_id = %self.id,
            form_id = self.form_id,
            action_order = self.action_order,
            attachment_id = %attachment,
            reason = reason,
            "an attachment cannot travel inside: it is linked"
        );
    }

    /// Those that were not read yet are linked.
    pub(in crate::routing) fn not_read_in_time(&self, patience: Duration) {
        journal!(
            info,
            EventName::NotInside,
            submission_id = %self.id,
            form_id = self.form_id,
            action_order = self.action_order,
            reason = "time",
            "the store gave out no more attachments within {patience:?}: the others are linked"
        );
    }

    /// What was sent with its files was too large: it goes again, with links.
    pub(in crate::routing) fn too_large(&self) {
        journal!(
            info,
            EventName::NotInside,
            submission_id = %self.id,
            form_id = self.form_id,
            action_order = self.action_order,
            reason = "refused",
            "it was refused as too large with its files inside: it goes once more with links"
        );
    }

    /// An attachment is only named: readers cannot have it.
    pub(in crate::routing) fn missing(&self, attachment: Uuid, reason: &str) {
        journal!(
            warn,
            EventName::FileMissing,
            submission_id = %self.id,
            form_id = self.form_id,
            action_order = self.action_order,
            attachment_id = %attachment,
            reason = reason,
            "an attachment is not in the store as it was received: readers get its name only; see to the bucket, and to \
             whoever may write to it"
        );
    }
}
