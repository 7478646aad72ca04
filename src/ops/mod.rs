//! What operators see: journal, metrics, HTTP endpoints, systemd.
pub mod http;
pub mod metrics;
pub mod systemd;
pub mod telemetry;
