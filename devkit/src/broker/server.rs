//! The port: accepts connections, tells gRPC from JSON by path, and ends connections when the broker stops. HTTP/1.1 and
//! HTTP/2 without TLS on one socket. Aborted in the middle, clients see their connections reset.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::engine::Engine;
use super::grpc::Grpc;
use super::proto::publisher_server::PublisherServer;
use super::proto::subscriber_server::SubscriberServer;
use super::rest;

/// Largest gRPC request: Pub/Sub takes 10 MB of messages, and they have an envelope.
const REQUEST_BYTES: usize = 12 << 20;
/// A stop's wait for clients to read what was sent.
const STOP_WAIT: Duration = Duration::from_secs(2);

/// Builds both protocols over one engine.
pub(super) fn router(engine: &Arc<Engine>) -> Router {
    let grpc = Grpc(Arc::clone(engine));
    let publisher = PublisherServer::new(grpc.clone()).max_decoding_message_size(REQUEST_BYTES);
    let subscriber = SubscriberServer::new(grpc).max_decoding_message_size(REQUEST_BYTES);
    Router::new()
        .route_service("/google.pubsub.v1.Publisher/{method}", publisher)
        .route_service("/google.pubsub.v1.Subscriber/{method}", subscriber)
        .fallback(rest::answer)
        .with_state(Arc::clone(engine))
}

/// After so long the broker notices that a forgotten connection is dead, as the service's keepalive does. Its peer does not.
const KEEPALIVE: std::time::Duration = std::time::Duration::from_millis(500);

/// Which connections are half-open now.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Hang {
    /// All connections.
    pub(super) all: bool,
    /// Connections accepted before it was last raised, for good.
    pub(super) generation: u64,
}

/// Serves until `closing`; then lets connections finish for a moment and drops them.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    closing: CancellationToken,
    hang: watch::Receiver<Hang>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve_connection(stream, router.clone(), closing.clone(), hang.clone()));
                }
                Err(error) => {
                    // Out of file handles, most likely; trying again at once would only spin.
                    tracing::warn!(%error, "the broker could not accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            () = closing.cancelled() => break,
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    let all_gone = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(STOP_WAIT, all_gone).await.is_err() {
        tracing::debug!("the broker drops connections that would not end");
    }
}

/// Serves one connection. While `hang` is set it is not polled at all: nothing is read, nothing is written, pings stay
/// unanswered, and the peer cannot tell it from a network that swallows packets.
async fn serve_connection(
    stream: TcpStream,
    router: Router,
    closing: CancellationToken,
    mut hang: watch::Receiver<Hang>,
) {
    let born = hang.borrow().generation;
    // A second handle keeps the connection open towards the peer when our end is given up.
    let Ok((stream, second)) = doubled(stream) else { return };
    let mut forgetting = hang.clone();
    let forgotten = async {
        drop(forgetting.wait_for(|hang| hang.generation != born).await);
        tokio::time::sleep(KEEPALIVE).await;
    };
    tokio::select! {
        () = converse(stream, router, closing.clone(), &mut hang, born) => {}
        () = forgotten => closing.cancelled().await,
    }
    drop(second);
}

fn doubled(stream: TcpStream) -> std::io::Result<(TcpStream, std::net::TcpStream)> {
    stream.set_nodelay(true)?;
    let stream = stream.into_std()?;
    let second = stream.try_clone()?;
    Ok((TcpStream::from_std(stream)?, second))
}

async fn converse(
    stream: TcpStream,
    router: Router,
    closing: CancellationToken,
    hang: &mut watch::Receiver<Hang>,
    born: u64,
) {
    let builder = Builder::new(TokioExecutor::new());
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    let mut stopping = false;
    loop {
        if hang.wait_for(|hang| !hang.all && hang.generation == born).await.is_err() {
            return;
        }
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(error = %error, "a broker connection ended badly");
                }
                return;
            }
            changed = hang.changed() => if changed.is_err() { return },
            () = closing.cancelled(), if !stopping => {
                stopping = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}
