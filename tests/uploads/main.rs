//! Uploads: the schema's guards against a real PostgreSQL as the real roles; the room over real HTTP, a strict object store and
//! Debian's clamd.
//!
//! Needs PostgreSQL and clamd (`scripts/install-missing build scanner`).

#![expect(clippy::disallowed_methods, reason = "ids are made on the spot, and these tests run in real time")]

mod crowd;
mod harness;
#[path = "../kernel/holds.rs"]
mod holds;
mod killed;
mod process;
mod routed;
mod schema;
mod statements;
mod ways;
