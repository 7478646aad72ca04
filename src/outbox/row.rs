//! A row that is being delivered, and what follows from how that went. Pure.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use rand::Rng;
use serde_json::Value;
use uuid::Uuid;

use crate::backoff::backoff;
use crate::outbox::table::Command;
use crate::ports::Attributes;

/// Attribute that names the kind of a message (data contract, "The event").
const TYPE: &str = "type";
/// Attribute that names the version of its payload.
const VERSION: &str = "v";
/// Kind of the events that schema `router` writes.
const ROUTING_READY: &str = "routing.ready";
/// The version that schema `router` writes.
const CURRENT_VERSION: &str = "1";

/// A row as its claim found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// `router.outbox.id`
    pub id: i64,
    /// What kind of message it is.
    pub kind: String,
    /// Its payload, JSON.
    pub payload: Bytes,
    /// Deliveries that failed because of the row itself, this one counted until it is known better.
    pub attempts: u32,
    /// How often it was taken, this time included.
    pub claims: u32,
    /// When it was written.
    pub created_at: Timestamp,
    /// Fence of this delivery.
    pub token: Uuid,
}

impl Row {
    /// The message's attributes.
    #[must_use]
    pub fn attributes(&self) -> Attributes {
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Attributes::from([label(TYPE, &self.kind), label(VERSION, CURRENT_VERSION)])
    }

    /// The submission it names, where it is a routing event.
    #[must_use]
    pub fn submission(&self) -> Option<Uuid> {
        let payload: Value = serde_json::from_slice(&self.payload).unwrap_or_default();
        let named = payload["submission_id"].as_str().filter(|_| self.kind == ROUTING_READY)?;
        Uuid::try_parse(named).ok()
    }

    /// Its name in journals and in dead-letter records.
    #[must_use]
    pub fn message_id(&self) -> String {
        format!("outbox:{}", self.id)
    }
}

/// How a delivery ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// Delivered, under the id that the other side gave, where it gives one.
    Delivered(Option<String>),
    /// Nothing is wrong with the row: again, after a pause that grows with how often it was taken.
    Again,
    /// Nothing is wrong with the row, and nobody has looked at it: again, by whoever comes first.
    AtOnce,
    /// The row itself is at fault.
    Failed {
        /// In words, for operators: no text of the payload.
        why: String,
        /// It cannot be read at all; else it names a submission that does not exist.
        unreadable: bool,
    },
}

/// When a row is tried again, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// Failures of its own after which it is given up on.
    pub max_attempts: u32,
    /// Shortest pause.
    pub min: Duration,
    /// Longest pause.
    pub max: Duration,
}

/// What is to be written for an ending.
#[derive(Debug, Clone, PartialEq)]
pub struct Settling {
    /// The row.
    pub id: i64,
    /// Its fence.
    pub token: Uuid,
    /// What is asked of the lifecycle.
    pub command: Command,
    /// Pause before the next try, where there is one.
    pub pause: Option<Duration>,
    /// The other side's id of it.
    pub message_id: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// See [`Ending::Failed`].
    pub unreadable: bool,
}

impl Retries {
    /// What follows from `ending`. A failure counts the claim it ends; nothing else does.
    pub fn settle(self, row: &Row, ending: Ending, chance: &mut impl Rng) -> Settling {
        let (id, token) = (row.id, row.token);
        let plain = Settling {
            id,
            token,
            command: Command::Succeed,
            pause: None,
            message_id: None,
            error: None,
            unreadable: false,
        };
        match ending {
            Ending::Delivered(message_id) => Settling { message_id, ..plain },
            Ending::Again => {
                let pause = backoff(row.claims, self.min, self.max, chance);
                Settling { command: Command::Release, pause: Some(pause), ..plain }
            }
            Ending::AtOnce => Settling { command: Command::Release, pause: Some(Duration::ZERO), ..plain },
            Ending::Failed { why, unreadable } if row.attempts >= self.max_attempts => {
                Settling { command: Command::GiveUp, error: Some(why), unreadable, ..plain }
            }
            Ending::Failed { why, unreadable } => {
                let pause = backoff(row.attempts, self.min, self.max, chance);
                Settling { command: Command::Fail, pause: Some(pause), error: Some(why), unreadable, ..plain }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    const RETRIES: Retries =
        Retries { max_attempts: 5, min: Duration::from_secs(1), max: Duration::from_secs(300) };

    fn row(attempts: u32) -> Row {
        Row {
            id: 7,
            kind: "routing.ready".to_owned(),
            payload: Bytes::new(),
            attempts,
            claims: attempts,
            created_at: Timestamp::UNIX_EPOCH,
            token: Uuid::nil(),
        }
    }

    #[test]
    fn only_the_rows_own_failures_bring_it_to_its_end() {
        let failed = || Ending::Failed { why: "no JSON".to_owned(), unreadable: true };
        let cases = [
            (1, Ending::Delivered(Some("9".to_owned())), Command::Succeed),
            (5, Ending::Delivered(None), Command::Succeed),
            (9, Ending::Again, Command::Release),
            (9, Ending::AtOnce, Command::Release),
            (1, failed(), Command::Fail),
            (4, failed(), Command::Fail),
            (5, failed(), Command::GiveUp),
            (6, failed(), Command::GiveUp),
        ];
        for (attempts, ending, expected) in cases {
            let told = format!("{ending:?} at {attempts}");
            let settling = RETRIES.settle(&row(attempts), ending, &mut StdRng::seed_from_u64(1));
            assert_eq!(settling.command, expected, "{told}");
            let again = matches!(expected, Command::Fail | Command::Release);
            assert_eq!(settling.pause.is_some(), again, "{told}");
            assert_eq!(
                settling.error.is_some(),
                matches!(expected, Command::Fail | Command::GiveUp),
                "{told}"
            );
        }
    }

    #[test]
    fn a_row_that_comes_again_rests_ever_longer_and_one_that_nobody_saw_not_at_all() {
        let mut chance = StdRng::seed_from_u64(2);
        for times in 1..50 {
            let pause =
                |ending, chance: &mut _| RETRIES.settle(&row(times), ending, chance).pause.expect("again");
            let rest = pause(Ending::Again, &mut chance);
            let ceiling = Duration::from_secs(1 << (times - 1).min(12)).min(RETRIES.max);
            assert!((RETRIES.min..=ceiling.max(RETRIES.min)).contains(&rest), "{times}: {rest:?}");
            assert_eq!(pause(Ending::AtOnce, &mut chance), Duration::ZERO);
        }
    }
}
