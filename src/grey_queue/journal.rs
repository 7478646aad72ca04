//! The grey queue's journal. Reasons that people wrote are not logged: the entry's history has them.

use super::metrics::{REMEDIES, RemedyOutcome, TRANSITIONS};
use super::table::{Command, GreyQueue};
use crate::db::DbError;
use crate::kernel::jobs::Observer;
use crate::kernel::rows::{Row, Woken, Write};
use crate::{events, journal};

events! {
    /// Events in the life of entries.
    EventName {
        /// A person decided, or the policy.
        ReviewDecided = "review_decided" info,
        /// Evidence became sufficient after a remedy.
        ReviewResolved = "review_resolved" info,
        /// A remedy's attempt failed.
        ReviewRemedyFailed = "review_remedy_failed" warn,
        /// A remedy failed once too often.
        ReviewFailed = "review_failed" error,
        /// Entries expired.
        ReviewExpired = "review_expired" warn,
        /// Failures had no entry.
        ReviewReconciled = "review_reconciled" error,
        /// An entry's subject was emptied.
        ReviewSubjectGone = "review_subject_gone" warn,
    }
}

/// Counts and logs what workers and timers do.
#[derive(Debug, Default)]
pub struct JournalObserver;

impl Observer<GreyQueue> for JournalObserver {
    fn claimed(&self, rows: usize) {
        TRANSITIONS.add(Command::Claim, u64::try_from(rows).unwrap_or(u64::MAX));
    }

    fn woken(&self, woken: Woken) {
        TRANSITIONS.add(Command::Lapse, woken.expired);
        TRANSITIONS.add(Command::TryAgain, woken.due);
        TRANSITIONS.add(Command::Expire, woken.lapsed);
        if woken.lapsed > 0 {
            journal!(
                warn,
                EventName::ReviewExpired,
                entries = woken.lapsed,
                "entries expired: nobody decided in time; `maple-router review list --state Expired` has them"
            );
        }
    }

    fn settled(&self, row: &Row<GreyQueue>, write: &Write<GreyQueue>, ours: bool) {
        let (id, command) = (row.id, write.transition.command());
        if !ours {
            tracing::info!(entry = %id, %command, "somebody took the entry from its remedy");
            return;
        }
        TRANSITIONS.add(command, 1);
        let entry = &row.columns;
        let remedy = entry.job.as_ref().map(|job| job.remedy.label());
        let why = write.reason.as_deref().or_else(|| write.columns.as_ref()?.get("why")?.as_str());
        match command {
            Command::Succeed => {
                REMEDIES.add(RemedyOutcome::Succeeded, 1);
                journal!(
                    info,
                    EventName::ReviewResolved,
                    entry = %id,
                    submission_id = (entry.subject.kind == "submission").then_some(tracing::field::display(entry.subject.id)),
                    remedy,
                    attempt = row.attempts,
                    "the entry is resolved: evidence is sufficient"
                );
            }
            Command::RetryLater | Command::HandOver => {
                REMEDIES.add(RemedyOutcome::Failed, 1);
                journal!(
                    warn,
                    EventName::ReviewRemedyFailed,
                    entry = %id,
                    submission_id = (entry.subject.kind == "submission").then_some(tracing::field::display(entry.subject.id)),
                    remedy,
                    attempt = row.attempts,
                    reason = why,
                    "a remedy did not help; {}",
                    if command == Command::HandOver { "it is its asker's again" } else { "it is tried again" }
                );
            }
            Command::GiveUp => {
                REMEDIES.add(RemedyOutcome::Failed, 1);
                journal!(
                    error,
                    EventName::ReviewFailed,
                    entry = %id,
                    submission_id = (entry.subject.kind == "submission").then_some(tracing::field::display(entry.subject.id)),
                    remedy,
                    attempt = row.attempts,
                    reason = why,
                    "the remedy is given up on; see `maple-router review show {id}`"
                );
            }
            Command::Open
            | Command::Start
            | Command::Assign
            | Command::Expire
            | Command::Dismiss
            | Command::TryAgain
            | Command::Escalate
            | Command::Resolve
            | Command::Reject
            | Command::Unassign
            | Command::DeEscalate
            | Command::Reopen
            | Command::Reset
            | Command::Claim
            | Command::Release
            | Command::Lapse => {}
        }
    }

    fn written(&self, _: &[&Row<GreyQueue>], refused: &[(&Row<GreyQueue>, &DbError)]) {
        for (row, error) in refused {
            tracing::error!(entry = %row.id, "it cannot be settled, and comes again: {}", error.named());
        }
    }
}
