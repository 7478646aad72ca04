//! The mission: one submission from event to settled outcome, as `routing-protocol` numbers the steps.

pub mod compose;
pub mod decide;
pub mod destination;
pub mod event;
pub mod expand;
pub mod ledger;
pub mod message_id;
pub mod outcome;
pub mod plan;
pub mod store;
pub mod text;
