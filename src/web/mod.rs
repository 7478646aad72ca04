//! Foundations of whatever answers over HTTP: a surface (the review desk is one) brings its routes, its words and its rules, and
//! finds here what none of them should say in its own way.
//!
//! [`problem`] (refusals, RFC 9457) → [`failure`] (what a failed statement means for whoever asks). Neither a room nor a surface
//! is known here, and no metric and no event of the journal is written: these stand on the cards of those who use it.

mod accept;
pub mod failure;
pub mod listener;
pub mod name;
pub mod problem;
