//! The desk's own rows: credentials, kept answers, the access log; and what its role may do.

pub mod access_log;
pub mod credentials;
pub mod idempotency;
pub mod role;
