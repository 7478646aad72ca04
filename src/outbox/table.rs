//! The lifecycle of an outbox row: an event, from its birth in a writer's transaction until it is delivered. Two edges are
//! our own: a lease that runs out, and an operator's redrive. Pure.
//!
//! `attempts` counts a claim when it is made; a claim that ends without a fault of the row is given back.

use crate::kernel::{Edge, Lifecycle, Who, edges, words};

words! {
    /// `router.outbox.state`.
    State {
        /// Due for delivery.
        Pending = "pending",
        /// Leased by a worker that delivers it.
        Delivering = "delivering",
        /// Delivered, the final state.
        Delivered = "delivered",
        /// Deferred until its time.
        RetryWait = "retry_wait",
        /// Given up on; a person decides.
        DeadLetter = "dead_letter",
    }
}

words! {
    /// The commands to a row.
    Command {
        /// A worker claims the row.
        Claim = "claim",
        /// The row was delivered.
        Succeed = "succeed",
        /// Delivery failed because of the row itself; another attempt follows.
        Fail = "fail",
        /// Delivery failed because of the row itself once too often.
        GiveUp = "give_up",
        /// The row is fine: the other side was away, or the worker stops.
        Release = "release",
        /// The worker is gone.
        Expire = "expire",
        /// The row's time has come.
        FallDue = "fall_due",
        /// An operator has the row delivered after all.
        Redrive = "redrive",
    }
}

/// The lifecycle of an outbox row; its log is `router.transitions`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outbox;

impl Lifecycle for Outbox {
    type State = State;
    type Command = Command;
    const NAME: &'static str = "outbox";
    const ABOUT: &'static str =
        "an event that must leave the database, from the transaction that wrote it to its delivery";
    const TABLE: &'static [Edge<State, Command>] = TABLE;
}

/// Every transition; each is recorded in `router.transitions` by the statement that makes it.
const TABLE: &[Edge<State, Command>] = edges! { State, Command:
    Pending Claim -> Delivering [Who::WORKER]:
        "row lock obtained, available_at passed", "attempts + 1, lease token and end set";
    Delivering Succeed -> Delivered [Who::WORKER]:
        "token; the topic's server has given its id, or the submission's claim was settled", "delivered_at set, lease cleared";
    Delivering Fail -> RetryWait [Who::WORKER]:
        "token; attempts below the maximum", "available_at by exponential back-off with jitter, error kept, lease cleared";
    Delivering GiveUp -> DeadLetter [Who::WORKER]:
        "token; attempts at the maximum", "dead-letter record, from which people are notified; lease cleared";
    Delivering Release -> RetryWait [Who::WORKER]:
        "token", "attempt refunded, available_at set, lease cleared";
    Delivering Expire -> RetryWait [Who::SYSTEM] on Lease:
        "the lease has run out", "attempt refunded, available at once, lease cleared";
    RetryWait FallDue -> Pending [Who::SYSTEM] on Due:
        "available_at passed", "nothing";
    DeadLetter Redrive -> Pending [Who::OPERATOR]:
        "a reason", "attempts 0, available at once, its dead-letter record closed";
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Transition;
    use crate::kernel::transition::checks::{every_triple, lines};

    #[test]
    fn every_triple_is_either_in_the_table_once_or_refused_with_the_legal_commands() {
        every_triple::<Outbox>();
    }

    #[test]
    fn the_edges_are_those_of_the_document_and_the_two_it_lacks() {
        assert_eq!(
            lines::<Outbox>(),
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
        let refusal =
            Transition::<Outbox>::of(State::Delivered, Command::Redrive, Who::OPERATOR).expect_err("final");
        assert!(refusal.to_string().contains("the state is final"), "{refusal}");
        let refusal =
            Transition::<Outbox>::of(State::RetryWait, Command::Claim, Who::WORKER).expect_err("not yet");
        assert_eq!(refusal.legal, ["fall_due"]);
    }
}
