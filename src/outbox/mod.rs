//! The outbox: what must leave the database leaves it through here, exactly as often as is needed and never not at all.
//!
//! Triggers of schema `router` write a row in the transaction that makes a submission ready, or infected. The kernel's jobs
//! take rows on a lease and settle them; [`relay`] publishes them to the routing topic, [`source`] hands them to the routing
//! of this very process. If we die, a lease runs out and the row is delivered again: whoever gets it is idempotent.
//!
//! Invariant: this room knows nothing of any other. What a row says is read by whom it is for.

pub mod card;
pub mod journal;
pub mod parts;
pub mod relay;
pub mod row;
pub mod source;
pub mod store;
pub mod table;
pub mod upkeep;

/// Channel that schema `router` notifies.
pub const CHANNEL: &str = "maple_router_outbox";
