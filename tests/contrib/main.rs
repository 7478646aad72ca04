//! The two readiness points for a database without schema `router` (`contrib/`): the documented statement and the reference
//! client in Python, as roles `forms_app` and `forms_scanner` on a real PostgreSQL, before a real broker and a real router.
//!
//! Needs `.venv`, which `make python` makes; without it the tests fail.

mod harness;
mod race;
mod routed;
mod statement;
