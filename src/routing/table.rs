//! The lifecycle of a submission's `status` (protocol, "Terms"): the only definition of its transitions. Pure.

use crate::kernel::{Edge, Lifecycle, Who, edges, words};

words! {
    /// `submissions.status`, the only lifecycle state of a submission; the database's enum `submission_status`.
    Status {
        /// Waiting: for its attachments, for its event, or for the next attempt.
        Received = "received",
        /// Claimed by a worker.
        Processing = "processing",
        /// Every delivery is accepted or not implemented.
        Routed = "routed",
        /// A delivery failed for good; the partial result is in the ledger.
        Failed = "failed",
        /// Emptied by retention. The row is not written any more.
        Purged = "purged",
    }
}

impl Status {
    /// Whether the status changes no more unless a person asks.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Routed | Self::Failed | Self::Purged => true,
            Self::Received | Self::Processing => false,
        }
    }
}

words! {
    /// Transition that can be asked for.
    Command {
        /// Claim by a worker (protocol §2).
        Claim = "claim",
        /// Failure before any claim: infected, attempts spent, ledger damaged (protocol §2).
        Refuse = "refuse",
        /// End without a failure (protocol §6).
        FinishRouted = "finish_routed",
        /// End with a failure (protocol §6).
        FinishFailed = "finish_failed",
        /// Return for a later attempt (protocol §6, §7).
        Release = "release",
        /// Taking back from a worker that is gone (protocol, "Sweep").
        Reset = "reset",
        /// Another routing, asked by an operator (protocol, "Replay").
        Replay = "replay",
        /// Making of tickets that were deferred while there was no help desk (help-desk contract, "State").
        Backfill = "backfill",
        /// Emptying at the end of retention, or before it for a person's sake.
        Purge = "purge",
        /// Emptying of what was never claimed, because an operator says that it never will be.
        Abandon = "abandon",
    }
}

/// The lifecycle of a submission; its record is `audit_log`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submission;

impl Lifecycle for Submission {
    type State = Status;
    type Command = Command;
    const NAME: &'static str = "submission";
    const ABOUT: &'static str = "the status of a submission, from its arrival to its retention's end";
    const TABLE: &'static [Edge<Status, Command>] = TABLE;
}

/// Every transition of the lifecycle.
const TABLE: &[Edge<Status, Command>] = edges! { Status, Command:
    Received Claim -> Processing [Who::WORKER]:
        "ready, due, attempts left, ledger well-shaped", "plan pinned, token and deadline set, attempts + 1";
    Received Refuse -> Failed [Who::WORKER, Who::SYSTEM]:
        "an attachment is infected, attempts are spent, or the ledger is damaged", "audit submission_route_failed";
    Processing FinishRouted -> Routed [Who::WORKER]:
        "token; every delivery accepted or not implemented", "audit submission_routed";
    Processing FinishFailed -> Failed [Who::WORKER, Who::SYSTEM, Who::OPERATOR]:
        "token; nothing open and something failed, or no attempts left, or infected", "audit submission_route_failed, email_failed for what was still open";
    Processing Release -> Received [Who::WORKER]:
        "token; something open and attempts left, or the worker stops", "claim cleared, next_attempt_at set, attempt refunded when nothing was tried";
    Processing Reset -> Received [Who::SYSTEM, Who::OPERATOR]:
        "token as read; untouched for stuck_after, or a reason", "deliveries with an intent are in doubt, claim cleared, attempt refunded when there was no intent";
    Failed Replay -> Received [Who::OPERATOR]:
        "a reason", "attempts 0, failed deliveries reopened, facts kept";
    Routed Replay -> Received [Who::OPERATOR]:
        "a reason, and an action or a delivery to force", "attempts 0, accepted deliveries of the forced action, or the one, reopened in a new generation";
    Routed Backfill -> Received [Who::OPERATOR]:
        "a reason, a help desk, and a ticket that was deferred", "attempts 0, deferred tickets reopened, facts kept";
    Routed Purge -> Purged [Who::SYSTEM, Who::OPERATOR]:
        "retention has passed, or a person's data is erased; nothing keeps it (content.why_kept)", "fields, attachments and ledger emptied, receipt";
    Failed Purge -> Purged [Who::SYSTEM, Who::OPERATOR]:
        "retention has passed, or a person's data is erased; its alert is confirmed, nothing keeps it", "fields, attachments and ledger emptied, receipt";
    Received Abandon -> Purged [Who::OPERATOR]:
        "never claimed; no hold, no review", "fields and attachments emptied, receipt";
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Transition;
    use crate::kernel::transition::checks::{every_triple, lines};

    #[test]
    fn every_triple_is_either_in_the_table_once_or_refused_with_the_legal_commands() {
        every_triple::<Submission>();
    }

    #[test]
    fn the_edges_are_those_of_the_protocol_page() {
        assert_eq!(
            lines::<Submission>(),
            [
                "received claim processing",
                "received refuse failed",
                "processing finish_routed routed",
                "processing finish_failed failed",
                "processing release received",
                "processing reset received",
                "failed replay received",
                "routed replay received",
                "routed backfill received",
                "routed purge purged",
                "failed purge purged",
                // Not on the page: what a client began and nobody finished is erased as well.
                "received abandon purged",
            ]
        );
    }

    #[test]
    fn purged_is_final_and_says_so() {
        let refusal = Transition::<Submission>::of(Status::Purged, Command::Replay, Who::OPERATOR)
            .expect_err("purged allows nothing");
        assert_eq!(
            refusal.to_string(),
            "replay is not possible while purged; possible: nothing, the state is final"
        );
    }
}
