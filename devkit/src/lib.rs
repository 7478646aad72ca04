//! Tools that only developers, tests and the demo of maple-router need. The shipped binary contains none of it.

pub mod bench;
pub mod broker;
pub mod browser;
pub mod clamd;
pub mod crowd;
pub mod demo;
pub mod desk_load;
pub mod drill;
pub mod forms;
pub mod google;
mod guard;
pub mod heartbeat;
pub mod help_desk;
pub mod kills;
pub mod parts;
pub mod port;
pub mod postfix;
pub mod postgres;
pub mod program;
pub mod prometheus;
pub mod slack;
pub mod smtp;
pub mod soak;
pub mod stage;
pub mod submission;
pub mod trap;
pub mod waiting;
