//! Screening: nothing of a screened form is routed or published that nobody looked at. A run passes the rules, a judge, and where either
//! doubts a person; an enforced form's submission is ready when its run is published.
//!
//! Read in this order: `table` (ten states, thirteen ways), `run`, `store` (schema screening; its triggers and functions are the gate),
//! `tier1` (rules, pure) and `judge` (question, verdict, what follows from it, pure), `worker` (one file for each state that has a job),
//! `subject` (what the review sees and decides), `watch` (the daemon's look). The workers are a process of their own, by `cli/screen`.

pub mod card;
pub mod journal;
pub mod judge;
pub mod metrics;
pub mod rescreen;
pub mod run;
pub mod store;
pub mod subject;
pub mod table;
pub mod tier1;
pub mod watch;
pub mod worker;
