//! Screening: the schema's gate and guards against a real PostgreSQL as the real roles, the lifecycle's statements, the workers of each
//! stage beside devkit's scripted judge and its git host, and what people decide.
//!
//! Needs PostgreSQL and git (`scripts/install-missing build`).

#![expect(clippy::disallowed_methods, reason = "ids are made on the spot, and these tests run in real time")]

mod again;
mod corpora;
mod doors;
mod gate;
mod harness;
#[path = "../kernel/holds.rs"]
mod holds;
mod judging;
mod people;
mod repositories;
mod rights;
mod schema;
mod statements;
mod tier1;
mod trees;
mod turns;
mod working;
