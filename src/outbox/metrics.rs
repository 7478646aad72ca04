//! The outbox's metrics.

use std::time::Duration;

use super::table::{Command, State};
use crate::kernel::metric::{Counter, Gauge};

/// States other than the final one.
pub(super) const OPEN: [State; 4] = [State::Pending, State::Delivering, State::RetryWait, State::DeadLetter];

/// Set by [`depth`].
pub(super) static DEPTH: Gauge<State> = Gauge::new(
    "maple_router_outbox_depth",
    "Rows of the outbox by state, at the last look; 0 where there is none",
)
.by(&["state"])
.only(|| OPEN.to_vec());
/// Set by [`depth`].
pub(super) static OLDEST: Gauge<State> = Gauge::new(
    "maple_router_outbox_oldest_age_seconds",
    "For how long the row of the outbox that waits longest is due, by state; of delivering and dead_letter its age",
)
.by(&["state"])
.only(|| OPEN.to_vec());
/// Transitions that this process made; a redrive is an operator's, and is in the transition log.
pub(super) static TRANSITIONS: Counter<Command> =
    Counter::new("maple_router_outbox_transitions_total", "What this process did with rows of the outbox")
        .by(&["command"])
        .only(|| Command::ALL.iter().copied().filter(|command| *command != Command::Redrive).collect());

/// Sets the gauges of a state from the last look at the outbox.
pub(super) fn depth(state: State, depth: u64, oldest: Duration) {
    DEPTH.set(state, depth);
    OLDEST.set(state, oldest);
}
