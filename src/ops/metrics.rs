//! The process's metrics, those counted by several rooms, and the setup of all.
//!
//! A room's own metrics are on its card; every series of every card exists at 0 from the start.

use std::sync::LazyLock;

use metrics_exporter_prometheus::{
    BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};

use crate::kernel::metric::{Counter, Gauge};
use crate::kernel::{Card, words};

/// Version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Commit of this build, where `MAPLE_ROUTER_COMMIT` was set while compiling, as `make release` does. A variable rather than
/// a build script: development builds cost nothing more, and need no repository.
pub const COMMIT: &str = match option_env!("MAPLE_ROUTER_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// Returns version and commit, as `--version` prints them.
#[must_use]
pub fn build() -> &'static str {
    static BUILD: LazyLock<String> = LazyLock::new(|| format!("{VERSION} (commit {COMMIT})"));
    &BUILD
}

words! {
    /// The kind of a dead letter.
    DeadLetterKind {
        /// The event cannot be read.
        Unreadable = "unreadable",
        /// The submission does not exist.
        UnknownSubmission = "unknown_submission",
        /// A notification could not be sent.
        Notification = "notification",
        /// Attempts ran out.
        Exhausted = "exhausted",
        /// The submission is still open with attempts left.
        Premature = "premature",
        /// The submission had ended already.
        Closed = "closed",
    }
}
words! {
    /// The result of a canary event.
    CanaryResult {
        /// Pub/Sub took the canary.
        Published = "published",
        /// Pub/Sub did not take the canary.
        Unpublished = "unpublished",
        /// A canary came back, ours or another daemon's.
        Returned = "returned",
        /// A volley stayed away: the stream was built anew.
        Overdue = "overdue",
    }
}
words! {
    /// The result of a heartbeat.
    HeartbeatResult {
        /// The URL took the heartbeat.
        Sent = "sent",
        /// The URL did not take the heartbeat.
        Failed = "failed",
        /// No heartbeat was sent, because something is wrong with us.
        Withheld = "withheld",
    }
}

/// Dead letters processed.
pub static DEAD_LETTERS: Counter<DeadLetterKind> =
    Counter::new("maple_router_dead_letters_total", "Dead letters, by kind").by(&["kind"]);
/// Canary events by result.
pub static CANARIES: Counter<CanaryResult> =
    Counter::new("maple_router_canaries_total", "Canary events, by what became of them").by(&["result"]);
/// Calls of the heartbeat URL by result.
pub static HEARTBEATS: Counter<HeartbeatResult> =
    Counter::new("maple_router_heartbeats_total", "Calls of the heartbeat URL, by what became of them")
        .by(&["result"]);
/// Start time of the process, by the machine's clock.
pub static STARTED: Gauge =
    Gauge::new("maple_router_start_timestamp_seconds", "Unix time at which this process started");
/// Whether the last reload succeeded.
pub static RELOAD_OK: Gauge = Gauge::new(
    "maple_router_config_last_reload_successful",
    "1 when the configuration in use is what the last reload read",
);
/// Version and commit of the running build.
pub static BUILD_INFO: Gauge<(&str, &str)> =
    Gauge::new("maple_router_build_info", "1; version and commit are in the labels")
        .by(&["version", "commit"]);

/// Makes a recorder with the buckets of the rooms' histograms; tests use one locally, [`install`] uses one for the process.
pub fn recorder(rooms: &[&Card]) -> Result<PrometheusRecorder, BuildError> {
    let mut builder = PrometheusBuilder::new();
    for metric in rooms.iter().flat_map(|room| room.metrics) {
        if let Some(buckets) = metric.buckets() {
            builder = builder.set_buckets_for_metric(Matcher::Full(metric.name().to_owned()), buckets)?;
        }
    }
    Ok(builder.build_recorder())
}

/// Why metrics cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// Our buckets are wrong.
    #[error("metrics cannot be set up: {0}")]
    Build(#[from] BuildError),
    /// Another recorder is installed in this process already.
    #[error("metrics are set up already in this process")]
    Twice,
}

/// Sets metrics up for this process, once, and makes every series exist.
pub fn install(rooms: &[&Card]) -> Result<PrometheusHandle, MetricsError> {
    let recorder = recorder(rooms)?;
    let handle = recorder.handle();
    ::metrics::set_global_recorder(recorder).map_err(|_| MetricsError::Twice)?;
    start(rooms);
    Ok(handle)
}

/// Makes every series of every card exist.
pub fn start(rooms: &[&Card]) {
    rooms.iter().for_each(|room| room.start());
    RELOAD_OK.set((), true);
    BUILD_INFO.set((VERSION, COMMIT), true);
}
