//! Throwaway PostgreSQL for tests, benches and the demo: a real server from the installed binaries.
//!
//! [`Cluster::shared`] is one server for every test process of this working tree; [`Cluster::start`] is one of your
//! own, to cut, restart or configure. A [`TestDatabase`] is a fresh copy of a migrated template and costs some tens of
//! milliseconds. A [`CuttingProxy`] before it stands still at a named transaction, or loses the answer to its commit.
//!
//! If a process is killed in the middle, the kernel drops its lock and a small shell loop beside the server stops it
//! and removes its files. Never touches a server it did not start; never skips: missing binaries are an error.

mod bouncer;
mod cluster;
mod database;
mod proxy;
mod refusing;
mod server;
mod traffic;

pub use bouncer::{Bouncer, PoolMode};
pub use cluster::Cluster;
pub use database::{Endpoint, TestDatabase, Variant};
pub use proxy::{CuttingProxy, Trap};
pub use refusing::Refusing;
pub use server::{ClusterOptions, ServerTls};
pub use traffic::Traffic;
