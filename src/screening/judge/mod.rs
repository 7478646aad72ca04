//! Tier 2: what is asked of a judge, what its answer says, and what follows. Pure.
//!
//! [`redact`] (what may leave) → [`prompt`] (the question) → [`budget`] (whether it may be asked) → the gateway → [`verdict`]
//! (the answer, or none) → [`decide`] (score and bars). [`calibration`] says which judge may approve at all.
//!
//! **No verdict, no approval**: there is no default score, an answer that is not exactly of its shape is none, and a score is
//! never the last word: bars are, which no content can talk to. If we die anywhere, nothing was decided.

mod addresses;
pub mod budget;
pub mod calibration;
pub mod decide;
pub mod faults;
mod note;
pub mod prompt;
pub mod redact;
mod spans;
mod texts;
pub mod verdict;
