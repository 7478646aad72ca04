//! The object store as the daemon's own account uses it, against a store that verifies signatures and asks for every right:
//! uploads in parts, pinned reads, copies, deletes; and each trouble in between.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up has failed")]

mod buckets;
mod copies;
mod memory;
mod reading;
mod rights;
mod text;
mod trouble;
mod uploads;
mod world;
