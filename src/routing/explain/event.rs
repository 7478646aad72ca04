//! The event that brings a submission to a worker, where the database writes it itself (schema `router`).
//!
//! Invariant: pure, and without knowledge of the outbox: the caller reads it and passes the event.

use jiff::Timestamp;

use super::{MAX_REPLY, at};
use crate::routing::submission::text::{bounded, one_line};

/// State of a submission's event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Event {
    /// Events are not recorded here, or the outbox could not be read.
    #[default]
    NotKept,
    /// Events are recorded, and this submission has none.
    None,
    /// The event waits for its delivery.
    Waiting {
        /// Time of the record.
        since: Timestamp,
        /// Number of attempts.
        tries: u32,
        /// Reason of the last failure.
        said: Option<String>,
    },
    /// The event is being delivered.
    OnItsWay,
    /// The event was delivered.
    Delivered {
        /// Time of the delivery.
        at: Timestamp,
        /// Message id by Pub/Sub.
        message_id: Option<String>,
    },
    /// The event was given up.
    GivenUp {
        /// Reason for giving up.
        said: Option<String>,
    },
}

impl Event {
    /// Describes the event of a submission without a claim; `late`: the claim is long overdue.
    pub(super) fn of_unclaimed(&self, late: bool) -> String {
        match self {
            Self::NotKept if late => {
                "it is complete and clean, and no worker has taken it: its event is lost, or nobody receives".to_owned()
            }
            Self::NotKept => "it is complete and clean; no worker has taken it yet".to_owned(),
            Self::None if late => {
                "it is complete and clean, and has no event at all: the triggers of schema router were missing or disabled \
                 when it became ready, or it is older than they are"
                    .to_owned()
            }
            Self::None => "it is complete and clean, and has no event yet".to_owned(),
            Self::Waiting { since, tries, said } => {
                let tried = match tries {
                    0 => "nobody has tried to deliver it".to_owned(),
                    1 => "it was tried once".to_owned(),
                    tries => format!("it was tried {tries} times"),
                };
                format!(
                    "it is complete and clean; its event waits in the outbox since {}: {tried}{}",
                    at(*since),
                    words(said.as_deref())
                )
            }
            Self::OnItsWay => "it is complete and clean; its event is being delivered".to_owned(),
            Self::Delivered { at: then, message_id } => {
                let to = match message_id {
                    Some(id) => format!("published as message {}", bounded(one_line(id), 40)),
                    None => "handed to a worker".to_owned(),
                };
                let late = if late { ", and nobody took it" } else { "" };
                format!("it is complete and clean; its event was {to} at {}{late}", at(*then))
            }
            Self::GivenUp { said } => {
                format!("it is complete and clean; its event was given up on{}", words(said.as_deref()))
            }
        }
    }

    /// Whether a person has to look at the event, however young the submission is.
    pub(super) fn needs_a_look(&self) -> bool {
        match self {
            Self::GivenUp { .. } => true,
            Self::Waiting { tries, .. } => *tries > 1,
            Self::NotKept | Self::None | Self::OnItsWay | Self::Delivered { .. } => false,
        }
    }
}

fn words(said: Option<&str>) -> String {
    said.map(|said| format!(" ({})", bounded(one_line(said), MAX_REPLY))).unwrap_or_default()
}
