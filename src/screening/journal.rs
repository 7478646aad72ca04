//! The journal of screening. Fields, places in them and what the judge noted are not logged.

use uuid::Uuid;

use super::run::Run;
use super::table::{Screening, State};
use crate::db::DbError;
use crate::kernel::jobs::Observer;
use crate::kernel::rows::{Row, Woken, Write};
use crate::scrub::scrub;
use crate::{events, journal};

events! {
    /// Events of screening.
    EventName {
        /// A run went on.
        ScreeningMoved = "screening_moved" info,
        /// A run was kept out.
        ScreenedOut = "screened_out" warn,
        /// A person has to decide.
        ScreeningReview = "screening_review" warn,
        /// A job has to wait.
        ScreeningWaits = "screening_waits" warn,
        /// A job was given up on.
        ScreeningDead = "screening_dead" error,
        /// The judge is not asked for a while.
        JudgeAway = "judge_away" warn,
        /// The judge answers again.
        JudgeBack = "judge_back" info,
        /// The judge refuses us: a person has to act.
        JudgeRefuses = "judge_refuses" error,
        /// Another run was opened.
        Rescreened = "rescreened" warn,
        /// Screening of a form was set.
        ScreeningSet = "screening_set" warn,
    }
}

/// Logs what workers do.
#[derive(Debug)]
pub struct JournalObserver;

impl Observer<Screening> for JournalObserver {
    fn claimed(&self, _: usize) {}

    fn woken(&self, woken: Woken) {
        if woken.lapsed > 0 {
            journal!(
                warn,
                EventName::ScreeningReview,
                runs = woken.lapsed,
                "{} runs waited for a verdict for as long as they may: people decide about them (rb-014)",
                woken.lapsed
            );
        }
    }

    fn settled(&self, row: &Row<Screening>, write: &Write<Screening>, ours: bool) {
        let (id, Run { subject, form_id, run, .. }) = (row.id, &row.columns);
        let (from, to) = (row.state, write.transition.to());
        if !ours {
            tracing::info!(run = %id, submission_id = %subject, "run {id}: its lease was lost while it was worked on, nothing is changed");
            return;
        }
        if from == to {
            if let Some(reason) = dead_reason(write) {
                dead(id, row, reason);
            }
            return;
        }
        let trigger = write.transition.command().label();
        match to {
            State::Tier1Failed | State::Rejected => journal!(
                warn,
                EventName::ScreenedOut,
                submission_id = %subject,
                run = %id,
                form = form_id.as_str(),
                trigger,
                "submission {subject} is kept out by run {run} ({trigger}): maple-router screening show {subject}"
            ),
            State::NeedsReview => journal!(
                warn,
                EventName::ScreeningReview,
                submission_id = %subject,
                run = %id,
                form = form_id.as_str(),
                trigger,
                "a person decides about submission {subject} ({trigger}), at the review desk"
            ),
            State::Received
            | State::VendorApproved
            | State::Tier1Scanning
            | State::Tier2Scanning
            | State::AutoApproved
            | State::Tier3Review
            | State::Published => journal!(
                info,
                EventName::ScreeningMoved,
                submission_id = %subject,
                run = %id,
                form = form_id.as_str(),
                trigger,
                "submission {subject}: its run {run} is {to} ({trigger})"
            ),
        }
    }

    fn written(&self, _: &[&Row<Screening>], refused: &[(&Row<Screening>, &DbError)]) {
        for (row, error) in refused {
            let said = scrub(&error.to_string());
            tracing::error!(run = %row.id, "run {}: its end cannot be written, it is worked on again: {said}", row.id);
        }
    }
}

fn dead_reason(write: &Write<Screening>) -> Option<&str> {
    write.columns.as_ref()?.get("dead_reason")?.as_str()
}

fn dead(id: Uuid, row: &Row<Screening>, reason: &str) {
    let (subject, state) = (row.columns.subject, row.state);
    journal!(
        error,
        EventName::ScreeningDead,
        submission_id = %subject,
        run = %id,
        reason,
        "submission {subject}: its screening is given up on while {state} ({reason}); a person has it at the review desk: \
         maple-router screening show {subject}"
    );
}

/// Says that a job has to wait, and for what.
pub(super) fn waits(row: &Row<Screening>, why: &str) {
    let subject = row.columns.subject;
    journal!(
        warn,
        EventName::ScreeningWaits,
        submission_id = %subject,
        run = %row.id,
        claims = row.claims,
        "submission {subject}: its screening has to wait while {}: {why}; it is tried again",
        row.state
    );
}

/// Another run was opened.
pub fn rescreened(submission: Uuid, run: Uuid, actor: &str, reason: &str) {
    journal!(
        warn,
        EventName::Rescreened,
        submission_id = %submission,
        run = %run,
        actor,
        reason,
        "submission {submission} is screened again, by {actor}: {reason}"
    );
}

/// Screening of a form was set; `how` in words.
pub fn set(form: &str, how: &str, actor: &str) {
    journal!(warn, EventName::ScreeningSet, form, actor, "form {form}: {how}, by {actor}");
}
