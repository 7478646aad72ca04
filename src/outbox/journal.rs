//! The outbox's journal: rows are counted always, and told of where an operator has to know.
//!
//! Never says what stands in a payload.

use super::card;
use super::row::{Fault, fault_of};
use super::table::{Command, Outbox};
use crate::db::DbError;
use crate::journal;
use crate::kernel::jobs::Observer;
use crate::kernel::rows::{Row, Woken, Write};
use crate::ops::metrics::{self, DeadLetterKind};
use crate::ops::set_aside::{Refusal, SetAside, Writing};
use crate::ops::telemetry::EventName;

/// Counts and tells; submissions whose rows refuse their settlement are set aside.
#[derive(Debug)]
pub struct Told {
    /// Hears of rows whose settlement the database refuses.
    pub set_aside: SetAside,
}

impl Observer<Outbox> for Told {
    fn claimed(&self, rows: usize) {
        card::transitions(Command::Claim, u64::try_from(rows).unwrap_or(u64::MAX));
    }

    fn woken(&self, woken: Woken) {
        card::transitions(Command::Expire, woken.expired);
        card::transitions(Command::FallDue, woken.due);
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
        card::transitions(command, 1);
        match command {
            Command::GiveUp => {
                let kind = match fault_of(write) {
                    Some(Fault::UnknownSubmission) => DeadLetterKind::UnknownSubmission,
                    Some(Fault::Unreadable) | None => DeadLetterKind::Unreadable,
                };
                metrics::dead_letter(kind);
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
