//! The simulation: the real receiver, worker, store and PostgreSQL under sequences of everything that can go wrong, with
//! a clock that only the sequence moves. After every sequence P1 to P8 are asked of the database, of the relays, of the
//! help desk and of the webhook.
//!
//! Events come from a subscription in memory that keeps Pub/Sub's promises and no more, or from the outbox of the same
//! PostgreSQL, by schema `router` and the real source.
//!
//! Screening and grading have simulations of their own, on the same clock ([`screening`], [`grading`]).
//!
//! `SIM_SEQUENCES` (100), `SIM_OPS` (30) and `SIM_SEED` change the run; a failure prints the shrunk sequence as the Rust
//! that belongs into `stories.rs`.

mod checks;
mod clock;
mod coverage;
mod generate;
mod grading;
mod help_desk;
mod history;
mod ops;
mod outbox;
mod process;
mod run;
mod scene;
mod screening;
mod stories;
mod tickets;
mod topic;
mod world;
