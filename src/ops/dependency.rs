//! The dependencies without which the daemon cannot work: each has a breaker, and an incident that is open as long as that.

use super::incident::IncidentKey;
use crate::kernel::metric::Gauge;

/// The gauge for dashboards, one series for each breaker whose incident is on a card.
pub static BREAKER_OPEN: Gauge<&str> =
    Gauge::new("maple_router_breaker_open", "1 while a dependency is treated as down").by(&["dependency"]);

const PREFIX: &str = "breaker_";

/// A dependency, by the key of its breaker's incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dependency(IncidentKey);

impl Dependency {
    /// PostgreSQL.
    pub const POSTGRES: Self = Self::new("breaker_postgres");
    /// The mail relay.
    pub const RELAY: Self = Self::new("breaker_relay");
    /// The signer of URLs.
    pub const SIGNER: Self = Self::new("breaker_signer");
    /// Pub/Sub.
    pub const PUBSUB: Self = Self::new("breaker_pubsub");
    /// The database's conformity with the data contract: the database answers, and is something else.
    pub const CONTRACT: Self = Self::new("breaker_contract");
    /// The help desk: only tickets need it, and only tickets wait for it.
    pub const HELP_DESK: Self = Self::new("breaker_help_desk");

    /// A further dependency: `breaker_` and its name.
    #[must_use]
    pub const fn new(incident: &'static str) -> Self {
        Self(IncidentKey::new(incident))
    }

    /// Returns the dependency whose breaker raises this incident, if any.
    #[must_use]
    pub fn of(key: IncidentKey) -> Option<Self> {
        key.label().starts_with(PREFIX).then_some(Self(key))
    }

    /// The name in metrics, in `/-/ready` and in the journal.
    #[must_use]
    pub fn label(self) -> &'static str {
        self.0.label().trim_start_matches(PREFIX)
    }

    /// The incident that is open as long as the breaker.
    #[must_use]
    pub const fn incident(self) -> IncidentKey {
        self.0
    }
}
