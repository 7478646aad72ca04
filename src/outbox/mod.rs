//! The outbox: the way out of the database for events, each delivered at least once.
//!
//! Triggers of schema `router` write a row in the transaction that makes a submission ready, or infected. The kernel's jobs
//! claim rows on a lease and settle them; [`relay`] publishes them to the routing topic, [`source`] hands them to the
//! routing of this very process. If we die, a lease runs out and the row is delivered again: every receiver is idempotent.
//!
//! Invariant: this room knows no other. Only its receiver reads the contents of a row.

pub mod card;
pub mod journal;
mod metrics;
pub mod parts;
pub mod relay;
pub mod row;
pub mod source;
pub mod store;
pub mod subject;
pub mod table;
pub mod upkeep;

/// Channel that schema `router` notifies.
pub const CHANNEL: &str = "maple_router_outbox";
