//! The relay gateway against a scripted SMTP server: every stage, refused, deferred, broken off and silent.

#![expect(clippy::disallowed_methods, reason = "these tests run against real sockets in real time")]

mod connections;
mod dialogue;
mod harness;
mod stages;
mod time;
mod together;
