//! What a run did, in numbers: kept in its row, read by the daemon's look. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a run did. A word that is missing counts nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Submissions that were emptied.
    pub purged: u64,
    /// Submissions whose time had come and that are kept, by why.
    pub kept: BTreeMap<String, u64>,
    /// Submissions that the database would not have emptied, each by itself.
    pub refused: u64,
    /// Versions of forms whose content was forgotten.
    pub forgotten: u64,
    /// References of operators that have ended.
    pub released: u64,
    /// Blobs that were marked.
    pub marked: u64,
    /// Blobs that live again.
    pub revived: u64,
    /// Blobs that were swept.
    pub swept: u64,
    /// Objects that were deleted.
    pub deleted: u64,
    /// Objects that somebody else had removed.
    pub missing: u64,
    /// Objects whose name another one had.
    pub replaced: u64,
    /// Objects that could not be looked at, so that their blobs stay.
    pub unreadable: u64,
    /// Objects that are still owed.
    pub failed: u64,
    /// Objects of uploads that became no blob, and are gone.
    pub left_over: u64,
    /// Recalls that came to their end.
    pub recalled: u64,
}

impl Counts {
    /// The counts as a document.
    #[must_use]
    pub fn document(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The counts of a document; what is no such document counts nothing.
    #[must_use]
    pub fn read(document: &serde_json::Value) -> Self {
        // A list would be read as the fields in their order.
        if document.is_object() { Self::deserialize(document).unwrap_or_default() } else { Self::default() }
    }

    /// What happened, in words.
    #[must_use]
    pub fn words(&self) -> String {
        let kept: u64 = self.kept.values().sum();
        let parts = [
            (self.purged, "submissions emptied"),
            (kept, "kept though their time has come"),
            (self.refused, "refused by the database"),
            (self.forgotten, "versions forgotten"),
            (self.released, "references released"),
            (self.marked, "blobs marked"),
            (self.revived, "blobs live again"),
            (self.deleted, "objects deleted"),
            (self.missing, "objects gone already"),
            (self.replaced, "objects replaced by somebody, and left"),
            (self.unreadable, "objects that cannot be looked at"),
            (self.failed, "objects still to be deleted"),
            (self.left_over, "objects of unfinished uploads deleted"),
            (self.recalled, "recalls done"),
        ];
        let said: Vec<String> =
            parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
        if said.is_empty() { "nothing was to be done".to_owned() } else { said.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_are_read_as_they_were_written_and_damaged_ones_count_nothing() {
        let mut counts = Counts { purged: 3, deleted: 2, ..Counts::default() };
        counts.kept.insert("held".to_owned(), 4);
        assert_eq!(Counts::read(&counts.document()), counts);
        assert_eq!(Counts::read(&json!({"purged": 1, "new": 7})).purged, 1);
        assert_eq!(Counts::read(&json!([1])), Counts::default());
        assert_eq!(
            counts.words(),
            "3 submissions emptied, 4 kept though their time has come, 2 objects deleted"
        );
        assert_eq!(Counts::default().words(), "nothing was to be done");
    }
}
