//! The lifecycle of a grader's job: what the grader alone knows and writes. Pure.
//!
//! A job is its own work: what is to be done is what its state says. Its lease leads back to its state, and leaves no record. The main side
//! hears of it by callbacks, each written in the statement that moves the job.

use crate::kernel::{Edge, Lifecycle, Who, edges, words};

words! {
    /// `grading.jobs.state`.
    State {
        /// The request was taken in.
        Queued = "QUEUED",
        /// It is worked on.
        Processing = "PROCESSING",
        /// A try has failed: what follows is to be decided.
        Error = "ERROR",
        /// It waits for another try.
        Retrying = "RETRYING",
        /// Its result was sent.
        Completed = "COMPLETED",
        /// It was given up on.
        Failed = "FAILED",
    }
}

impl State {
    /// Whether the job has ended.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

words! {
    /// The commands to a job.
    Command {
        /// A request came.
        Accept = "accept",
        /// A worker begins.
        PickedUp = "picked-up",
        /// A try failed.
        TryFailed = "try-failed",
        /// Another try is planned.
        Retry = "retry",
        /// Another try begins.
        RetryDue = "retry-due",
        /// There will be none.
        GaveUp = "gave-up",
        /// There is a result.
        Complete = "complete",
        /// A worker takes it.
        Claim = "claim",
        /// A worker gives it back: whoever grades is away, or the worker stops.
        Release = "release",
        /// The worker is gone.
        Expire = "expire",
    }
}

/// The lifecycle of a grader's job; its log is `grading.events`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job;

impl Lifecycle for Job {
    type State = State;
    type Command = Command;
    const NAME: &'static str = "grading_job";
    const ABOUT: &'static str = "a grader's job: transcribe, ask, assess, and send back what came of it";
    const TABLE: &'static [Edge<State, Command>] = TABLE;
}

/// Every transition.
const TABLE: &[Edge<State, Command>] = edges! { State, Command:
    _ Accept -> Queued [Who::SYSTEM]:
        "a request that no job is of", "nothing";
    Queued PickedUp -> Processing [Who::WORKER]:
        "lease", "callback of progress";
    Queued Claim -> Queued [Who::WORKER]:
        "due, nobody has it", "claim number, lease";
    Queued Release -> Queued [Who::WORKER]:
        "lease", "next look planned";
    Queued Expire -> Queued [Who::SYSTEM] on Lease:
        "the lease has run out", "attempt refunded, available at once";
    Processing Complete -> Completed [Who::WORKER]:
        "lease; each sample is there", "callback with the result";
    Processing TryFailed -> Error [Who::WORKER]:
        "lease; the job itself is at fault, or was cancelled", "error kept; callback of progress";
    Processing Claim -> Processing [Who::WORKER]:
        "due, nobody has it, whoever grades answers", "claim number, lease";
    Processing Release -> Processing [Who::WORKER]:
        "lease; whoever grades is away", "no attempt spent";
    Processing Expire -> Processing [Who::SYSTEM] on Lease:
        "the lease has run out", "attempt refunded, available at once";
    Error Retry -> Retrying [Who::WORKER]:
        "lease; another try may succeed, and fewer than 3 were made", "retries + 1, due time; callback of progress";
    Error GaveUp -> Failed [Who::WORKER]:
        "lease; no other try may succeed, or 3 were made", "callback of kind error";
    Error Claim -> Error [Who::WORKER]:
        "due, nobody has it", "claim number, lease";
    Error Release -> Error [Who::WORKER]:
        "lease", "next look planned";
    Error Expire -> Error [Who::SYSTEM] on Lease:
        "the lease has run out", "attempt refunded, available at once";
    Retrying RetryDue -> Processing [Who::WORKER]:
        "lease", "callback of progress";
    Retrying Claim -> Retrying [Who::WORKER]:
        "due, nobody has it", "claim number, lease";
    Retrying Release -> Retrying [Who::WORKER]:
        "lease", "next look planned";
    Retrying Expire -> Retrying [Who::SYSTEM] on Lease:
        "the lease has run out", "attempt refunded, available at once";
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::transition::checks::every_triple;

    #[test]
    fn every_triple_is_either_in_the_table_or_refused_with_the_legal_commands() {
        every_triple::<Job>();
    }

    #[test]
    fn each_state_that_is_not_final_is_somebodys_work() {
        for state in State::ALL {
            let claimed =
                TABLE.iter().any(|edge| edge.from == Some(*state) && edge.command == Command::Claim);
            assert_eq!(state.is_final(), !claimed, "{state}");
        }
    }
}
