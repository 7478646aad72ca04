//! The lifecycle of a submission's `status` (protocol, "Terms"): the one place where its transitions are written.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Edge, Who};

/// `submissions.status`, the only lifecycle state of a submission; the database's enum `submission_status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Waiting: for its attachments, for its event, or for the next attempt.
    Received,
    /// Claimed by a worker.
    Processing,
    /// Every delivery is accepted or not implemented.
    Routed,
    /// Something failed for good; the partial result is in the ledger.
    Failed,
    /// Emptied by retention. Nothing is written to it any more.
    Purged,
}

impl Status {
    /// Every status, in the database's order.
    pub const ALL: [Self; 5] = [Self::Received, Self::Processing, Self::Routed, Self::Failed, Self::Purged];

    /// The database's label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Processing => "processing",
            Self::Routed => "routed",
            Self::Failed => "failed",
            Self::Purged => "purged",
        }
    }

    /// The status with this label, if there is one.
    #[must_use]
    pub fn from_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.label() == label)
    }

    /// Whether nothing happens to it any more unless a person asks.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Routed | Self::Failed | Self::Purged => true,
            Self::Received | Self::Processing => false,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// What can be asked of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Command {
    /// A worker takes it (protocol §2).
    Claim,
    /// Fail it before any claim: infected, attempts spent, ledger damaged (protocol §2).
    Refuse,
    /// End well (protocol §6).
    FinishRouted,
    /// End badly (protocol §6).
    FinishFailed,
    /// Give it back for a later attempt (protocol §6, §7).
    Release,
    /// Take it back from a worker that is gone (protocol, "Sweep").
    Reset,
    /// Route it again (protocol, "Replay").
    Replay,
    /// Empty it when its time has come (retention).
    Purge,
}

impl Command {
    /// Every command.
    pub const ALL: [Self; 8] = [
        Self::Claim,
        Self::Refuse,
        Self::FinishRouted,
        Self::FinishFailed,
        Self::Release,
        Self::Reset,
        Self::Replay,
        Self::Purge,
    ];
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Claim => "claim",
            Self::Refuse => "refuse",
            Self::FinishRouted => "finish_routed",
            Self::FinishFailed => "finish_failed",
            Self::Release => "release",
            Self::Reset => "reset",
            Self::Replay => "replay",
            Self::Purge => "purge",
        })
    }
}

const fn edge(
    from: Status,
    command: Command,
    to: Status,
    who: &'static [Who],
    guard: &'static str,
    with: &'static str,
) -> Edge<Status, Command> {
    Edge { from, command, to, who, guard, with }
}

/// Every transition there is.
pub const TABLE: &[Edge<Status, Command>] = &[
    edge(
        Status::Received,
        Command::Claim,
        Status::Processing,
        &[Who::Worker],
        "ready, due, attempts left, ledger well-shaped",
        "plan pinned, token and deadline set, attempts + 1",
    ),
    edge(
        Status::Received,
        Command::Refuse,
        Status::Failed,
        &[Who::Worker, Who::System],
        "an attachment is infected, attempts are spent, or the ledger is damaged",
        "audit submission_route_failed",
    ),
    edge(
        Status::Processing,
        Command::FinishRouted,
        Status::Routed,
        &[Who::Worker],
        "token; every delivery accepted or not implemented",
        "audit submission_routed",
    ),
    edge(
        Status::Processing,
        Command::FinishFailed,
        Status::Failed,
        &[Who::Worker, Who::System, Who::Operator],
        "token; nothing open and something failed, or no attempts left, or infected",
        "audit submission_route_failed, email_failed for what was still open",
    ),
    edge(
        Status::Processing,
        Command::Release,
        Status::Received,
        &[Who::Worker],
        "token; something open and attempts left, or the worker stops",
        "claim cleared, next_attempt_at set, attempt refunded when nothing was tried",
    ),
    edge(
        Status::Processing,
        Command::Reset,
        Status::Received,
        &[Who::System, Who::Operator],
        "token as read; untouched for stuck_after, or a reason",
        "begun deliveries marked in doubt, claim cleared, attempt refunded when nothing was begun",
    ),
    edge(
        Status::Failed,
        Command::Replay,
        Status::Received,
        &[Who::Operator],
        "a reason",
        "attempts 0, failed deliveries reopened, facts kept",
    ),
    edge(
        Status::Routed,
        Command::Replay,
        Status::Received,
        &[Who::Operator],
        "a reason, and an action to force",
        "attempts 0, accepted deliveries of the forced action reopened in a new generation",
    ),
    edge(
        Status::Routed,
        Command::Purge,
        Status::Purged,
        &[Who::System],
        "retention has passed",
        "contents removed",
    ),
    edge(
        Status::Failed,
        Command::Purge,
        Status::Purged,
        &[Who::System],
        "retention has passed and its alert is confirmed",
        "contents removed",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::checks::{every_pair, lines};
    use crate::lifecycle::next;

    #[test]
    fn every_pair_is_either_in_the_table_once_or_refused_with_the_legal_commands() {
        every_pair(TABLE, &Status::ALL, &Command::ALL);
    }

    #[test]
    fn the_edges_are_those_of_the_protocol_page() {
        assert_eq!(
            lines(TABLE),
            [
                "received claim processing",
                "received refuse failed",
                "processing finish_routed routed",
                "processing finish_failed failed",
                "processing release received",
                "processing reset received",
                "failed replay received",
                "routed replay received",
                "routed purge purged",
                "failed purge purged",
            ]
        );
    }

    #[test]
    fn purged_is_final_and_says_so() {
        let refusal = next(TABLE, Status::Purged, Command::Replay).expect_err("purged allows nothing");
        assert_eq!(
            refusal.to_string(),
            "replay is not possible while purged; possible: nothing, the state is final"
        );
    }
}
