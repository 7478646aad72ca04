//! `maple-router`: routes web-form submissions that are complete and virus-scanned to their recipients.
//!
//! Reading order: [`daemon`] (start here) → [`routing::worker`] (one submission, top to bottom) →
//! [`routing::submission::ledger`] and [`routing::decide`] (what is known of it, and what follows) → [`ports`] → one file
//! per outside system in [`gateway`].

pub mod backoff;
pub mod cli;
pub mod config;
pub mod daemon;
pub mod db;
pub mod desk;
pub mod forms;
pub mod gateway;
pub mod grading;
pub mod grey_queue;
pub mod kernel;
pub mod ops;
pub mod outbox;
pub mod parts;
pub mod ports;
mod queries;
pub mod retention;
pub mod routing;
pub mod screening;
pub mod scrub;
pub mod uploads;
pub mod web;
