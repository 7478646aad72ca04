//! Signed URLs against an object store that verifies them, IAM that misbehaves, and Google's own Python library.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up has failed")]

mod crowds;
mod harness;
mod inspect;
mod key_file;
mod metadata;
mod text;
