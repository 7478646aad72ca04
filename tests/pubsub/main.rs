//! The Pub/Sub gateway against a real StreamingPull server: nothing is faked on our side of the wire.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "these tests wait in real time, need names of their own, and fail by panicking"
)]

mod harness;
mod outages;
mod provisioning;
mod receiving;
mod stopping;
