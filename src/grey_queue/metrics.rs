//! The grey queue's metrics.

use super::table::{Command, OPEN, State};
use crate::kernel::metric::{Counter, Gauge};
use crate::words;

words! {
    /// The causes that metrics know; those of rooms to come are counted as `other`.
    Cause {
        /// A submission failed.
        Failed = "failed",
        /// An attachment is infected.
        Infected = "infected",
        /// A mail is lost after the relay's acceptance.
        Bounced = "bounced",
        /// An event became a dead letter.
        DeadLetter = "dead_letter",
        /// An attachment was found infected after it was mailed.
        LateInfection = "late_infection",
        /// Another room's.
        Other = "other",
    }
}

words! {
    /// What became of a remedy.
    RemedyOutcome {
        /// Carried out because a person asked.
        Asked = "asked",
        /// Carried out by a worker.
        Tried = "tried",
        /// Its verb refused it.
        Refused = "refused",
        /// Evidence became sufficient.
        Succeeded = "succeeded",
        /// A new failure, or no evidence in time.
        Failed = "failed",
    }
}

/// Open entries by state, at the last look.
pub(super) static DEPTH: Gauge<State> =
    Gauge::new("maple_router_grey_queue_depth", "Open entries of the grey queue by state, at the last look")
        .by(&["state"])
        .only(|| OPEN.to_vec());
/// Age of the entry that is longest in its state.
pub(super) static OLDEST: Gauge<State> = Gauge::new(
    "maple_router_grey_queue_oldest_seconds",
    "For how long the entry that is longest in its state has been in it; 0 where there is none",
)
.by(&["state"])
.only(|| OPEN.to_vec());
/// Entries opened, as this daemon saw them.
pub(super) static OPENED: Counter<Cause> = Counter::new(
    "maple_router_grey_queue_opened_total",
    "Entries of the grey queue that were opened, by cause",
)
.by(&["cause"]);
/// Transitions that this process made.
pub static TRANSITIONS: Counter<Command> = Counter::new(
    "maple_router_grey_queue_transitions_total",
    "What this process did with entries of the grey queue, for people and by itself",
)
.by(&["command"])
.only(|| Command::ALL.iter().copied().filter(|command| *command != Command::Open).collect());
/// Remedies.
pub(super) static REMEDIES: Counter<RemedyOutcome> = Counter::new(
    "maple_router_grey_queue_remedies_total",
    "Remedies of the grey queue, and what became of them",
)
.by(&["outcome"]);
/// Commands on an entry that somebody had changed meanwhile.
pub static CONFLICTS: Counter = Counter::new(
    "maple_router_grey_queue_conflicts_total",
    "Commands on entries of the grey queue that somebody else had changed meanwhile",
);
/// Entries that no trigger had opened.
pub(super) static RECONCILED: Counter = Counter::new(
    "maple_router_grey_queue_reconciled_total",
    "Entries of the grey queue that no trigger had opened, and the daemon found",
);
