//! Versions of forms: the schema's guards against a real PostgreSQL as the real roles, and the commands with the shipped policy.
//!
//! Needs PostgreSQL and OpenSSH's client (`scripts/install-missing build signing`).

#![expect(clippy::disallowed_methods, reason = "ids are made on the spot, and these tests run in real time")]

mod check;
mod course;
mod harness;
#[path = "../kernel/holds.rs"]
mod holds;
mod race;
mod schema;
mod signing;
mod statements;
mod watch;
