//! Grading: an answer is assessed in time, or a person is told.
//!
//! Two sides, each with its own schema and role, and two queues between them. Read in this order: `core` (what a grade is, pure), `table` (eight
//! states of an attempt), `intake` (what follows from a callback, pure), `store` (schema assessment), `main_side` (publish, take in, time out; in
//! the daemon); then the grader's: `job` (its lifecycle and schema), `grader` (question and answer, pure), `worker` (its process, by `cli/grade`);
//! `queue` between them, what `consume`s it, and the `link` of two queues by topics; `subject` (what people review), `watch` (the daemon's look),
//! `check` (the operator's). **Invariant: neither side writes what is the other's.**

pub mod attempt;
pub mod card;
mod check;
mod consume;
pub mod core;
pub mod grader;
pub mod intake;
pub mod job;
pub mod journal;
pub mod learner;
pub mod link;
pub mod main_side;
pub mod metrics;
pub mod queue;
pub mod review;
pub mod store;
pub mod subject;
pub mod table;
pub mod watch;
pub mod worker;
