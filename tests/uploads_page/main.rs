//! The page on which a person brings a file, in a real Chromium before the real API, a strict object store that knows the page's origin
//! alone, and a real clamd.
//!
//! Needs Chromium and its driver, PostgreSQL and clamd (`scripts/install-missing browser postgres scanner`). `PICTURES=DIR` keeps what
//! was seen.

#[allow(
    dead_code,
    clippy::disallowed_methods,
    reason = "the uploads' own tests need all of it; ids are made on the spot"
)]
#[path = "../uploads/harness.rs"]
mod harness;
mod judges;
mod person;
mod story;
