//! A row under delivery: its kind of message, the submission it names, and how its delivery may end. Pure.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::table::{Command, Outbox};
use crate::kernel::jobs::retries::Ending;
use crate::kernel::rows::{Row, Write};
use crate::ports::Attributes;
use crate::ports::RecordKind;

/// Attribute with the kind of a message (data contract, "The event").
const TYPE: &str = "type";
/// Attribute with the version of the payload.
const VERSION: &str = "v";
/// Kind of the events that schema `router` writes.
const ROUTING_READY: &str = "routing.ready";
/// The version that schema `router` writes.
const CURRENT_VERSION: &str = "1";

/// The message of an outbox row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The kind of message.
    pub kind: String,
    /// The payload, JSON.
    pub payload: Bytes,
    /// Time at which the row was written.
    pub created_at: Timestamp,
}

impl Message {
    /// The message's attributes.
    #[must_use]
    pub fn attributes(&self) -> Attributes {
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Attributes::from([label(TYPE, &self.kind), label(VERSION, CURRENT_VERSION)])
    }

    /// The submission named in the payload of a routing event; absent for other kinds.
    #[must_use]
    pub fn submission(&self) -> Option<Uuid> {
        let payload: Value = serde_json::from_slice(&self.payload).unwrap_or_default();
        let named = payload["submission_id"].as_str().filter(|_| self.kind == ROUTING_READY)?;
        Uuid::try_parse(named).ok()
    }
}

/// A row's name in journals and in dead-letter records.
#[must_use]
pub fn message_id(row: &Row<Outbox>) -> String {
    format!("outbox:{}", row.id)
}

/// The end of a delivered row, with the receiver's id for it, if any.
#[must_use]
pub fn delivered(message_id: Option<String>) -> Ending<Outbox> {
    let columns = message_id.map(|id| json!({"message_id": id}));
    Ending::Done { command: Command::Succeed, to: None, columns }
}

/// The end of a row that is at fault itself. `why` in words, for operators: no text of the payload.
#[must_use]
pub fn failed(fault: RecordKind, why: &str) -> Ending<Outbox> {
    let columns = json!({"error": why, "dead_letter": fault.label()});
    Ending::Failed { why: why.to_owned(), columns: Some(columns) }
}

/// The kind of dead-letter record that a write leaves.
#[must_use]
pub fn fault_of(write: &Write<Outbox>) -> Option<RecordKind> {
    let label = write.columns.as_ref()?.get("dead_letter")?.as_str()?;
    RecordKind::parse(label)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;
    use crate::kernel::jobs::retries::Retries;
    use crate::outbox::table::State;

    const RETRIES: Retries =
        Retries { max_attempts: 5, min: Duration::from_secs(1), max: Duration::from_secs(300), doublings: 1 };

    fn row(attempts: u32) -> Row<Outbox> {
        let columns = Message {
            kind: "routing.ready".to_owned(),
            payload: Bytes::new(),
            created_at: Timestamp::UNIX_EPOCH,
        };
        let (token, state) = (Some(Uuid::nil()), State::Delivering);
        Row { id: 7, state, attempts, claims: attempts, token, version: None, columns }
    }

    fn settled(attempts: u32, ending: Ending<Outbox>, rng: &mut StdRng) -> Write<Outbox> {
        RETRIES.settle(&row(attempts), ending, rng).expect("a way to end a delivery")
    }

    #[test]
    fn only_the_rows_own_failures_bring_it_to_its_end() {
        let failed = || failed(RecordKind::Unreadable, "no JSON");
        let cases = [
            (1, delivered(Some("9".to_owned())), Command::Succeed),
            (5, delivered(None), Command::Succeed),
            (9, Ending::Again, Command::Release),
            (9, Ending::AtOnce, Command::Release),
            (1, failed(), Command::Fail),
            (4, failed(), Command::Fail),
            (5, failed(), Command::GiveUp),
            (6, failed(), Command::GiveUp),
        ];
        for (attempts, ending, expected) in cases {
            let case = format!("{ending:?} at {attempts}");
            let write = settled(attempts, ending, &mut StdRng::seed_from_u64(1));
            assert_eq!(write.transition.command(), expected, "{case}");
            let again = matches!(expected, Command::Fail | Command::Release);
            assert_eq!(write.pause.is_some(), again, "{case}");
            assert_eq!(write.reason.is_some(), matches!(expected, Command::Fail | Command::GiveUp), "{case}");
        }
    }

    #[test]
    fn a_row_that_comes_again_rests_ever_longer_and_one_that_nobody_saw_not_at_all() {
        let mut rng = StdRng::seed_from_u64(2);
        for times in 1..50 {
            let pause = |ending, rng: &mut _| settled(times, ending, rng).pause.expect("again");
            let rest = pause(Ending::Again, &mut rng);
            let ceiling = Duration::from_secs(1 << (times - 1).min(12)).min(RETRIES.max);
            assert!((RETRIES.min..=ceiling.max(RETRIES.min)).contains(&rest), "{times}: {rest:?}");
            assert_eq!(pause(Ending::AtOnce, &mut rng), Duration::ZERO);
        }
    }
}
