//! The kernel: code that all lifecycles share, written once. A room brings a table and its own columns.
//!
//! [`word`] (closed sets of labels) → [`lifecycle`] (states, commands and one table of edges) → [`transition`] (the only way
//! to a new state) → [`rows`] (leased, fenced, recorded) → [`jobs`] (work on rows) → [`describe`] (the tables for people) →
//! [`metric`] (counts) → [`card`] (what a room brings). The kernel knows no room; rooms know the kernel.

pub mod card;
pub mod describe;
pub mod jobs;
pub mod lifecycle;
pub mod metric;
pub mod rows;
pub mod subject;
pub mod tasks;
pub mod transition;
pub mod word;

pub use card::Card;
pub use lifecycle::{Edge, Lifecycle, Timer, Who};
pub use transition::{NotPossible, Transition};
pub use word::Word;

pub use crate::{edges, words};
