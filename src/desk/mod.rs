//! The review desk: the second listener, where people see what waits for a decision and decide.
//!
//! Reads and writes by the rooms' own commands; it decides nothing itself, and imports no room but through `ports`.

pub mod pages;
