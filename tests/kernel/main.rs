//! The kernel on a lifecycle of its own (`parcels.rs`): every triple on real statements, jobs, timers, people, and real processes
//! killed at every commit.

mod card;
mod harness;
mod holds;
mod killed;
mod parcels;
mod shop;
mod statements;
