//! The mission: one submission from event to settled outcome, as `routing-protocol` numbers the steps.

pub mod compose;
pub mod decide;
pub mod destination;
pub mod ledger;
pub mod plan;
