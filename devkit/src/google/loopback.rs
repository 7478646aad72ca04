//! An HTTP server on a loopback port that counts its connections and can go away.
//!
//! State is in memory: when the process dies, nothing is left. The listener is on 127.0.0.1 only.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A stopping server's wait for requests in work. Scripted hangs never end by themselves.
const STOP_GRACE: Duration = Duration::from_millis(300);

/// A running server; dropping it closes the listener.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    connections: Arc<AtomicU64>,
    stop: CancellationToken,
    task: Option<JoinHandle<io::Result<()>>>,
}

impl Server {
    /// Serves `router` on a free loopback port.
    pub(crate) async fn start(router: Router) -> io::Result<Self> {
        Self::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), router).await
    }

    /// Serves `router` at an address that was free or used before: a server that comes back.
    pub(crate) async fn start_at(address: SocketAddr, router: Router) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let connections = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&connections);
        let listener = listener.tap_io(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        let task = tokio::spawn(async move {
            axum::serve(listener, router).with_graceful_shutdown(stopping.cancelled_owned()).await
        });
        Ok(Self { address, connections, stop, task: Some(task) })
    }

    /// `127.0.0.1:port`.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections accepted so far.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Closes the listener and idle connections; afterwards a connect is refused.
    pub(crate) async fn stop(&mut self) {
        self.stop.cancel();
        if let Some(mut task) = self.task.take()
            && tokio::time::timeout(STOP_GRACE, &mut task).await.is_err()
        {
            task.abort();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
