//! The outbox's card, with its metrics.

use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use super::table::{Command, Outbox, State};
use crate::kernel::Card;
use crate::kernel::describe::describe;

/// The room's card.
pub const CARD: Card = Card {
    name: "outbox",
    lifecycles: &[describe::<Outbox>],
    kinds: &[],
    transactions: &[
        "router_outbox",
        "outbox_claim",
        "outbox_wake",
        "outbox_settle",
        "outbox_extend",
        "outbox_prune",
    ],
    metrics: start,
};

const DEPTH: &str = "maple_router_outbox_depth";
const OLDEST: &str = "maple_router_outbox_oldest_age_seconds";
const TRANSITIONS: &str = "maple_router_outbox_transitions_total";

/// States of rows that are not over.
pub(super) const OPEN: [State; 4] = [State::Pending, State::Delivering, State::RetryWait, State::DeadLetter];

fn start() {
    describe_gauge!(
        DEPTH,
        Unit::Count,
        "Rows of the outbox by state, at the last look; 0 where there is none"
    );
    describe_gauge!(
        OLDEST,
        Unit::Seconds,
        "For how long the row of the outbox that waits longest is due, by state; of delivering and dead_letter its age"
    );
    describe_counter!(TRANSITIONS, Unit::Count, "What this process did with rows of the outbox");
    OPEN.iter().for_each(|state| depth(*state, 0, Duration::ZERO));
    // A redrive is an operator's, and stands in the transition log.
    Command::ALL
        .iter()
        .filter(|command| **command != Command::Redrive)
        .for_each(|command| transitions(*command, 0));
}

/// The rows that the last look at the outbox saw in a state.
#[expect(clippy::cast_precision_loss, reason = "counts of rows are far below 2^52")]
pub(super) fn depth(state: State, depth: u64, oldest: Duration) {
    gauge!(DEPTH, "state" => state.label()).set(depth as f64);
    gauge!(OLDEST, "state" => state.label()).set(oldest);
}

/// This process made so many transitions of outbox rows.
pub(super) fn transitions(command: Command, rows: u64) {
    counter!(TRANSITIONS, "command" => command.label()).increment(rows);
}
