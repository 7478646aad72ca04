//! Connections, named transactions, migrations, the database contract, and the one readiness fragment.
//!
//! Nothing here knows a room's state: rooms bring their own SQL and get a connection, a transaction or a predicate.

pub mod batch;
mod client;
pub mod connector;
pub mod conninfo;
pub mod contract;
pub mod error;
pub mod migrations;
pub mod pool;
pub mod pooling;
pub mod readiness;
pub mod rest;
pub mod router;
pub mod session;
pub mod statement;
pub mod tls;

pub use connector::{Listener, PoolOptions};
pub use error::{DbError, DbErrorKind};
pub use pool::{Client, Pool, Transaction};
pub use statement::{Parameter, Statement};
