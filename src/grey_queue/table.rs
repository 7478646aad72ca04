//! The lifecycle of an entry: the ten states and the ways between them of the mission's fifth document, with the commands and
//! roles it leaves open. Pure.
//!
//! Three edges of a lease lead from Processing back to it; they are no decision, and leave no record.

use crate::config::Role;
use crate::kernel::{Edge, Lifecycle, Who, edges, words};

words! {
    /// `router.grey_queue.state`, as the document spells it.
    State {
        /// Waits for a decision.
        Pending = "Pending",
        /// A remedy is under way.
        Processing = "Processing",
        /// A remedy has failed, and is tried again at its time.
        Retrying = "Retrying",
        /// A person decides.
        UnderReview = "UnderReview",
        /// The security team decides.
        Escalated = "Escalated",
        /// Evidence is sufficient, or somebody vouches.
        Resolved = "Resolved",
        /// Not to be acted upon.
        Rejected = "Rejected",
        /// The remedy has failed once too often.
        Failed = "Failed",
        /// Nobody decided in time.
        Expired = "Expired",
        /// Set aside by a person.
        Dismissed = "Dismissed",
    }
}

words! {
    /// The commands to an entry.
    Command {
        /// An event opens the entry.
        Open = "open",
        /// A remedy begins.
        Start = "start",
        /// A person takes the entry, or is given it.
        Assign = "assign",
        /// Nobody decided in time.
        Expire = "expire",
        /// A person sets the entry aside.
        Dismiss = "dismiss",
        /// The remedy failed; another attempt follows.
        RetryLater = "retry_later",
        /// Evidence became sufficient.
        Succeed = "succeed",
        /// The remedy failed once too often.
        GiveUp = "give_up",
        /// The remedy ends with a person.
        HandOver = "hand_over",
        /// The time of the next attempt has come.
        TryAgain = "try_again",
        /// A reviewer asks the security team.
        Escalate = "escalate",
        /// A person resolves the entry.
        Resolve = "resolve",
        /// A person rejects the entry.
        Reject = "reject",
        /// A person gives the entry back.
        Unassign = "unassign",
        /// The security team gives the entry back to a reviewer.
        DeEscalate = "de_escalate",
        /// A person opens a closed entry again.
        Reopen = "reopen",
        /// A person has a failed entry tried from the beginning.
        Reset = "reset",
        /// A worker takes the entry for a look.
        Claim = "claim",
        /// A worker gives the entry back until its next look.
        Release = "release",
        /// The worker is gone.
        Lapse = "lapse",
    }
}

/// Somebody who grades: decides about entries of queue grading alone.
pub const INSTRUCTOR: Who = Who::named("instructor");
/// A reviewer.
pub const REVIEWER: Who = Who::named("reviewer");
/// A member of the security team.
pub const SECURITY: Who = Who::named("security");
/// An administrator of the desk; at the command line, whoever may run it.
pub const ADMIN: Who = Who::named("admin");
/// The configured policy (`grey_queue.auto`), and the look that finds what was mended elsewhere.
pub const POLICY: Who = Who::named("policy");

/// Somebody who looks.
pub const VIEWER: Who = Who::named("viewer");

/// The role of a user of the desk in commands.
#[must_use]
pub const fn who(role: Role) -> Who {
    match role {
        Role::Viewer => VIEWER,
        Role::Instructor => INSTRUCTOR,
        Role::Reviewer => REVIEWER,
        Role::Security => SECURITY,
        Role::Admin => ADMIN,
    }
}

/// The roles that people may have in a command about any queue, the least first. An [`INSTRUCTOR`] has but one queue.
pub const PEOPLE: [Who; 3] = [REVIEWER, SECURITY, ADMIN];

/// The lifecycle of an entry; its log is `router.grey_queue_state_transitions`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GreyQueue;

impl Lifecycle for GreyQueue {
    type State = State;
    type Command = Command;
    const NAME: &'static str = "grey_queue";
    const ABOUT: &'static str = "an entry of the review queue, from the event that opened it to its decision";
    const TABLE: &'static [Edge<State, Command>] = TABLE;
}

const TABLE: &[Edge<State, Command>] = edges! { State, Command:
    _ Open -> Pending [Who::SYSTEM]:
        "the event's own transaction; no open entry of this cause and subject", "occurrence 1, version 1";
    Pending Start -> Processing [POLICY, REVIEWER, SECURITY, ADMIN]:
        "a remedy that the subject has; a person's reason", "remedy and asker set; a person's remedy is carried out at once";
    Pending Assign -> UnderReview [INSTRUCTOR, REVIEWER, SECURITY, ADMIN]:
        "an active assignee; others are assigned by admin", "assignee notified";
    Pending Expire -> Expired [Who::SYSTEM] on Expiry:
        "expires_at passed, people warned a day before", "closed_at set";
    Pending Dismiss -> Dismissed [REVIEWER, SECURITY, ADMIN]:
        "a reason", "closed_at set";
    Processing RetryLater -> Retrying [Who::WORKER]:
        "token; new failure or no evidence in time; attempts left", "available_at by back-off";
    Processing Succeed -> Resolved [Who::WORKER]:
        "token; evidence is sufficient", "resolution set";
    Processing GiveUp -> Failed [Who::WORKER]:
        "token; no attempts left, or the subject is gone", "people notified";
    Processing HandOver -> UnderReview [Who::WORKER, REVIEWER, SECURITY, ADMIN]:
        "worker: token, and somebody asked for the remedy; a person: takes it", "lease voided, assignee set";
    Retrying TryAgain -> Processing [Who::SYSTEM] on Due:
        "available_at passed", "nothing";
    Retrying GiveUp -> Failed [Who::SYSTEM]:
        "attempts above the configured maximum", "people notified";
    Retrying Expire -> Expired [Who::SYSTEM] on Expiry:
        "expires_at passed, people warned a day before", "closed_at set";
    UnderReview Escalate -> Escalated [REVIEWER, SECURITY, ADMIN]:
        "escalation_reason; its assignee, security or admin", "escalated_at set, security notified";
    UnderReview Resolve -> Resolved [INSTRUCTOR, REVIEWER, SECURITY, ADMIN]:
        "sufficient evidence, or vouched for; a reason; its assignee, security or admin", "resolution set";
    UnderReview Reject -> Rejected [REVIEWER, SECURITY, ADMIN, Who::SYSTEM]:
        "a reason; its assignee, security or admin; the system where retention emptied the subject", "rejected_by set";
    UnderReview Unassign -> Pending [INSTRUCTOR, REVIEWER, SECURITY, ADMIN]:
        "its assignee, security or admin", "assignee cleared, expiry planned anew";
    Escalated Resolve -> Resolved [SECURITY, ADMIN]:
        "sufficient evidence, or vouched for; a reason", "resolution set";
    Escalated Reject -> Rejected [SECURITY, ADMIN, Who::SYSTEM]:
        "a reason; the system where retention emptied the subject", "rejected_by set";
    Escalated DeEscalate -> UnderReview [SECURITY, ADMIN]:
        "an active assignee", "assignee notified";
    Rejected Reopen -> Pending [REVIEWER, SECURITY, ADMIN]:
        "a reason; no open entry of this cause and subject", "expiry planned anew";
    Dismissed Reopen -> Pending [REVIEWER, SECURITY, ADMIN]:
        "a reason; no open entry of this cause and subject", "expiry planned anew";
    Failed Reset -> Pending [REVIEWER, SECURITY, ADMIN]:
        "a reason; no open entry of this cause and subject", "attempts 0, expiry planned anew";
    Processing Claim -> Processing [Who::WORKER]:
        "due, nobody has it", "attempts + 1, lease";
    Processing Release -> Processing [Who::WORKER]:
        "token", "attempt refunded, next look planned";
    Processing Lapse -> Processing [Who::SYSTEM] on Lease:
        "the lease has run out", "attempt refunded, available at once";
};

impl State {
    /// Whether an entry in this state waits for somebody or something.
    #[must_use]
    pub const fn is_open(self) -> bool {
        match self {
            Self::Pending | Self::Processing | Self::Retrying | Self::UnderReview | Self::Escalated => true,
            Self::Resolved | Self::Rejected | Self::Failed | Self::Expired | Self::Dismissed => false,
        }
    }
}

/// The open states, in the order of a life.
pub const OPEN: [State; 5] =
    [State::Pending, State::Processing, State::Retrying, State::UnderReview, State::Escalated];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::kernel::transition::checks::every_triple;

    #[test]
    fn every_triple_is_either_in_the_table_or_refused_with_the_legal_commands() {
        every_triple::<GreyQueue>();
    }

    /// The document's list "Valid Transitions", state by state.
    #[test]
    fn the_ways_are_those_of_the_document() {
        let document = [
            ("Pending", "Processing UnderReview Expired Dismissed"),
            ("Processing", "Retrying UnderReview Resolved Failed"),
            ("Retrying", "Processing Failed Expired"),
            ("UnderReview", "Escalated Resolved Rejected Pending"),
            ("Escalated", "Resolved Rejected UnderReview"),
            ("Resolved", ""),
            ("Rejected", "Pending"),
            ("Failed", "Pending"),
            ("Expired", ""),
            ("Dismissed", "Pending"),
        ];
        let mut ways = 0;
        for (from, to) in document {
            let expected: BTreeSet<&str> = to.split_whitespace().collect();
            let found: BTreeSet<&str> = TABLE
                .iter()
                .filter(|edge| {
                    edge.from.is_some_and(|state| state.label() == from) && edge.from != Some(edge.to)
                })
                .map(|edge| edge.to.label())
                .collect();
            assert_eq!(found, expected, "{from}");
            ways += found.len();
        }
        let decisions = TABLE.iter().filter(|edge| edge.from.is_some() && edge.from != Some(edge.to)).count();
        assert_eq!((ways, decisions), (21, 21), "one command for each way");
    }

    #[test]
    fn states_without_a_way_out_or_that_only_reopen_are_closed() {
        for state in State::ALL {
            assert_eq!(state.is_open(), OPEN.contains(state), "{state}");
        }
    }
}
