//! The outbox: what its triggers write, what its statements allow, and what its relay publishes.

mod harness;
mod relay;
mod statements;
