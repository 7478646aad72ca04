//! The lifecycle of an attempt at grading a submission: the eight states of the mission's second document, as its own side knows them. Pure.
//!
//! The grader's job has a lifecycle of its own ([`job::table`](super::job::table)). What happens to it comes here as callbacks, and moves the
//! attempt along the same ways; an attempt that has ended stays as it is, whatever comes.

use crate::kernel::{Edge, Lifecycle, Who, edges, words};

words! {
    /// `assessment.submissions.state`, as the document spells it.
    State {
        /// The attempt was opened.
        Pending = "PENDING",
        /// The request waits for the grader.
        Queued = "QUEUED",
        /// The grader works on it.
        Processing = "PROCESSING",
        /// A try has failed.
        Error = "ERROR",
        /// The grader waits until it tries again.
        Retrying = "RETRYING",
        /// A person has the last word.
        ReviewPending = "REVIEW_PENDING",
        /// There is a final result.
        Completed = "COMPLETED",
        /// There is none, and a grade is still owed.
        Failed = "FAILED",
    }
}

impl State {
    /// Whether the attempt has ended.
    #[must_use]
    pub const fn is_final(self) -> bool {
        match self {
            Self::Completed | Self::Failed => true,
            Self::Pending
            | Self::Queued
            | Self::Processing
            | Self::Error
            | Self::Retrying
            | Self::ReviewPending => false,
        }
    }

    /// Whether the deadline runs: a person may take their time.
    #[must_use]
    pub const fn is_timed(self) -> bool {
        !self.is_final() && !matches!(self, Self::ReviewPending)
    }
}

words! {
    /// The commands to an attempt; those that change its state are triggers of the events.
    Command {
        /// A submission is ready but for its grade, or a person asks for another attempt.
        Submit = "submit",
        /// The request is in the queue.
        RequestPublished = "request-published",
        /// The answers were compared with the key.
        AutoGraded = "auto-graded",
        /// What is to be graded cannot be.
        InvalidJob = "invalid-job",
        /// The grader has begun.
        PickedUp = "picked-up",
        /// A try failed.
        TryFailed = "try-failed",
        /// Another try follows.
        Retry = "retry",
        /// Another try begins.
        RetryDue = "retry-due",
        /// The grader has given up.
        GaveUp = "gave-up",
        /// The grader is done, and sure.
        Completed = "completed",
        /// The grader is done, and a person has to look.
        ReviewRequired = "review-required",
        /// A person has reviewed it.
        Reviewed = "reviewed",
        /// The deadline has passed.
        Timeout = "timeout",
        /// A worker takes the attempt to publish or compare it.
        Claim = "claim",
        /// A worker gives it back.
        Release = "release",
        /// The worker is gone.
        Expire = "expire",
    }
}

/// A person who reviews.
pub const ADMIN: Who = Who::named("admin");

/// The lifecycle of an attempt; its log is `assessment.events`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grading;

impl Lifecycle for Grading {
    type State = State;
    type Command = Command;
    const NAME: &'static str = "grading";
    const ABOUT: &'static str = "an attempt at grading a submission, until there is a final result, or a person is told that there is none";
    const TABLE: &'static [Edge<State, Command>] = TABLE;
}

/// Every transition.
const TABLE: &[Edge<State, Command>] = edges! { State, Command:
    _ Submit -> Pending [Who::SYSTEM, Who::OPERATOR]:
        "the form has a profile; no attempt, or the last one failed", "deadline pinned: now and the SLA";
    Pending RequestPublished -> Queued [Who::WORKER]:
        "lease", "the request in `mq.grading_request`";
    Pending AutoGraded -> Completed [Who::WORKER]:
        "lease; listening or reading", "final result; the submission's event";
    Pending InvalidJob -> Failed [Who::WORKER]:
        "lease; no key, no text, too long, no consent", "entry `grading_failed`";
    Pending Claim -> Pending [Who::WORKER]:
        "due, nobody has it", "claim number, lease";
    Pending Release -> Pending [Who::WORKER]:
        "lease", "next look planned";
    Pending Expire -> Pending [Who::SYSTEM] on Lease:
        "the lease has run out", "attempt refunded, available at once";
    Pending Timeout -> Failed [Who::SYSTEM]:
        "deadline passed", "entry `grading_failed`";
    Queued PickedUp -> Processing [Who::SYSTEM]:
        "callback, newer than what is known", "try and number kept";
    Queued InvalidJob -> Failed [Who::SYSTEM]:
        "callback: the grader cannot read the request", "entry `grading_failed`";
    Queued Timeout -> Failed [Who::SYSTEM]:
        "deadline passed, no callback of it waits", "entry `grading_failed`; message `cancel`";
    Processing TryFailed -> Error [Who::SYSTEM]:
        "callback, newer than what is known", "try and number kept";
    Processing Completed -> Completed [Who::SYSTEM]:
        "callback with a valid result that needs no review", "results ai and final; the submission's event";
    Processing ReviewRequired -> ReviewPending [Who::SYSTEM]:
        "callback with a valid result that needs one", "result ai; entry `grading`";
    Processing Timeout -> Failed [Who::SYSTEM]:
        "deadline passed, no callback of it waits", "entry `grading_failed`; message `cancel`";
    Error Retry -> Retrying [Who::SYSTEM]:
        "callback, newer than what is known", "try and number kept";
    Error GaveUp -> Failed [Who::SYSTEM]:
        "callback of kind error", "entry `grading_failed`";
    Error Timeout -> Failed [Who::SYSTEM]:
        "deadline passed, no callback of it waits", "entry `grading_failed`; message `cancel`";
    Retrying RetryDue -> Processing [Who::SYSTEM]:
        "callback, newer than what is known", "try and number kept";
    Retrying GaveUp -> Failed [Who::SYSTEM]:
        "callback of kind error", "entry `grading_failed`";
    Retrying Timeout -> Failed [Who::SYSTEM]:
        "deadline passed, no callback of it waits", "entry `grading_failed`; message `cancel`";
    ReviewPending Reviewed -> Completed [ADMIN]:
        "version, reason", "results human and final; its entry is resolved; the submission's event";
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::kernel::transition::checks::every_triple;

    #[test]
    fn every_triple_is_either_in_the_table_or_refused_with_the_legal_commands() {
        every_triple::<Grading>();
    }

    /// The document's diagram, and the contract's three ways that it lacks: comparing with a key, an invalid job before its queue, and errors
    /// that end at once or too late.
    #[test]
    fn the_ways_are_those_of_the_document_and_of_the_contract() {
        let expected = [
            ("PENDING", "QUEUED COMPLETED FAILED"),
            ("QUEUED", "PROCESSING FAILED"),
            ("PROCESSING", "COMPLETED REVIEW_PENDING ERROR FAILED"),
            ("ERROR", "RETRYING FAILED"),
            ("RETRYING", "PROCESSING FAILED"),
            ("REVIEW_PENDING", "COMPLETED"),
            ("COMPLETED", ""),
            ("FAILED", ""),
        ];
        assert_eq!(expected.len(), State::ALL.len());
        for (from, to) in expected {
            let leads = |edge: &&Edge<State, Command>| {
                edge.from.is_some_and(|state| state.label() == from) && edge.from != Some(edge.to)
            };
            let found: BTreeSet<&str> = TABLE.iter().filter(leads).map(|edge| edge.to.label()).collect();
            assert_eq!(found, to.split_whitespace().collect(), "{from}");
        }
    }

    #[test]
    fn the_deadline_runs_exactly_where_it_can_fail_the_attempt() {
        for state in State::ALL {
            let timed =
                TABLE.iter().any(|edge| edge.from == Some(*state) && edge.command == Command::Timeout);
            assert_eq!(state.is_timed(), timed, "{state}");
            let leads_out = TABLE.iter().any(|edge| edge.from == Some(*state));
            assert_eq!(state.is_final(), !leads_out, "{state}");
        }
    }
}
