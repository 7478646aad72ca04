//! An HTTP server on a loopback port that counts its connections, lets a handler end its own, and can go away.
//!
//! State is in memory: when the process dies, nothing is left. The listener is on 127.0.0.1 only.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

/// A stopping server's wait for requests in work. Scripted hangs never end by themselves.
const STOP_GRACE: Duration = Duration::from_millis(300);

/// A handler's hold on the connection that its request came by; an extension of each request.
#[derive(Debug, Clone)]
pub(crate) struct Cut(CancellationToken);

impl Cut {
    /// Closes the connection without a word.
    pub(crate) async fn now<T>(self) -> T {
        self.0.cancel();
        std::future::pending().await
    }
}

/// A running server; dropping it closes the listener.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    connections: Arc<AtomicU64>,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
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
        let stop = CancellationToken::new();
        let task = tokio::spawn(accept(listener, router, Arc::clone(&connections), stop.clone()));
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
        if let Some(task) = self.task.take()
            && let Err(ended) = task.await
            && ended.is_panic()
        {
            std::panic::resume_unwind(ended.into_panic());
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn accept(listener: TcpListener, router: Router, counter: Arc<AtomicU64>, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    counter.fetch_add(1, Ordering::Relaxed);
                    connections.spawn(converse(stream, router.clone(), stop.clone()));
                }
                // Out of descriptors, or the peer was gone already: the next one may do.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(STOP_GRACE, ended).await.is_err() {
        connections.shutdown().await;
    }
}

async fn converse(stream: TcpStream, router: Router, stop: CancellationToken) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let cut = CancellationToken::new();
    let service = TowerToHyperService::new(router.layer(Extension(Cut(cut.clone()))));
    let builder = Builder::new(TokioExecutor::new()).http1_only();
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        // What a client breaks is its own affair.
        _ = connection.as_mut() => return,
        () = cut.cancelled() => return,
        () = stop.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        _ = connection => {}
        () = cut.cancelled() => {}
    }
}
