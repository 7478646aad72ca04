//! The lifecycle of an outbox row: what must leave the database, from its birth in somebody's transaction until it is
//! delivered. Two edges are ours: a lease that runs out, and an operator's redrive.
//!
//! `attempts` counts a claim when it is made; whatever was not the row's own fault gives it back.

use std::fmt;

use super::{Edge, Who};

/// `router.outbox.state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// To be delivered now.
    Pending,
    /// Leased by a worker that delivers it.
    Delivering,
    /// Done.
    Delivered,
    /// Not before its time.
    RetryWait,
    /// Given up on; a person decides.
    DeadLetter,
}

impl State {
    /// Every state, in the order in which a row may see them.
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::Delivering, Self::Delivered, Self::RetryWait, Self::DeadLetter];

    /// The database's label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivering => "delivering",
            Self::Delivered => "delivered",
            Self::RetryWait => "retry_wait",
            Self::DeadLetter => "dead_letter",
        }
    }

    /// The state with this label, if there is one.
    #[must_use]
    pub fn from_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.label() == label)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// What can be asked of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Command {
    /// A worker takes it.
    Claim,
    /// It was delivered.
    Succeed,
    /// It failed because of itself; another try follows.
    Fail,
    /// It failed because of itself once too often.
    GiveUp,
    /// Nothing is wrong with it: the other side was away, or the worker stops.
    Release,
    /// Its worker is gone.
    Expire,
    /// Its time has come.
    FallDue,
    /// Deliver it after all.
    Redrive,
}

impl Command {
    /// Every command.
    pub const ALL: [Self; 8] = [
        Self::Claim,
        Self::Succeed,
        Self::Fail,
        Self::GiveUp,
        Self::Release,
        Self::Expire,
        Self::FallDue,
        Self::Redrive,
    ];

    /// As it stands in the transition log and in metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Succeed => "succeed",
            Self::Fail => "fail",
            Self::GiveUp => "give_up",
            Self::Release => "release",
            Self::Expire => "expire",
            Self::FallDue => "fall_due",
            Self::Redrive => "redrive",
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

const fn edge(
    from: State,
    command: Command,
    to: State,
    who: &'static [Who],
    guard: &'static str,
    with: &'static str,
) -> Edge<State, Command> {
    Edge { from, command, to, who, guard, with }
}

/// Every transition there is; each is recorded in `router.transitions` by the statement that makes it.
pub const TABLE: &[Edge<State, Command>] = &[
    edge(
        State::Pending,
        Command::Claim,
        State::Delivering,
        &[Who::Worker],
        "row lock obtained, available_at passed",
        "attempts + 1, lease token and end set",
    ),
    edge(
        State::Delivering,
        Command::Succeed,
        State::Delivered,
        &[Who::Worker],
        "token; the topic's server has given its id, or the submission's claim was settled",
        "delivered_at set, lease cleared",
    ),
    edge(
        State::Delivering,
        Command::Fail,
        State::RetryWait,
        &[Who::Worker],
        "token; attempts below the maximum",
        "available_at by exponential back-off with jitter, error kept, lease cleared",
    ),
    edge(
        State::Delivering,
        Command::GiveUp,
        State::DeadLetter,
        &[Who::Worker],
        "token; attempts at the maximum",
        "dead-letter record, from which people are told; lease cleared",
    ),
    edge(
        State::Delivering,
        Command::Release,
        State::RetryWait,
        &[Who::Worker],
        "token",
        "attempt refunded, available_at set, lease cleared",
    ),
    edge(
        State::Delivering,
        Command::Expire,
        State::RetryWait,
        &[Who::System],
        "the lease has run out",
        "attempt refunded, available at once, lease cleared",
    ),
    edge(
        State::RetryWait,
        Command::FallDue,
        State::Pending,
        &[Who::System],
        "available_at passed",
        "nothing",
    ),
    edge(
        State::DeadLetter,
        Command::Redrive,
        State::Pending,
        &[Who::Operator],
        "a reason",
        "attempts 0, available at once, its dead-letter record closed",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::checks::{every_pair, lines};
    use crate::lifecycle::next;

    #[test]
    fn every_pair_is_either_in_the_table_once_or_refused_with_the_legal_commands() {
        every_pair(TABLE, &State::ALL, &Command::ALL);
    }

    #[test]
    fn the_edges_are_those_of_the_document_and_the_two_it_lacks() {
        assert_eq!(
            lines(TABLE),
            [
                "pending claim delivering",
                "delivering succeed delivered",
                "delivering fail retry_wait",
                "delivering give_up dead_letter",
                "delivering release retry_wait",
                "delivering expire retry_wait",
                "retry_wait fall_due pending",
                "dead_letter redrive pending",
            ]
        );
    }

    #[test]
    fn a_delivered_row_is_final_and_a_waiting_one_names_what_it_allows() {
        let refusal = next(TABLE, State::Delivered, Command::Redrive).expect_err("final");
        assert!(refusal.to_string().contains("the state is final"), "{refusal}");
        let refusal = next(TABLE, State::RetryWait, Command::Claim).expect_err("not yet");
        assert_eq!(refusal.legal, ["fall_due"]);
    }
}
