//! The loopback endpoint: `/metrics`, `/-/healthy`, `/-/ready`.
//!
//! Reads shared state only, and never touches database, relay or Pub/Sub, so that a probe costs nothing and cannot hang. If
//! the endpoint dies, routing goes on: the daemon decides what follows.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::kernel::metric::Gauge;

/// The answer of `/-/ready`, as a gauge.
pub static READY: Gauge = Gauge::new("maple_router_ready", "1 while /-/ready says so");

/// Interval at which recorded observations are moved into histograms, scraped or not.
const UPKEEP: Duration = Duration::from_secs(5);

/// The reasons why the daemon takes no work; without a reason it is ready. The daemon sets them, and the endpoint shows
/// them.
#[derive(Debug)]
pub struct Readiness {
    reasons: RwLock<BTreeMap<&'static str, String>>,
}

/// One reason for not being ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// The subject: `starting`, `stopping`, `postgres`, `relay`, …
    pub name: &'static str,
    /// The trouble in words.
    pub detail: String,
}

impl Default for Readiness {
    fn default() -> Self {
        Self::new()
    }
}

impl Readiness {
    /// Not ready yet: the reason `starting`, until [`Readiness::clear`]ed.
    #[must_use]
    pub fn new() -> Self {
        Self { reasons: RwLock::new(BTreeMap::from([("starting", "the daemon is starting".to_owned())])) }
    }

    /// Adds or replaces a reason.
    pub fn hold(&self, name: &'static str, detail: impl Into<String>) {
        let mut reasons = self.reasons.write().unwrap_or_else(PoisonError::into_inner);
        reasons.insert(name, detail.into());
        READY.set((), false);
    }

    /// Removes a reason.
    pub fn clear(&self, name: &'static str) {
        let mut reasons = self.reasons.write().unwrap_or_else(PoisonError::into_inner);
        reasons.remove(name);
        READY.set((), reasons.is_empty());
    }

    /// Returns the reasons, by name; empty means ready.
    #[must_use]
    pub fn reasons(&self) -> Vec<Reason> {
        let reasons = self.reasons.read().unwrap_or_else(PoisonError::into_inner);
        reasons.iter().map(|(name, detail)| Reason { name, detail: detail.clone() }).collect()
    }
}

/// Why the endpoint cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {listen} for metrics and health: {source}; {remedy}")]
pub struct BindError {
    listen: String,
    source: io::Error,
    remedy: String,
}

/// Opens the address that `key` configures.
///
/// # Errors
/// [`BindError`].
pub async fn bind(listen: &str, key: &str) -> Result<TcpListener, BindError> {
    TcpListener::bind(listen).await.map_err(|source| BindError {
        listen: listen.to_owned(),
        remedy: if source.kind() == io::ErrorKind::AddrInUse {
            format!("another process has it (another maple-router?); stop that one or change {key}")
        } else {
            format!("change {key}")
        },
        source,
    })
}

/// Serves until `shutdown`; open requests are still answered.
pub async fn serve(
    listener: TcpListener,
    handle: PrometheusHandle,
    readiness: Arc<Readiness>,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let address: SocketAddr = listener.local_addr()?;
    tracing::info!(listen = %address, "serving /metrics, /-/healthy and /-/ready");
    let upkeep = handle.clone();
    let router = Router::new()
        .route("/metrics", get(show_metrics))
        .route("/-/healthy", get(|| async { "alive\n" }))
        .route("/-/ready", get(show_readiness))
        .with_state((handle, readiness));
    let stop = shutdown.clone();
    let server = axum::serve(listener, router).with_graceful_shutdown(async move { stop.cancelled().await });
    let keeping = async {
        let mut tick = tokio::time::interval(UPKEEP);
        loop {
            tick.tick().await;
            upkeep.run_upkeep();
        }
    };
    tokio::select! {
        ended = server.into_future() => ended,
        () = keeping => Ok(()),
    }
}

type Shared = (PrometheusHandle, Arc<Readiness>);

async fn show_metrics(State((handle, _)): State<Shared>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], handle.render())
}

/// Body of `/-/ready`.
#[derive(Serialize)]
struct ReadyBody {
    ready: bool,
    reasons: Vec<Reason>,
}

async fn show_readiness(State((_, readiness)): State<Shared>) -> impl IntoResponse {
    let reasons = readiness.reasons();
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(ReadyBody { ready: reasons.is_empty(), reasons }))
}
