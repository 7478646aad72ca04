//! The client of clamd: against Debian's clamd with signatures made here, and against a server that says what a test wants.
//!
//! Needs clamd (`scripts/install-missing scanner`) and python3, which makes the archives.

#![expect(clippy::disallowed_methods, reason = "these tests run against real processes in real time")]

mod archives;
mod crowd;
mod ends;
mod faults;
mod finds;
mod harness;
mod limits;
mod scripted;
