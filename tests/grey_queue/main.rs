//! The grey queue against a real PostgreSQL: what opens entries, who may decide, what a remedy comes to, what time brings.

#![expect(clippy::disallowed_methods, reason = "ids are made on the spot, and moments are the system's")]

mod clock;
mod course;
mod crowd;
mod decisions;
mod harness;
mod killed;
mod lists;
mod openers;
mod people;
mod upkeep;
