//! The grader's tests once more, with a topic each way between the sides, and what only such a link can do: a grader with a database of its own,
//! a broker that is away, messages that nobody can read.
//!
//! Needs PostgreSQL (`scripts/install-missing build`).

#![expect(clippy::disallowed_methods, reason = "ids are made on the spot, and these tests run in real time")]
#![expect(dead_code, reason = "the harness has more than these tests ask of it")]

#[path = "../grading/deadlines.rs"]
mod deadlines;
#[path = "../grading/grader.rs"]
mod grader;
#[path = "../grading/harness.rs"]
mod harness;
#[path = "../grading/killed.rs"]
mod killed;
mod link;

/// Topics carry the messages.
pub(crate) const LINKED: bool = true;
