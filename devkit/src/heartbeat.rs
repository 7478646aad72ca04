//! A listener for heartbeats on loopback, as a dead man's switch service does: takes a GET at its secret URL.
//!
//! In memory only.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use anyhow::Result;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use uuid::Uuid;

use crate::google::loopback::Server;

#[derive(Debug)]
struct Received {
    secret: String,
    beats: AtomicU64,
    refused: AtomicU64,
    answer: AtomicU16,
}

/// A service that would call people if no heartbeat came.
#[derive(Debug)]
pub struct HeartbeatService {
    received: Arc<Received>,
    address: SocketAddr,
    _server: Server,
}

impl HeartbeatService {
    /// Starts on a free loopback port.
    ///
    /// # Errors
    /// When no port can be had.
    #[expect(clippy::disallowed_methods, reason = "the secret must only be unlike any other")]
    pub async fn start() -> Result<Self> {
        let received = Arc::new(Received {
            secret: Uuid::new_v4().simple().to_string(),
            beats: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            answer: AtomicU16::new(200),
        });
        let router = Router::new().route("/ping/{secret}", get(receive)).with_state(Arc::clone(&received));
        let server = Server::start(router).await?;
        Ok(Self { received, address: server.address(), _server: server })
    }

    /// The secret URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/ping/{}", self.address, self.received.secret)
    }

    /// The URL's secret part, which no log may contain.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.received.secret
    }

    /// Heartbeats that were taken.
    #[must_use]
    pub fn beats(&self) -> u64 {
        self.received.beats.load(Ordering::Relaxed)
    }

    /// Heartbeats that were answered with something else.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.received.refused.load(Ordering::Relaxed)
    }

    /// Sets the status of all later answers; anything in 200–299 takes a heartbeat.
    pub fn answer(&self, status: u16) {
        self.received.answer.store(status, Ordering::Relaxed);
    }
}

async fn receive(State(received): State<Arc<Received>>, Path(secret): Path<String>) -> StatusCode {
    let status = if secret == received.secret { received.answer.load(Ordering::Relaxed) } else { 404 };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let count = if status.is_success() { &received.beats } else { &received.refused };
    count.fetch_add(1, Ordering::Relaxed);
    status
}
