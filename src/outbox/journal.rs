//! What is told of rows: counted always, and said where an operator has to know of it.
//!
//! Never says what stands in a payload.

use super::card;
use super::row::{Row, Settling};
use super::store::Woken;
use super::table::Command;
use crate::journal;
use crate::ops::metrics::{self, DeadLetterKind};
use crate::ops::telemetry::EventName;

/// So many rows were taken.
pub(super) fn claimed(rows: usize) {
    card::transitions(Command::Claim, u64::try_from(rows).unwrap_or(u64::MAX));
}

/// So many rows were brought back.
pub(super) fn woken(woken: Woken) {
    card::transitions(Command::Expire, woken.expired);
    card::transitions(Command::FallDue, woken.due);
    if woken.expired > 0 {
        tracing::warn!(
            rows = woken.expired,
            "leases in the outbox had run out: these rows are delivered again"
        );
    }
}

/// A delivery has ended; `ours`: its lease had not run out.
pub(super) fn settled(row: &Row, settling: &Settling, ours: bool) {
    let (id, reason) = (row.id, settling.error.as_deref());
    if !ours {
        tracing::warn!(row = id, command = %settling.command, "the lease had run out: delivered again");
        return;
    }
    card::transitions(settling.command, 1);
    match settling.command {
        Command::GiveUp => {
            let kind = match settling.unreadable {
                true => DeadLetterKind::Unreadable,
                false => DeadLetterKind::UnknownSubmission,
            };
            metrics::dead_letter(kind);
            journal!(
                error,
                EventName::DeadLetter,
                submission_id = row.submission().map(tracing::field::display),
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
