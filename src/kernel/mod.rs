//! The kernel: what all lifecycles share, written once. A room brings a table and its own columns.
//!
//! [`word`] (closed sets of labels) → [`lifecycle`] (states, commands and one table of edges) → [`transition`] (the only way to a
//! new state) → [`rows`] (taken on a lease, written under a fence, recorded) → [`jobs`] (what works on them) → [`describe`] (the tables
//! as people read them) → [`card`] (what a room brings). It knows no room; rooms know it.

pub mod card;
pub mod describe;
pub mod jobs;
pub mod lifecycle;
pub mod rows;
pub mod tasks;
pub mod transition;
pub mod word;

pub use card::Card;
pub use lifecycle::{Edge, Lifecycle, Timer, Who};
pub use transition::{NotPossible, Transition};
pub use word::Word;

pub use crate::words;
