//! The two readiness points for a database without schema `router` (`contrib/`): the documented statement and the reference
//! client in Python, as roles `forms_app` and `forms_scanner` on a real PostgreSQL, before a real broker and a real router.
//!
//! And the client of uploads, before their API.
//!
//! Needs `.venv`, which `make python` makes; without it the tests fail.

mod harness;
mod race;
mod routed;
#[allow(
    dead_code,
    clippy::disallowed_methods,
    reason = "the uploads' own tests need all of it; ids are made on the spot"
)]
#[path = "../uploads/harness.rs"]
mod scene;
mod statement;
mod uploads;
