//! Connections: few at once, heads of requests within a size and a time, and an end within a time.

use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::name::Name;

/// Connections at once of a surface that has no reason for more. Further ones wait in the kernel's queue.
pub(super) const CONNECTIONS: usize = 512;
/// Time for the head of a request, also of the next one on a connection that is kept.
const HEAD: Duration = Duration::from_secs(20);
/// Largest head of a request, in bytes; a larger one is answered by 431.
const HEAD_SIZE: usize = 16 * 1024;
/// Most headers of a request.
const HEADERS: usize = 64;
/// Time that open requests have at a stop.
const LAST_ANSWERS: Duration = Duration::from_millis(1200);
/// Pause after the system has refused a connection, e.g. for want of files.
const REST: Duration = Duration::from_millis(100);

/// Serves the surface of this `name` until `stop`, on `most` connections at once, then lets open requests end.
pub(super) async fn serve(
    name: &Name,
    listener: TcpListener,
    most: usize,
    router: Router,
    stop: &CancellationToken,
) {
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_header_size(HEAD_SIZE).max_headers(HEADERS);
    let (graceful, mut connections) = (GracefulShutdown::new(), JoinSet::new());
    while !stop.is_cancelled() {
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept(), if connections.len() < most => accepted,
        };
        match stream {
            Ok((stream, _)) => {
                // Answers are small: none waits for another packet.
                if stream.set_nodelay(true).is_err() {
                    continue;
                }
                let service = TowerToHyperService::new(router.clone());
                let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
                connections.spawn(async move {
                    // Whoever went away, or spoke something else, is nobody to tell of.
                    drop(connection.await);
                });
            }
            Err(error) => {
                tracing::warn!("{name} could not take a connection: {error}");
                tokio::time::sleep(REST).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(LAST_ANSWERS, graceful.shutdown()).await.is_err() {
        tracing::warn!(open = connections.len(), "{name}'s last connections are cut off");
    }
    connections.abort_all();
}
