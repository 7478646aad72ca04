//! Retention and collection: what has ended is removed in time, and nothing else ever is.
//!
//! [`table`] (the lifecycle of a blob) → [`decide`] (what a run does with one, pure) → [`store`] (the statements; what must hold whoever
//! writes is schema content's own) → [`collector`] (a run: purge, mark, sweep) with [`objects`] (what it asks of the store) →
//! [`recall`] (mailed links that are to answer 404) → [`reconcile`] (bucket and rows, side by side) → [`chain`] (receipts, judged) →
//! [`watch`] (the daemon's look: it removes nothing).

pub mod card;
pub mod chain;
pub mod check;
pub mod collector;
pub mod counts;
pub mod decide;
pub mod journal;
pub mod metrics;
pub mod objects;
pub mod recall;
pub mod reconcile;
pub mod store;
pub mod table;
pub mod watch;
pub mod why;
