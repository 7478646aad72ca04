//! The object store, judged from outside: by clients that somebody else wrote, unchanged (Google's for Python in `python.rs`,
//! Google's for Rust in `rust_crate.rs`, curl in `curl.rs`); by requests that must be refused, each with what it leaves; and
//! each of its scripted faults, seen with a plain HTTP client (`faults.rs`).
//!
//! The Python client comes with `.venv` at the top of the workspace, which `make python` makes; without it, or without curl,
//! their tests fail.

#![allow(clippy::print_stderr, reason = "what a client said belongs to the test's output")]

mod cors;
mod curl;
mod faults;
mod json;
mod multipart;
mod objects;
mod python;
mod rights;
mod rust_crate;
mod signed;
mod world;
