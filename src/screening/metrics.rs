//! The metrics of screening, by the document's names, as the daemon sees them in events and rows: the screener is a process of its own.

use super::table::JobType;
use crate::kernel::metric::{Counter, Gauge, Histogram};
use crate::words;

words! {
    /// What was decided about a run; rates are made of these.
    Verdict {
        /// Its origin is trusted.
        VendorApproved = "vendor_approved",
        /// A rule blocks.
        Tier1Failed = "tier1_failed",
        /// The judge approved.
        AutoApproved = "auto_approved",
        /// A person has to decide.
        NeedsReview = "needs_review",
        /// No verdict was to be had: a person has to decide.
        Unavailable = "unavailable",
        /// The judge rejected.
        Rejected = "rejected",
        /// A person approved.
        ReviewApproved = "review_approved",
        /// A person rejected.
        ReviewRejected = "review_rejected",
    }
}

words! {
    /// How a job ended.
    JobOutcome {
        /// Its work is done.
        Done = "done",
        /// It was given up on.
        Failed = "failed",
    }
}

words! {
    /// The document's stages.
    Stage {
        /// Rules.
        Tier1 = "tier1",
        /// The judge.
        Tier2 = "tier2",
        /// From approval to publication.
        Publish = "publish",
        /// From birth to an end without people.
        EndToEnd = "end_to_end",
        /// From the entry to its decision.
        Review = "review",
    }
}

/// Runs that were opened.
pub(crate) static RECEIVED: Counter =
    Counter::new("maple_router_screening_submissions_received_total", "Runs of screening that were opened");
/// Time of the rules alone.
pub(crate) static TIER1_SECONDS: Histogram = Histogram::new(
    "maple_router_screening_tier1_scan_duration_seconds",
    "Time that the rules took for what was in hand",
    &[0.001, 0.005, 0.02, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0],
);
/// Time of the judge.
pub(crate) static TIER2_SECONDS: Histogram = Histogram::new(
    "maple_router_screening_tier2_scan_duration_seconds",
    "Time that the judge took to answer, both answers where it was asked twice",
    &[0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0],
);
/// Jobs that wait or run.
pub(crate) static QUEUE_DEPTH: Gauge<JobType> = Gauge::new(
    "maple_router_screening_queue_depth",
    "Jobs of screening that wait or run, by type, at the last look",
)
.by(&["job_type"]);
/// Time for which the longest-waiting job has been due.
pub(crate) static QUEUE_OLDEST: Gauge<JobType> = Gauge::new(
    "maple_router_screening_queue_oldest_seconds",
    "Time for which the longest-waiting job has been due, by type, at the last look",
)
.by(&["job_type"]);
/// Decisions.
pub(crate) static DECISIONS: Counter<Verdict> =
    Counter::new("maple_router_screening_decisions_total", "Decisions about runs, by what was decided")
        .by(&["decision"]);
/// Ended jobs.
pub(crate) static JOBS: Counter<(JobType, JobOutcome)> =
    Counter::new("maple_router_screening_jobs_total", "Jobs of screening that ended, by type and outcome")
        .by(&["job_type", "outcome"]);
/// Times of the document's table.
pub(crate) static STAGE_SECONDS: Histogram<Stage> = Histogram::new(
    "maple_router_screening_stage_seconds",
    "Time that a run spent in a stage, when it left it",
    &[0.5, 1.0, 5.0, 10.0, 15.0, 30.0, 60.0, 300.0, 3600.0, 86_400.0, 604_800.0, 1_209_600.0],
)
.by(&["stage"]);
/// Tokens that the judge has cost today.
pub(crate) static JUDGE_TOKENS: Gauge = Gauge::new(
    "maple_router_screening_judge_tokens",
    "Tokens that questions to the judge have cost on this day (UTC), at the last look",
);
/// Tokens that it may cost in a day.
pub(crate) static JUDGE_TOKENS_LIMIT: Gauge = Gauge::new(
    "maple_router_screening_judge_tokens_limit",
    "Tokens that questions to the judge may cost in a day (screening.judge.tokens_per_day)",
);
/// Time for which the oldest run has waited for a person.
pub(crate) static REVIEW_OLDEST: Gauge = Gauge::new(
    "maple_router_screening_review_oldest_seconds",
    "Time for which the oldest run has waited for a person, at the last look",
);
