//! The outbox's journal: every row is counted, and logged where an operator has to know.
//!
//! The contents of a payload are never logged.

use uuid::Uuid;

use super::metrics::TRANSITIONS;
use super::row::fault_of;
use super::table::{Command, Outbox};
use crate::db::DbError;
use crate::kernel::jobs::Observer;
use crate::kernel::rows::{Row, Woken, Write};
use crate::ops::metrics::{DEAD_LETTERS, DeadLetterKind};
use crate::ops::set_aside::{Refusal, SetAside, Writing};
use crate::ports::RecordKind;
use crate::{events, journal};

events! {
    /// Events in the life of outbox rows.
    EventName {
        /// A row became a dead letter.
        DeadLetter = "dead_letter" error,
        /// Events wait in the outbox and are not delivered.
        OutboxStalled = "outbox_stalled" error | warn,
        /// Events of the outbox are delivered again.
        OutboxFlowing = "outbox_flowing" info,
        /// A person closed a dead letter.
        Override = "override" warn,
    }
}

/// A person closed a dead letter, by a verb and for a reason; at the command line and elsewhere the same words. To be written
/// once the commit is confirmed.
pub fn dead_letter_closed(record: Uuid, submission: Option<Uuid>, (actor, verb, reason): (&str, &str, &str)) {
    journal!(
        warn,
        EventName::Override,
        submission_id = submission.map(tracing::field::display),
        dead_letter = %record,
        actor = actor,
        verb = verb,
        reason = reason,
        "an operator closed a dead letter"
    );
}

/// Counts and logs; sets submissions aside whose rows refuse their settlement.
#[derive(Debug)]
pub struct JournalObserver {
    /// Receives rows whose settlement the database refuses.
    pub set_aside: SetAside,
}

impl Observer<Outbox> for JournalObserver {
    fn claimed(&self, rows: usize) {
        TRANSITIONS.add(Command::Claim, u64::try_from(rows).unwrap_or(u64::MAX));
    }

    fn woken(&self, woken: Woken) {
        TRANSITIONS.add(Command::Expire, woken.expired);
        TRANSITIONS.add(Command::FallDue, woken.due);
        if woken.expired > 0 {
            tracing::warn!(
                rows = woken.expired,
                "leases in the outbox had run out: these rows are delivered again"
            );
        }
    }

    fn settled(&self, row: &Row<Outbox>, write: &Write<Outbox>, ours: bool) {
        let (id, reason, command) = (row.id, write.reason.as_deref(), write.transition.command());
        if !ours {
            tracing::warn!(row = id, %command, "the lease had run out: delivered again");
            return;
        }
        TRANSITIONS.add(command, 1);
        match command {
            Command::GiveUp => {
                let kind = match fault_of(write) {
                    Some(RecordKind::UnknownSubmission) => DeadLetterKind::UnknownSubmission,
                    Some(RecordKind::Notification) => DeadLetterKind::Notification,
                    Some(RecordKind::Unreadable) | None => DeadLetterKind::Unreadable,
                };
                DEAD_LETTERS.add(kind, 1);
                journal!(
                    error,
                    EventName::DeadLetter,
                    submission_id = row.columns.submission().map(tracing::field::display),
                    outbox_row = id,
                    attempt = row.attempts,
                    outcome = kind.label(),
                    reason = reason,
                    "an outbox row is given up on: it is recorded; see `maple-router dlq list`"
                );
            }
            Command::Fail => tracing::warn!(
                row = id,
                attempt = row.attempts,
                reason = reason,
                "an outbox row could not be delivered; it is tried again"
            ),
            Command::Claim
            | Command::Succeed
            | Command::Release
            | Command::Expire
            | Command::FallDue
            | Command::Redrive => {}
        }
    }

    fn written(&self, took: &[&Row<Outbox>], refused: &[(&Row<Outbox>, &DbError)]) {
        let submission = |row: &Row<Outbox>| row.columns.submission();
        let named = |(row, error): &(&Row<Outbox>, &DbError)| Some((submission(row)?, error.named()));
        let unwritten: Vec<Refusal> = refused.iter().filter_map(named).collect();
        self.set_aside.note(Writing::Settle, took.iter().filter_map(|row| submission(row)), &unwritten);
        for (row, error) in refused.iter().filter(|(row, _)| submission(row).is_none()) {
            tracing::error!(row = row.id, "it cannot be settled, and comes again: {}", error.named());
        }
    }
}
