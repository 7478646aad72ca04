//! The operators' view: journal, metrics, HTTP endpoints, systemd, alerts.

pub mod alerting;
pub mod breaker;
pub mod canary;
pub mod clock;
pub mod dependency;
pub mod gate;
pub mod http;
pub mod incident;
pub mod json_log;
pub mod live;
pub mod log_rate;
pub mod metrics;
pub mod rng;
pub mod set_aside;
pub mod state_dir;
pub mod status_line;
pub mod supervised;
pub mod systemd;
pub mod tally;
pub mod telemetry;
pub mod watchdog;
