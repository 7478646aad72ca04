//! What a dead letter is, and what is kept of it (protocol, "Dead letters").
//!
//! Invariant: nothing here does I/O. A payload stands in its record only; the journal has its hash and its length.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::super::event::{Parsed, Poison};
use super::super::ledger::FailReason;
use crate::ports::Attributes;
use crate::routing::table::Status;

/// What is kept where no row tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Nobody can read it.
    Unreadable,
    /// There is no such submission.
    UnknownSubmission,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Unreadable, Self::UnknownSubmission];

    /// The word in records and filters.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::UnknownSubmission => "unknown_submission",
        }
    }

    /// The kind with this word.
    #[must_use]
    pub fn parse(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.label() == label)
    }
}

/// Kind of a failed submission that is its own record: nothing was left to try.
pub const EXHAUSTED: &str = "exhausted";

/// What a dead letter turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Letter {
    /// To be recorded: nobody can read it.
    Unreadable(Poison),
    /// To be recorded: there is no such submission.
    UnknownSubmission(Uuid),
    /// Its row failed because nothing was left to try; the row alerts by itself.
    Exhausted(Uuid),
    /// Its row is open: Pub/Sub's count is approximate, and the sweep goes on with it.
    Premature(Uuid),
    /// Its row has ended, or it was no event of a submission.
    Closed(Option<Uuid>),
}

/// What the row says: its status, and why it failed.
pub type Standing = Option<(Status, Option<FailReason>)>;

impl Letter {
    /// What can be said without the database.
    ///
    /// # Errors
    /// The submission to look at.
    pub fn of(parsed: &Parsed) -> Result<Self, Uuid> {
        match parsed {
            Parsed::Poison { why, .. } => Ok(Self::Unreadable(*why)),
            Parsed::Canary => Ok(Self::Closed(None)),
            Parsed::Event(event) => Err(event.submission_id),
        }
    }

    /// What an event is, as its row stands.
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

    /// What is kept of it, and why.
    #[must_use]
    pub fn to_record(self) -> Option<(Kind, String)> {
        match self {
            Self::Unreadable(why) => Some((Kind::Unreadable, why.label().to_owned())),
            Self::UnknownSubmission(_) => {
                Some((Kind::UnknownSubmission, "there is no such submission".to_owned()))
            }
            Self::Exhausted(_) | Self::Premature(_) | Self::Closed(_) => None,
        }
    }

    /// The submission it is about.
    #[must_use]
    pub fn submission(self) -> Option<Uuid> {
        match self {
            Self::Unreadable(_) => None,
            Self::UnknownSubmission(id) | Self::Exhausted(id) | Self::Premature(id) => Some(id),
            Self::Closed(id) => id,
        }
    }
}

/// Who gave up on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// Pub/Sub: a message of the dead-letter subscription.
    Pubsub,
    /// The outbox of schema `router`: this row.
    Outbox(i64),
}

impl Origin {
    /// The word in records.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Pubsub => "pubsub",
            Self::Outbox(_) => "outbox",
        }
    }

    /// Told by the id of the letter: the outbox writes `outbox:ROW`, and behind that how often the row was taken, which
    /// tells its records apart; Pub/Sub writes plain numbers.
    #[must_use]
    pub fn of(message_id: &str) -> Self {
        let row = message_id.strip_prefix("outbox:").and_then(|rest| rest.split(':').next());
        match row.and_then(|row| row.parse().ok()) {
            Some(row) => Self::Outbox(row),
            None => Self::Pubsub,
        }
    }
}

/// One record that people were not told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silent {
    /// The record.
    pub id: Uuid,
    /// See [`Kind`].
    pub kind: Kind,
    /// See [`Origin`].
    pub origin: Origin,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Ours.
    pub id: Uuid,
    /// See [`Kind`].
    pub kind: Kind,
    /// When it was recorded (database time).
    pub at: Timestamp,
    /// The submission it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission_id: Option<Uuid>,
    /// What is wrong with it.
    pub reason: String,
    /// SHA-256 of the payload, hex.
    pub payload_sha256: String,
    /// The payload.
    #[serde(rename = "payload_base64", with = "as_base64", default, skip_serializing_if = "Vec::is_empty")]
    pub payload: Vec<u8>,
    /// Pub/Sub's id of the dead letter, or the outbox's; see [`Origin::of`].
    pub message_id: String,
    /// Its attributes, Pub/Sub's own among them.
    #[serde(default)]
    pub attributes: Attributes,
    /// When people had been told.
    #[serde(default)]
    pub alerted_at: Option<Timestamp>,
    /// How it was closed.
    #[serde(default)]
    pub closed: Option<Closed>,
}

impl Record {
    /// Who gave up on it.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin::of(&self.message_id)
    }
}

/// How a record was closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// See [`Closing`].
    pub how: Closing,
    /// When.
    pub at: Timestamp,
    /// `operator:<unix user>`
    pub actor: String,
    /// Why.
    pub reason: String,
}

/// What an operator did with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Closing {
    /// It is delivered again.
    Redriven,
    /// It is not needed any more.
    Discarded,
}

/// The attributes a message had before Pub/Sub set it aside.
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
            kind: Kind::Unreadable,
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
