//! The mission: one submission from event to settled outcome, as `routing-protocol` numbers the steps.
pub mod compose;
pub mod destination;
pub mod plan;
