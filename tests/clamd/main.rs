//! The client of clamd: against Debian's clamd with signatures made here, and against a server that says what a test wants.
//!
//! Needs clamd (`scripts/install-missing scanner`) and python3, which makes the archives.

mod archives;
mod crowd;
mod faults;
mod finds;
mod harness;
mod limits;
mod scripted;
