//! One file per outside system, each with its one error classifier; and `confined`, for what may not be inside. Nothing here knows
//! another room's state.
pub mod bounces;
pub mod clamd;
pub mod confined;
pub mod git;
pub mod happyfox;
pub mod heartbeat;
pub mod judge;
pub mod objects;
pub mod pubsub;
pub mod relay_log;
pub mod signed_url;
pub mod slack;
pub mod smtp;
pub mod transcriber;
