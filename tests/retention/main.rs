//! Retention and collection: the schema's guards against a real PostgreSQL as the real roles, runs of the collector against a strict
//! object store under its own account, killed and interleaved.
//!
//! Needs PostgreSQL (`scripts/install-missing build`).

#![expect(clippy::disallowed_methods, reason = "ids are made on the spot, and these tests run in real time")]

mod chain;
mod check;
mod crowd;
mod erasing;
mod harness;
mod holding;
#[path = "../kernel/holds.rs"]
mod holds;
mod kept;
mod late;
mod recalls;
mod reconciling;
mod rights;
mod running;
mod schema;
mod statements;
mod watch;
