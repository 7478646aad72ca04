//! A dead letter's forms of display: a line of a list, a page, an object. Reads nothing itself.

use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use crate::cli::layout::{Side, Table};
use crate::ports::RecordKind;
use crate::routing::dead_letter::{EXHAUSTED, Origin, Record, original_attributes};
use crate::routing::event;
use crate::routing::explain::at;
use crate::routing::store::dead_letters::ExhaustedRow;
use crate::routing::submission::text::{bounded, one_line};

/// One record, in either store.
pub(super) enum Entry {
    Letter(Box<Record>),
    Row(ExhaustedRow),
}

impl Entry {
    pub(super) fn id(&self) -> Uuid {
        match self {
            Self::Letter(record) => record.id,
            Self::Row(row) => row.id,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Letter(record) => record.kind.label(),
            Self::Row(_) => EXHAUSTED,
        }
    }

    pub(super) fn at(&self) -> Timestamp {
        match self {
            Self::Letter(record) => record.at,
            Self::Row(row) => row.at,
        }
    }

    /// The object of the interfaces page; a submission's event carries nothing but its id, so it has no payload.
    pub(super) fn json(&self) -> serde_json::Value {
        match self {
            Self::Letter(record) => {
                let mut shown = json!(record);
                shown["origin"] = json!(record.origin().label());
                if let Some(trouble) = unreadable(record) {
                    shown["unreadable"] = json!(trouble);
                }
                if let Origin::Outbox(row) = record.origin() {
                    shown["outbox_row"] = json!(row);
                }
                shown
            }
            Self::Row(row) => json!({
                "id": row.id, "kind": EXHAUSTED, "at": row.at, "submission_id": row.id, "reason": row.reason,
                "payload_sha256": null,
            }),
        }
    }

    /// Submission, and reason; for a closed one, who closed it.
    fn about(&self) -> (String, String) {
        let (about, reason) = match self {
            Self::Letter(record) => (record.submission_id, &record.reason),
            Self::Row(row) => (Some(row.id), &row.reason),
        };
        let closed = match self {
            Self::Letter(record) => {
                record.closed.as_ref().map(|closed| format!("; closed by {}", closed.actor))
            }
            Self::Row(_) => None,
        };
        let closed = one_line(&closed.unwrap_or_default());
        let about = about.map_or("-".to_owned(), |id| id.to_string());
        (about, format!("{}{closed}", bounded(one_line(reason), 60)))
    }

    /// Everything about the record.
    pub(super) fn page(&self) -> String {
        let (about, reason) = self.about();
        let mut text = format!("{}  {}  {}  {about}  {reason}\n", self.id(), at(self.at()), self.kind());
        match self {
            Self::Letter(record) => letter(&mut text, record),
            Self::Row(row) => text
                .push_str(&format!("the submission itself is the record: maple-router explain {}\n", row.id)),
        }
        text
    }
}

/// The records, a line each.
pub(super) fn table(entries: &[Entry]) -> Table {
    let names = ["id", "at", "kind", "submission", "reason"];
    let mut table = Table::new(&names.map(|name| (name, Side::Left)));
    for entry in entries {
        let (about, reason) = entry.about();
        table.row(vec![entry.id().to_string(), at(entry.at()), entry.kind().to_owned(), about, reason]);
    }
    table
}

/// The field that cannot be read, and its position; absent where all can be, or the payload is not kept.
fn unreadable(record: &Record) -> Option<String> {
    if record.kind != RecordKind::Unreadable {
        return None;
    }
    event::trouble(&original_attributes(&record.attributes), &record.payload)
}

fn letter(text: &mut String, record: &Record) {
    let mut row = |name: &str, value: String| text.push_str(&format!("{name:<12}{value}\n"));
    row("message", one_line(&record.message_id));
    let (origin, redrive, discard) = match record.origin() {
        Origin::Pubsub => (
            "Pub/Sub gave up on it: a message of the dead-letter subscription".to_owned(),
            "publishes the payload to the routing topic again",
            "closes this record",
        ),
        Origin::Outbox(row) => (
            format!("the outbox of schema router gave up on it: row {row}"),
            "has its row delivered again, from the first attempt on; nothing is published from here",
            "closes this record; its row stays in the outbox as dead_letter",
        ),
    };
    row("from", origin);
    if record.closed.is_none() {
        row("redrive", redrive.to_owned());
        row("discard", discard.to_owned());
    }
    for (name, value) in &record.attributes {
        row("attribute", format!("{} = {}", one_line(name), bounded(one_line(value), 100)));
    }
    row("sha256", record.payload_sha256.clone());
    let payload = String::from_utf8_lossy(&record.payload);
    if let Some(trouble) = unreadable(record) {
        row("unreadable", trouble);
    }
    row("payload", format!("{} bytes: {}", record.payload.len(), bounded(one_line(&payload), 400)));
    row("alerted", record.alerted_at.map_or("nobody yet".to_owned(), at));
    if let Some(closed) = &record.closed {
        let (who, why) = (one_line(&closed.actor), one_line(&closed.reason));
        row("closed", format!("{} by {who}: {why}", at(closed.at)));
    }
}
