//! The messages and server traits that `build.rs` makes from `proto/pubsub.proto`, and their descriptors for the JSON
//! half. Never edited by hand, nothing here runs by itself.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::map_unwrap_or,
    clippy::needless_pass_by_value,
    clippy::uninlined_format_args,
    clippy::wildcard_enum_match_arm,
    clippy::let_underscore_must_use,
    reason = "generated code"
)]

tonic::include_proto!("google.pubsub.v1");

/// The compiled descriptors (a `FileDescriptorSet`) of everything above.
pub(super) const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pubsub.descriptors"));
