//! The port: accepts connections, serves each, and ends one where a rule cuts it, or all of them when the help desk stops.

use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::desk::{Desk, count};
use super::serve::{self, Visit};

/// A listening help desk.
#[derive(Debug)]
pub(super) struct Port {
    task: JoinHandle<()>,
    down: CancellationToken,
}

impl Port {
    /// Serves on this listener, of the door with this number.
    pub(super) fn open(listener: TcpListener, desk: &Arc<Desk>, door: u64) -> Self {
        let down = CancellationToken::new();
        let task = tokio::spawn(accept(listener, Arc::clone(desk), door, down.clone()));
        Self { task, down }
    }

    /// Ends every connection where it stands. What was not done yet will not be done.
    pub(super) async fn close(self) {
        self.down.cancel();
        if let Err(ended) = self.task.await
            && ended.is_panic()
        {
            std::panic::resume_unwind(ended.into_panic());
        }
    }

    /// The same, without waiting for it.
    pub(super) fn abandon(&self) {
        self.down.cancel();
    }
}

async fn accept(listener: TcpListener, desk: Arc<Desk>, door: u64, down: CancellationToken) {
    let (mut connections, works) = (JoinSet::new(), TaskTracker::new());
    loop {
        tokio::select! {
            () = down.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    count(&desk.tally.connections);
                    let visit = Visit {
                        desk: Arc::clone(&desk),
                        door,
                        cut: CancellationToken::new(),
                        down: down.clone(),
                        works: works.clone(),
                    };
                    connections.spawn(converse(stream, visit));
                }
                // Out of descriptors, or the peer was gone already: the next one may do.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
    connections.shutdown().await;
    works.close();
    works.wait().await;
}

async fn converse(stream: TcpStream, visit: Visit) {
    if stream.set_nodelay(true).is_err() || !serve::welcome(&visit).await {
        return;
    }
    let cut = visit.cut.clone();
    let builder = Builder::new(TokioExecutor::new()).http1_only();
    let service = TowerToHyperService::new(serve::router(visit));
    tokio::select! {
        // What a client breaks is its own affair.
        _ = builder.serve_connection(TokioIo::new(stream), service) => {}
        () = cut.cancelled() => {}
    }
}
