//! Uploads: a browser or a program brings a file in parts, straight to the object store; what was brought is read once, compared
//! with what was declared, scanned, and becomes a blob that never changes, from which attachments are made.
//!
//! Read in this order: `table` (the lifecycle), `session` (a session's columns), `decide` (what may be asked for, pure), `commands`
//! (what backend and client ask), `commit` (the job that proves and keeps), `upkeep` (missing verdicts, what is due for removal),
//! `api/` (the listener). `store/` has the SQL; the schema's own triggers make blob and reference in the transaction that commits, so
//! that nobody can do one without the other.
//!
//! **Nothing that was not proven becomes an attachment**: an upload is committed only by the trigger that compares what was found
//! with what was declared; an attachment is clean only by the function that records a verdict. If we die anywhere, the row says
//! what follows: each step before the commit may be repeated, and every object has a row before it has bytes.

pub mod api;
pub mod card;
pub mod changes;
mod check;
pub mod commands;
pub mod commit;
pub mod decide;
pub mod digest;
pub mod journal;
pub mod metrics;
pub mod problem;
pub mod reading;
pub mod scanner;
pub mod session;
pub mod store;
pub mod table;
pub mod trouble;
pub mod upkeep;

use crate::web::name::Name;

/// How the API is called.
pub const NAME: Name = Name { within: "the uploads", at_first: "The API of uploads", short: "uploads" };
