//! The grey queue: what waits for a person is found, decided and mended in one place.
//!
//! An entry is a problem (a cause and a subject). Functions and triggers of schema `router` open it in the transaction of the
//! event that it is about; people decide by [`commands`], the policy by [`automation`]; what mends a subject is done by the
//! room that owns it ([`Subject`](crate::kernel::subject::Subject)), in the transaction of the decision.
//!
//! [`table`] (states and edges) → [`entry`] (what is known of one) → [`decide`] (what a person may do, pure) → [`store`] (the
//! statements) → [`commands`] (lock, decide, mend, write) → [`automation`] (a remedy's course) → [`upkeep`] (what time brings).
//! If we die anywhere, the row says what follows: a lease runs out, and a remedy is carried out once for each attempt.
//!
//! Invariant: this room knows no other, and no text that people wrote for a subject stands in its rows.

pub mod automation;
pub mod card;
pub mod commands;
pub mod decide;
pub mod entry;
pub mod journal;
pub mod metrics;
pub mod notices;
pub mod store;
pub mod table;
pub mod upkeep;
