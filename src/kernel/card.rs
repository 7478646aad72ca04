//! The card of a room: the list of what it adds to the daemon. Daemon, `check`, metrics, journal and tests read a list of
//! cards; none of them names a room.

use super::describe::Described;
use super::metric::Metric;
use crate::db::contract::Check;
use crate::db::pool;
use crate::ops::dependency::{BREAKER_OPEN, Dependency};
use crate::ops::incident::{INCIDENT_OPEN, IncidentKey};
use crate::ops::telemetry::Event;

/// One room's card.
#[derive(Clone, Copy)]
pub struct Card {
    /// The room's name: that of its folder, of its configuration section and of its line of `check`.
    pub name: &'static str,
    /// The lifecycles of the room.
    pub lifecycles: &'static [fn() -> Described],
    /// Kinds of outbox rows that the room alone delivers. Its migration brings an index of those that wait: without it every
    /// look for other kinds would read their backlog again.
    pub kinds: &'static [&'static str],
    /// The room's named transactions, whose times are measured.
    pub transactions: &'static [&'static str],
    /// The room's metrics.
    pub metrics: &'static [&'static dyn Metric],
    /// The room's values of the journal field `EVENT`.
    pub events: &'static [Event],
    /// Incidents that the room may raise, and people are notified of; each has a section of its name in the runbook.
    pub incidents: &'static [IncidentKey],
    /// The room's lines of `check`.
    pub checks: &'static [Check],
}

impl Card {
    /// A card with a name and nothing else.
    #[must_use]
    pub const fn named(name: &'static str) -> Self {
        Self {
            name,
            lifecycles: &[],
            kinds: &[],
            transactions: &[],
            metrics: &[],
            events: &[],
            incidents: &[],
            checks: &[],
        }
    }

    /// Describes the metrics and makes every series exist, at 0; transactions and incidents are labels of shared metrics.
    pub fn start(&self) {
        self.metrics.iter().for_each(|metric| metric.start());
        self.transactions.iter().for_each(|name| pool::SECONDS.touch(name));
        for key in self.incidents {
            INCIDENT_OPEN.set(key.label(), false);
            Dependency::of(*key).into_iter().for_each(|out| BREAKER_OPEN.set(out.label(), false));
        }
    }
}
