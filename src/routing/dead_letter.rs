//! Dead letters and their records (protocol, "Dead letters").
//!
//! Invariant: no I/O here. A payload is stored in its record only; the journal has its hash and its length.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::event::{Parsed, Poison};
use super::submission::ledger::FailReason;
use super::table::Status;
use crate::ports::Attributes;
use crate::ports::RecordKind;

/// Kind of a failed submission that is its own record: its attempts were spent.
pub const EXHAUSTED: &str = "exhausted";

/// Judgement of a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Letter {
    /// To be recorded: the message cannot be parsed.
    Unreadable(Poison),
    /// To be recorded: the submission does not exist.
    UnknownSubmission(Uuid),
    /// The row failed because its attempts were spent; its own alert reports that.
    Exhausted(Uuid),
    /// The row is open: Pub/Sub's count is approximate, and the sweep goes on with the submission.
    Premature(Uuid),
    /// The row has ended, or the message was no event of a submission.
    Closed(Option<Uuid>),
}

/// State of the row: its status, and the reason of a failure.
pub type Standing = Option<(Status, Option<FailReason>)>;

impl Letter {
    /// Judges without the database.
    ///
    /// # Errors
    /// The submission whose row decides.
    pub fn of(parsed: &Parsed) -> Result<Self, Uuid> {
        match parsed {
            Parsed::Poison { why, .. } => Ok(Self::Unreadable(*why)),
            Parsed::Canary => Ok(Self::Closed(None)),
            Parsed::Event(event) => Err(event.submission_id),
        }
    }

    /// Judges an event by its row.
    #[must_use]
    pub fn of_row(id: Uuid, standing: Standing) -> Self {
        match standing {
            None => Self::UnknownSubmission(id),
            Some((Status::Received | Status::Processing, _)) => Self::Premature(id),
            Some((Status::Failed, Some(FailReason::Exhausted | FailReason::NoActions))) => {
                Self::Exhausted(id)
            }
            Some((Status::Failed | Status::Routed | Status::Purged, _)) => Self::Closed(Some(id)),
        }
    }

    /// Kind and reason of the record, where one is kept.
    #[must_use]
    pub fn to_record(self) -> Option<(RecordKind, String)> {
        match self {
            Self::Unreadable(why) => Some((RecordKind::Unreadable, why.label().to_owned())),
            Self::UnknownSubmission(_) => {
                Some((RecordKind::UnknownSubmission, "there is no such submission".to_owned()))
            }
            Self::Exhausted(_) | Self::Premature(_) | Self::Closed(_) => None,
        }
    }

    /// The submission of the letter.
    #[must_use]
    pub fn submission(self) -> Option<Uuid> {
        match self {
            Self::Unreadable(_) => None,
            Self::UnknownSubmission(id) | Self::Exhausted(id) | Self::Premature(id) => Some(id),
            Self::Closed(id) => id,
        }
    }
}

/// System that gave up on the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// Pub/Sub: a message of the dead-letter subscription.
    Pubsub,
    /// The outbox of schema `router`: this row.
    Outbox(i64),
}

impl Origin {
    /// Label in records.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Pubsub => "pubsub",
            Self::Outbox(_) => "outbox",
        }
    }

    /// Derives the origin from the letter's id: the outbox writes `outbox:ROW`, followed by the number of times the row
    /// was taken, which makes its records distinct; Pub/Sub writes plain numbers.
    #[must_use]
    pub fn of(message_id: &str) -> Self {
        let row = message_id.strip_prefix("outbox:").and_then(|rest| rest.split(':').next());
        match row.and_then(|row| row.parse().ok()) {
            Some(row) => Self::Outbox(row),
            None => Self::Pubsub,
        }
    }
}

/// A record without a notification of people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silent {
    /// Id of the record.
    pub id: Uuid,
    /// Kind of the record.
    pub kind: RecordKind,
    /// Origin of the letter.
    pub origin: Origin,
}

/// Record of a dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Id of our own.
    pub id: Uuid,
    /// Kind of the record.
    pub kind: RecordKind,
    /// Time of the record (database time).
    pub at: Timestamp,
    /// The submission that the letter names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission_id: Option<Uuid>,
    /// Reason why the letter is recorded.
    pub reason: String,
    /// SHA-256 of the payload, hex.
    pub payload_sha256: String,
    /// The payload.
    #[serde(rename = "payload_base64", with = "as_base64", default, skip_serializing_if = "Vec::is_empty")]
    pub payload: Vec<u8>,
    /// Pub/Sub's id of the dead letter, or the outbox's; see [`Origin::of`].
    pub message_id: String,
    /// Attributes of the message, Pub/Sub's own among them.
    #[serde(default)]
    pub attributes: Attributes,
    /// Time at which people were notified.
    #[serde(default)]
    pub alerted_at: Option<Timestamp>,
    /// Closing of the record, where it is closed.
    #[serde(default)]
    pub closed: Option<Closed>,
}

impl Record {
    /// System that gave up on the message.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin::of(&self.message_id)
    }
}

/// Closing of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// Kind of closing.
    pub how: Closing,
    /// Time of the closing.
    pub at: Timestamp,
    /// `operator:<unix user>`
    pub actor: String,
    /// Reason given by the operator.
    pub reason: String,
}

/// Kind of closing by an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Closing {
    /// The event is delivered again.
    Redriven,
    /// The record is not needed any more.
    Discarded,
}

/// The attributes a message had before Pub/Sub dead-lettered it.
#[must_use]
pub fn original_attributes(attributes: &Attributes) -> Attributes {
    let ours = |name: &str| !name.starts_with("CloudPubSubDeadLetterSource") && !name.starts_with("goog");
    attributes
        .iter()
        .filter(|(name, _)| ours(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

mod as_base64 {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_is_what_its_row_says() {
        let id = Uuid::nil();
        let failed = |reason| Some((Status::Failed, reason));
        let cases = [
            (None, Letter::UnknownSubmission(id)),
            (Some((Status::Received, None)), Letter::Premature(id)),
            (Some((Status::Processing, None)), Letter::Premature(id)),
            (failed(Some(FailReason::Exhausted)), Letter::Exhausted(id)),
            (failed(Some(FailReason::NoActions)), Letter::Exhausted(id)),
            (failed(Some(FailReason::Refused)), Letter::Closed(Some(id))),
            (failed(None), Letter::Closed(Some(id))),
            (Some((Status::Routed, None)), Letter::Closed(Some(id))),
            (Some((Status::Purged, None)), Letter::Closed(Some(id))),
        ];
        for (standing, expected) in cases {
            assert_eq!(Letter::of_row(id, standing), expected, "{standing:?}");
            assert_eq!(expected.to_record().is_some(), standing.is_none(), "{standing:?}");
        }
        assert!(Letter::Unreadable(Poison::NotAnObject).to_record().is_some());
    }

    #[test]
    fn who_gave_up_on_it_is_told_by_its_id() {
        let cases = [
            ("outbox:7:12", Origin::Outbox(7)),
            ("outbox:9223372036854775807:1", Origin::Outbox(i64::MAX)),
            ("10214", Origin::Pubsub),
            ("", Origin::Pubsub),
            ("outbox:", Origin::Pubsub),
            ("outbox:x:1", Origin::Pubsub),
            ("outbox:7", Origin::Outbox(7)),
            ("m-outbox:7:1", Origin::Pubsub),
        ];
        for (id, expected) in cases {
            assert_eq!(Origin::of(id), expected, "{id}");
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = Record {
            id: Uuid::nil(),
            kind: RecordKind::Unreadable,
            at: Timestamp::UNIX_EPOCH,
            submission_id: None,
            reason: "not_an_object".to_owned(),
            payload_sha256: String::new(),
            payload: vec![0, 255, 10],
            message_id: "m".to_owned(),
            attributes: Attributes::from([
                ("type".to_owned(), "x".to_owned()),
                ("CloudPubSubDeadLetterSourceDeliveryCount".to_owned(), "5".to_owned()),
            ]),
            alerted_at: None,
            closed: None,
        };
        let written = serde_json::to_string(&record).expect("JSON");
        assert!(!written.contains('\n'), "one line");
        assert_eq!(serde_json::from_str::<Record>(&written).expect("a record"), record);
        assert_eq!(original_attributes(&record.attributes).keys().collect::<Vec<_>>(), ["type"]);
    }
}
