//! The journal of grading. What people wrote or said, and what was said of it, is not logged: ids, codes and scores are.

use uuid::Uuid;

use super::core::message::Said;
use super::job::decide::Failed;
use super::job::row::JobRow;
use super::job::table::{Job, State as JobState};
use super::queue::{Buried, QueueName};
use super::store::callbacks::TakenIn;
use super::table::{Grading, State};
use crate::db::DbError;
use crate::kernel::Transition;
use crate::kernel::jobs::Observer;
use crate::kernel::rows::{Row, Woken, Write};
use crate::scrub::scrub;
use crate::{events, journal};

events! {
    /// Events of grading.
    EventName {
        /// An attempt went on.
        GradingMoved = "grading_moved" info,
        /// There is a final result.
        Graded = "graded" info,
        /// A person has to look.
        GradingReview = "grading_review" warn,
        /// An attempt failed: a grade is still owed.
        GradingFailed = "grading_failed" error,
        /// A result came after its attempt had failed.
        GradingLate = "grading_late" warn,
        /// Two results of one try.
        GradingDuplicate = "grading_duplicate" error,
        /// Something has to wait.
        GradingWaits = "grading_waits" warn,
        /// A message that nobody could take in.
        GradingDeadMessage = "grading_dead_message" error,
        /// A topic between the sides cannot be used: messages wait.
        GradingLinkLost = "grading_link_lost" warn,
        /// The topic can be used again.
        GradingLinkFound = "grading_link_found" info,
        /// Whoever grades is not asked for a while.
        GraderAway = "grader_away" warn,
        /// Whoever grades answers again.
        GraderBack = "grader_back" info,
        /// Whoever grades refuses us: a person has to act.
        GraderRefuses = "grader_refuses" error,
        /// Another attempt was opened.
        Regraded = "regraded" warn,
        /// A mail goes without its grade.
        GradingReleased = "grading_released" warn,
        /// Grading of a form, or a question, was set.
        GradingSet = "grading_set" warn,
    }
}

/// Logs what the publisher does.
#[derive(Debug)]
pub struct MainObserver;

impl Observer<Grading> for MainObserver {
    fn claimed(&self, _: usize) {}

    fn woken(&self, _: Woken) {}

    fn settled(&self, row: &Row<Grading>, write: &Write<Grading>, ours: bool) {
        if !ours {
            let subject = row.columns.subject;
            tracing::info!(request = %row.id, submission_id = %subject, "attempt {}: its lease was lost, nothing is changed", row.id);
            return;
        }
        if write.transition.to() != row.state {
            moved(row, write.transition, reason_of(write).unwrap_or_default());
        }
    }

    fn written(&self, _: &[&Row<Grading>], refused: &[(&Row<Grading>, &DbError)]) {
        for (row, error) in refused {
            let said = scrub(&error.to_string());
            tracing::error!(request = %row.id, "attempt {}: what follows cannot be written, it is tried again: {said}", row.id);
        }
    }
}

fn reason_of(write: &Write<Grading>) -> Option<&str> {
    write.columns.as_ref()?.get("failed_reason")?.as_str()
}

/// An attempt went on by `way`; `reason` where it failed.
fn moved(row: &Row<Grading>, way: Transition<Grading>, reason: &str) {
    let (request, subject, form) = (row.id, row.columns.subject, row.columns.form_id.as_str());
    let (attempt, trigger, to) = (row.columns.attempt, way.command().label(), way.to());
    match to {
        State::Completed => journal!(
            info,
            EventName::Graded,
            submission_id = %subject,
            request = %request,
            form,
            trigger,
            "submission {subject} is graded ({trigger})"
        ),
        State::ReviewPending => journal!(
            warn,
            EventName::GradingReview,
            submission_id = %subject,
            request = %request,
            form,
            "a person has the last word about submission {subject}, at the review desk"
        ),
        State::Failed => journal!(
            error,
            EventName::GradingFailed,
            submission_id = %subject,
            request = %request,
            form,
            reason,
            "submission {subject} is not graded ({reason}), and is still owed a grade: maple-router grading show {subject}"
        ),
        State::Pending | State::Queued | State::Processing | State::Error | State::Retrying => journal!(
            info,
            EventName::GradingMoved,
            submission_id = %subject,
            request = %request,
            form,
            trigger,
            "submission {subject}: attempt {attempt} at grading it is {to} ({trigger})"
        ),
    }
}

/// A callback was taken in.
pub(super) fn taken(callback: Uuid, what: &TakenIn) {
    match what {
        TakenIn::Moved { row, ways, said } => {
            let reason = match said {
                Said::Error(failure) => failure.code.as_str(),
                Said::Progress { .. } | Said::Completed { .. } => "",
            };
            if let Some(last) = ways.last() {
                moved(row, *last, reason);
            }
        }
        TakenIn::Late(row) => {
            super::metrics::LATE.add((), 1);
            let subject = row.columns.subject;
            journal!(
                warn,
                EventName::GradingLate,
                submission_id = %subject,
                request = %row.id,
                "submission {subject}: a result came after its attempt had failed; it is kept, and counts nowhere: maple-router grading \
                 regrade {subject} --reason TEXT takes it up where the work is the same"
            );
        }
        TakenIn::Twin(row) => {
            let subject = row.columns.subject;
            journal!(
                error,
                EventName::GradingDuplicate,
                submission_id = %subject,
                request = %row.id,
                "submission {subject}: another result of the same try came; the first one stands, this one is kept beside it"
            );
        }
        TakenIn::Nothing => tracing::debug!(callback = %callback, "callback {callback} says nothing new"),
        TakenIn::Buried(why, detail) => buried(QueueName::Callback, callback, *why, detail),
    }
}

/// A message was buried.
pub(super) fn buried(queue: QueueName, message: Uuid, why: Buried, detail: &str) {
    journal!(
        error,
        EventName::GradingDeadMessage,
        message = %message,
        queue = queue.label(),
        reason = why.label(),
        "nobody can make anything of {queue} {message} ({why}: {detail}); a person has it: maple-router grading messages --dead"
    );
}

/// A topic cannot be used.
pub(super) fn link_lost(queue: QueueName, why: &str) {
    journal!(
        warn,
        EventName::GradingLinkLost,
        queue = queue.label(),
        "{queue}s of grading do not go over their topic: {why}; they wait, and none is lost (rb-015)"
    );
}

/// A topic can be used again.
pub(super) fn link_found(queue: QueueName) {
    journal!(
        info,
        EventName::GradingLinkFound,
        queue = queue.label(),
        "{queue}s of grading go over their topic again"
    );
}

/// No deadline is acted on.
pub(super) fn timeouts_rest(due: usize) {
    journal!(
        warn,
        EventName::GradingWaits,
        due = due,
        "deadlines of {due} attempts have passed, and none is failed yet: what the grader has sent may still be on its way"
    );
}

/// The deadline of an attempt has passed.
pub(super) fn timed_out(row: &Row<Grading>) {
    let subject = row.columns.subject;
    journal!(
        error,
        EventName::GradingFailed,
        submission_id = %subject,
        request = %row.id,
        form = row.columns.form_id.as_str(),
        reason = "timeout",
        "submission {subject} is not graded in time (it was {}), and is still owed a grade: maple-router grading show {subject}",
        row.state
    );
}

/// An attempt has to wait.
pub(super) fn waits(row: &Row<Grading>, why: &str) {
    let subject = row.columns.subject;
    journal!(
        warn,
        EventName::GradingWaits,
        submission_id = %subject,
        request = %row.id,
        "submission {subject}: its grading has to wait: {why}; it is tried again"
    );
}

/// The fault of a work that cannot be sent.
pub(super) fn unpublishable(row: &Row<Grading>, why: &str) {
    let subject = row.columns.subject;
    tracing::warn!(submission_id = %subject, request = %row.id, "submission {subject} cannot be sent to the grader: {why}");
}

/// The fault of a key.
pub(super) fn no_key(question: &str, why: &str) {
    tracing::error!(
        question,
        "the answer key of question {question} cannot be used: {why}; maple-router grading question {question}"
    );
}

/// Another attempt was opened.
pub fn regraded(submission: Uuid, request: Uuid, actor: &str, reason: &str) {
    journal!(
        warn,
        EventName::Regraded,
        submission_id = %submission,
        request = %request,
        actor,
        reason,
        "submission {submission} is graded again, by {actor}: {reason}"
    );
}

/// A mail goes without its grade.
pub fn released(submission: Uuid, actor: &str, reason: &str) {
    journal!(
        warn,
        EventName::GradingReleased,
        submission_id = %submission,
        actor,
        reason,
        "the mail of submission {submission} goes without a grade, by {actor}: {reason}"
    );
}

/// Grading of a form, or a question, was set; `how` in words.
pub fn set(what: &str, how: &str, actor: &str) {
    journal!(warn, EventName::GradingSet, what, actor, "{what}: {how}, by {actor}");
}

/// Logs what the grader does.
#[derive(Debug)]
pub struct JobObserver;

impl Observer<Job> for JobObserver {
    fn claimed(&self, _: usize) {}

    fn woken(&self, _: Woken) {}

    fn settled(&self, row: &Row<Job>, write: &Write<Job>, ours: bool) {
        let JobRow { submission_id: subject, request_id: request, .. } = row.columns;
        if !ours {
            tracing::info!(request = %request, submission_id = %subject, "job {}: its lease was lost while it was worked on, nothing is changed", row.id);
            return;
        }
        let to = write.transition.to();
        if to == row.state {
            return;
        }
        let trigger = write.transition.command().label();
        if to == JobState::Failed {
            journal!(
                error,
                EventName::GradingFailed,
                submission_id = %subject,
                request = %request,
                job = %row.id,
                reason = row.columns.error.as_ref().map(|failed| failed.code.as_str()).unwrap_or_default(),
                "the grader gives up on submission {subject}: the main side hears of it"
            );
            return;
        }
        journal!(
            info,
            EventName::GradingMoved,
            submission_id = %subject,
            request = %request,
            job = %row.id,
            trigger,
            "submission {subject}: its job {} is {to} ({trigger})",
            row.id
        );
    }

    fn written(&self, _: &[&Row<Job>], refused: &[(&Row<Job>, &DbError)]) {
        for (row, error) in refused {
            let said = scrub(&error.to_string());
            tracing::error!(job = %row.id, "job {}: its end cannot be written, it is worked on again: {said}", row.id);
        }
    }
}

/// A job has to wait.
pub(super) fn job_waits(row: &Row<Job>, why: &str) {
    let subject = row.columns.submission_id;
    journal!(
        warn,
        EventName::GradingWaits,
        submission_id = %subject,
        job = %row.id,
        "submission {subject}: its job has to wait: {why}; it is tried again"
    );
}

/// A try has failed.
pub(super) fn try_failed(row: &Row<Job>, failed: &Failed) {
    let subject = row.columns.submission_id;
    journal!(
        warn,
        EventName::GradingWaits,
        submission_id = %subject,
        job = %row.id,
        code = failed.code.as_str(),
        "submission {subject}: a try at grading it has failed ({}: {}), after {} retries",
        failed.kind,
        failed.code,
        row.columns.retries
    );
}
