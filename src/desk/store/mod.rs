//! The desk's own rows: credentials, kept answers, the access log.

pub mod access_log;
pub mod credentials;
pub mod idempotency;
