//! Contestants, and each one's source of events.

use std::fmt;

use crate::stage::Source;

/// A way to route submissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contestant {
    /// `maple-router` with its events from the broker.
    Router,
    /// `maple-router` with its events from PostgreSQL (schema `router`).
    RouterPostgres,
    /// The same behind a PgBouncer that pools transactions, as which it says every statement unnamed.
    RouterPooled,
    /// A worker in Python that follows the design document.
    Python,
    /// graphile-worker with nodemailer.
    GraphileJs,
    /// The crate `graphile_worker` with lettre.
    GraphileRs,
    /// The same program, built with a lettre that switches Nagle's algorithm off.
    GraphileRsNodelay,
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Router => "router",
            Self::RouterPostgres => "router-postgres",
            Self::RouterPooled => "router-pooled",
            Self::Python => "python",
            Self::GraphileJs => "graphile-js",
            Self::GraphileRs => "graphile-rs",
            Self::GraphileRsNodelay => "graphile-rs-nodelay",
        })
    }
}

impl Contestant {
    /// All contestants.
    pub const ALL: [Self; 7] = [
        Self::Router,
        Self::RouterPostgres,
        Self::RouterPooled,
        Self::Python,
        Self::GraphileJs,
        Self::GraphileRs,
        Self::GraphileRsNodelay,
    ];

    pub(super) fn source(self) -> Source {
        match self {
            Self::Router | Self::RouterPooled | Self::Python => Source::Pubsub,
            // The queues have no broker either; their events are their jobs. Schema router is the router's own.
            Self::RouterPostgres | Self::GraphileJs | Self::GraphileRs | Self::GraphileRsNodelay => {
                Source::Postgres
            }
        }
    }

    /// Whether it is `maple-router`.
    pub fn is_router(self) -> bool {
        matches!(self, Self::Router | Self::RouterPostgres | Self::RouterPooled)
    }

    /// Name in the report: a router's tells how many daemons it was, if more than one.
    pub(super) fn party(self, daemons: u32) -> String {
        if self.is_router() && daemons > 1 { format!("{self} × {daemons}") } else { self.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::Contestant;

    #[test]
    fn only_routers_are_several() {
        let names = [Contestant::Router, Contestant::Python].map(|contestant| contestant.party(2));
        assert_eq!(names, ["router × 2", "python"]);
        assert_eq!(Contestant::RouterPostgres.party(1), "router-postgres");
    }
}
