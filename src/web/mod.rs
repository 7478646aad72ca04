//! Foundations of whatever answers over HTTP. A surface (the review desk is one) brings its routes, its words and its rules, and finds
//! here what none should say in a way of its own.
//!
//! - [`listener`]: a thread and a runtime for each, opened, tried again, stopped. Connections are taken within bounds.
//! - [`problem`]: refusals as RFC 9457 has them, of a surface's own kinds; [`failure`] is what a failed statement means for
//!   whoever asks.
//! - [`input`]: what a handler takes from a request; [`idempotency`]: a request that is sent twice.
//! - Around every handler: [`host`] (whether it is for us), [`room`] (room, time, panics), [`headers`] (what browsers are told).
//! - [`name`] and [`status`]: what journal, incidents and metrics call it.
//!
//! Neither a room nor a surface is known here, and no metric, no event of the journal and no SQL stands here: these are on the
//! cards of those who bring them.

mod accept;
pub mod failure;
pub mod headers;
pub mod host;
pub mod idempotency;
pub mod input;
pub mod listener;
pub mod name;
pub mod problem;
pub mod room;
pub mod status;
