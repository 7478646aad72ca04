//! The metrics of grading, as the daemon sees them in events and rows, and those of the grader, which is a process of its own with an endpoint
//! of its own (`grading.metrics_listen`).

use super::core::review::Priority;
use super::core::skill::Skill;
use super::job::store::StepKind;
use crate::kernel::metric::{Counter, Gauge, Histogram};
use crate::words;

words! {
    /// What became of an attempt.
    AttemptOutcome {
        /// It was opened.
        Opened = "opened",
        /// It was graded without a person.
        Auto = "auto",
        /// A person had the last word.
        Reviewed = "reviewed",
        /// There is no grade.
        Failed = "failed",
    }
}

words! {
    /// Stages of an attempt.
    Stage {
        /// From the queue to the grader.
        Queued = "queued",
        /// With the grader.
        Processing = "processing",
        /// With a person.
        Review = "review",
        /// From the opening to a result without a person.
        EndToEnd = "end_to_end",
    }
}

words! {
    /// Queues of messages.
    QueueLabel {
        /// To the grader.
        Request = "request",
        /// From it.
        Callback = "callback",
        /// What nobody could take in.
        Dead = "dead",
    }
}

words! {
    /// States of attempts with the grader.
    JobLabel {
        /// Not yet in its queue.
        Pending = "pending",
        /// In its queue.
        Queued = "queued",
        /// Worked on.
        Processing = "processing",
        /// A try has failed.
        Error = "error",
        /// Another try is to come.
        Retrying = "retrying",
    }
}

words! {
    /// The outcome of a call.
    CallOutcome {
        /// There is an answer that can be used.
        Answered = "answered",
        /// Another job has paid for the same: nobody was asked.
        Copied = "copied",
        /// The answer is none that could be believed.
        Invalid = "invalid",
        /// The endpoint is away, or has no time.
        Away = "away",
        /// The endpoint refuses us.
        Refused = "refused",
        /// The work cannot be sent.
        Unfit = "unfit",
    }
}

/// The grader's calls.
pub(crate) static CALLS: Counter<(StepKind, CallOutcome)> = Counter::new(
    "maple_router_grading_calls_total",
    "Calls of the grader, by what was asked for and what became of it; of the grader's own endpoint",
)
.by(&["kind", "outcome"]);

/// Attempts, by skill and outcome.
pub(crate) static SUBMISSIONS: Counter<(Skill, AttemptOutcome)> = Counter::new(
    "maple_router_grading_submissions_total",
    "Attempts at grading, by skill and what became of them",
)
.by(&["skill", "outcome"]);
/// Times of stages.
pub(crate) static STAGE_SECONDS: Histogram<(Skill, Stage)> = Histogram::new(
    "maple_router_grading_stage_seconds",
    "Time that an attempt spent in a stage, when it left it",
    &[0.05, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 300.0, 900.0, 1200.0, 3600.0, 86_400.0, 604_800.0],
)
.by(&["skill", "stage"]);
/// Messages that wait.
pub(crate) static QUEUE_DEPTH: Gauge<QueueLabel> =
    Gauge::new("maple_router_grading_queue_depth", "Messages that wait, by queue, at the last look")
        .by(&["queue"]);
/// Attempts that are not ended, by state.
pub(crate) static JOBS: Gauge<JobLabel> =
    Gauge::new("maple_router_grading_jobs", "Attempts that are with the grader, by state, at the last look")
        .by(&["status"]);
/// Tries after the first.
pub(crate) static RETRIES: Counter = Counter::new(
    "maple_router_grading_retries_total",
    "Tries of the grader after the first one of an attempt",
);
/// Deadlines that passed.
pub(crate) static TIMEOUTS: Counter = Counter::new(
    "maple_router_grading_timeouts_total",
    "Attempts that failed because their deadline had passed",
);
/// Late results.
pub(crate) static LATE: Counter =
    Counter::new("maple_router_grading_late_total", "Results that came after their attempt had failed");
/// Attempts that wait for a person.
pub(crate) static REVIEW_PENDING: Gauge<Priority> = Gauge::new(
    "maple_router_grading_review_pending",
    "Attempts that wait for a person, by priority, at the last look",
)
.by(&["priority"]);
/// Time for which the oldest has waited for a person.
pub(crate) static REVIEW_AGE: Gauge = Gauge::new(
    "maple_router_grading_review_age_seconds",
    "Time for which the oldest attempt has waited for a person, at the last look",
);
/// How far people are from the grader.
pub(crate) static DISAGREEMENT: Histogram = Histogram::new(
    "maple_router_grading_disagreement_score",
    "Difference between a person's score and the grader's, when the person has reviewed it",
    &[0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0],
);
