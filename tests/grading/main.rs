//! Grading: both sides' schemas and guards against a real PostgreSQL as the real roles, their lifecycles' statements, the main side's workers and
//! the grader's beside devkit's scripted grader and its bucket, what people decide, and the verbs.
//!
//! Needs PostgreSQL (`scripts/install-missing build`).

#![expect(clippy::disallowed_methods, reason = "ids are made on the spot, and these tests run in real time")]

mod checks;
mod deadlines;
mod gate;
mod grader;
mod harness;
#[path = "../kernel/holds.rs"]
mod holds;
mod intake;
mod killed;
mod people;
mod publish;
mod rights;
mod schema;
mod statements;
mod verbs;

/// The queues of the one database carry the messages (`tests/grading_linked` has topics).
pub(crate) const LINKED: bool = false;
