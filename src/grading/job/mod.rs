//! The grader's side: its jobs, in a schema that the main side cannot see.

pub mod decide;
pub mod row;
pub mod store;
pub mod table;
