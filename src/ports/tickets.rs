//! Tickets of a help desk, as rooms and the gateway exchange them. Contents of a submission are in them: `Debug` shows none.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{Fault, Spooled};

/// A ticket that exists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TicketRef {
    /// Number of the ticket in the help desk's API.
    pub id: u64,
    /// Id that people see, e.g. `DC00000003`; the number where the answer had none.
    pub display_id: String,
}

/// A ticket to be made.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct NewTicket {
    /// Id of a category, or its exact name.
    pub category: String,
    /// Subject; the gateway cuts it, and takes control characters out.
    pub subject: String,
    /// Body as text. At least one of the two bodies is needed.
    pub text: Option<String>,
    /// Body as HTML.
    pub html: Option<String>,
    /// Name of the contact; empty: the address stands for it.
    pub contact_name: String,
    /// Address of the contact.
    pub contact_email: String,
    /// Tags, among them the one that doubt is resolved by.
    pub tags: Vec<String>,
    /// Custom fields of the ticket by id; an empty value is left out, the text of a choice becomes its id.
    pub ticket_fields: BTreeMap<u64, String>,
    /// Custom fields of the contact by id, as for the ticket.
    pub contact_fields: BTreeMap<u64, String>,
    /// Files that go with the ticket.
    pub files: Vec<TicketFile>,
}

impl fmt::Debug for NewTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewTicket")
            .field("category", &self.category)
            .field("tags", &self.tags)
            .field("files", &self.files.len())
            .finish_non_exhaustive()
    }
}

/// A file that goes with a ticket.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketFile {
    /// Name offered to the reader.
    pub name: String,
    /// Media type, e.g. `application/pdf`; one that cannot be read becomes `application/octet-stream`.
    pub content_type: String,
    /// The file itself.
    pub content: FileContent,
}

impl fmt::Debug for TicketFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketFile")
            .field("content_type", &self.content_type)
            .field("length", &self.content.length())
            .finish_non_exhaustive()
    }
}

/// Content of a file.
#[derive(Clone, PartialEq, Eq)]
pub enum FileContent {
    /// In memory.
    Bytes(Bytes),
    /// On the disk, from where it is streamed.
    Spooled(Spooled),
}

impl FileContent {
    /// Length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Spooled(file) => file.length(),
        }
    }
}

/// Outcome of one creation: a value, never an `Err` (help-desk contract, "Outcomes").
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Creation {
    /// The ticket exists.
    Created(TicketRef),
    /// Permanent: this ticket is never taken as it is.
    Refused(Fault),
    /// Permanent with these files: once more with links instead, where there are files.
    TooLarge(Fault),
    /// Nothing was carried out, and the ticket is not at fault: credentials, network, or our own fence ([`super::Stage::Fence`]).
    AboutUs(Fault),
    /// Nothing was carried out: the help desk, or our own pace after it said so, wants a wait first.
    Throttled {
        /// The evidence.
        fault: Fault,
        /// Time before which nothing is sent.
        wait: Duration,
    },
    /// The ticket may exist: it is looked for by its tag before anything is sent again.
    Unknown(Fault),
}

impl Creation {
    /// The closed label used in metrics and journal.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Created(_) => "created",
            Self::Refused(_) => "refused",
            Self::TooLarge(_) => "too_large",
            Self::AboutUs(_) => "about_us",
            Self::Throttled { .. } => "throttled",
            Self::Unknown(_) => "unknown",
        }
    }

    /// The evidence of what was not created, as far as is known.
    #[must_use]
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Created(_) => None,
            Self::Refused(fault)
            | Self::TooLarge(fault)
            | Self::AboutUs(fault)
            | Self::Throttled { fault, .. }
            | Self::Unknown(fault) => Some(fault),
        }
    }
}

/// Why the help desk answered no question. It is never "not found": who cannot be asked has said nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered {
    /// The evidence; always about us.
    pub fault: Fault,
    /// Time before which nothing is asked, where the help desk named one.
    pub wait: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_wrote_is_not_in_debug() {
        let file = TicketFile {
            name: "s3cret.pdf".to_owned(),
            content_type: "application/pdf".to_owned(),
            content: FileContent::Bytes(Bytes::from_static(b"s3cret")),
        };
        let ticket = NewTicket {
            category: "7".to_owned(),
            subject: "s3cret".to_owned(),
            text: Some("s3cret".to_owned()),
            html: Some("s3cret".to_owned()),
            contact_name: "s3cret".to_owned(),
            contact_email: "s3cret@example.org".to_owned(),
            tags: vec!["maple-1".to_owned()],
            ticket_fields: BTreeMap::from([(1, "s3cret".to_owned())]),
            contact_fields: BTreeMap::from([(2, "s3cret".to_owned())]),
            files: vec![file.clone()],
        };
        for shown in [format!("{ticket:?}"), format!("{file:?}")] {
            assert!(!shown.contains("s3cret"), "{shown}");
        }
        assert_eq!(file.content.length(), 6);
    }
}
