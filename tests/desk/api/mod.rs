//! `/api/grey-queue` over real HTTP: a bearer token's requests to the real server, entries in a real PostgreSQL.

mod away;
mod bench;
mod bulk;
mod commands;
mod document;
mod errors;
mod followers;
mod grading;
mod list;
mod live;
mod schemathesis;
mod screening;
mod twice;
