//! The mission: one submission from event to settled outcome, in the steps numbered by `routing-protocol`.
//!
//! The parts from the bottom up; each depends only on those before it.
//!
//! - Values: [`table`] (the lifecycle), [`submission`], [`event`], [`dead_letter`], [`pause`].
//! - Decisions, pure: [`decide`], [`explain`], [`compose`], [`delivery`].
//! - Shared by the workers of one process: [`claims`], [`outages`].
//! - The rows: [`store`]; the lines: [`journal`]; the facts that wait for the rows: [`spool`]; what a review asks of a row, and
//!   has done to it: [`subject`].
//! - Work: [`follow`], [`worker`], [`receive`], [`upkeep`].

pub mod card;
pub mod claims;
pub mod compose;
pub mod dead_letter;
pub mod decide;
pub mod delivery;
pub mod event;
pub mod explain;
pub mod follow;
pub mod journal;
pub mod metrics;
pub mod outages;
pub mod pause;
pub mod receive;
pub mod spool;
pub mod store;
pub mod subject;
pub mod submission;
pub mod table;
pub mod upkeep;
pub mod words;
pub mod worker;
