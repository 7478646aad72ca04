//! A submission's values: its plan, its ledger, its content, and the texts that describe them.
//!
//! Invariant: no I/O in this folder, and no knowledge of another part of the mission.

pub mod cause;
pub mod content;
pub mod destination;
pub mod expand;
pub mod grading;
pub mod lag;
pub mod ledger;
pub mod link_life;
pub mod message_id;
pub mod outcome;
pub mod plan;
pub mod screening;
pub(crate) mod text;
pub mod ticket;
pub mod version;
