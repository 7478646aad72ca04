//! `maple-router`: web-form submissions that are complete and virus-scanned reach the people they are for.
//!
//! Reading order: [`daemon`] (start here) → [`routing::worker`] (one submission, top to bottom) →
//! [`routing::ledger`] and [`routing::decide`] (what is known of it, and what follows) → [`ports`] →
//! one file per outside system in [`gateway`].

pub mod backoff;
pub mod cli;
pub mod config;
pub mod daemon;
pub mod db;
pub mod gateway;
pub mod kernel;
pub mod ops;
pub mod outbox;
pub mod parts;
pub mod ports;
pub mod routing;
pub mod scrub;
