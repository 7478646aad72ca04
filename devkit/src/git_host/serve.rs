//! Connections and requests: each is written down, answered by its act, or by git.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, header};
use axum::response::Response;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::act::{At, answer};
use super::cgi::{self, Call};
use super::repository::Repository;
use super::{Host, Visit, lock};

/// Largest body of a request.
const BODY_LIMIT: usize = 16 << 20;

/// Serves until the host is down; then every connection ends where it stands.
pub(super) async fn listen(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    host: Arc<Host>,
    down: CancellationToken,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = down.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(converse(stream, tls.clone(), Arc::clone(&host)));
                }
                // Out of descriptors, or the peer was gone already: the next one may do.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
    connections.shutdown().await;
}

async fn converse(stream: TcpStream, tls: Option<TlsAcceptor>, host: Arc<Host>) {
    match tls {
        None => http(stream, host).await,
        Some(tls) => {
            // A client that does not trust the certificate is gone here.
            if let Ok(stream) = tls.accept(stream).await {
                http(stream, host).await;
            }
        }
    }
}

async fn http(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, host: Arc<Host>) {
    let router = Router::new().fallback(serve).with_state(host);
    let builder = Builder::new(TokioExecutor::new()).http1_only();
    // What a client breaks is its own affair.
    drop(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await);
}

async fn serve(State(host): State<Arc<Host>>, request: Request<Body>) -> Response {
    let mut response = respond(&host, request).await;
    let name = HeaderValue::from_static("devkit git_host (a stand-in)");
    response.headers_mut().insert(header::SERVER, name);
    response
}

async fn respond(host: &Host, request: Request<Body>) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, BODY_LIMIT).await else { return nothing(413) };
    let Some((name, rest)) = split(head.uri.path()) else { return nothing(404) };
    let at = at(&head.method, &body);
    let visit = Visit { repository: name.clone(), at, wants: wants(&body) };
    lock(&host.visits).push(visit);
    if at == At::Refs && !step(host, &name) {
        return nothing(500);
    }
    let act = lock(&host.acts).get(&(name.clone(), at)).cloned();
    let query = head.uri.query().unwrap_or_default();
    if let Some(act) = &act {
        let rest = if query.is_empty() { rest.clone() } else { format!("{rest}?{query}") };
        if let Some(response) = act.instead(at, &rest).await {
            return response;
        }
    }
    let path = format!("/{name}.git{rest}");
    let call = Call { method: head.method.as_str(), path: &path, query, headers: &head.headers, body };
    match cgi::run(&host.root, call).await {
        Ok(response) => match act {
            Some(act) => act.spoil(response),
            None => response,
        },
        Err(_) => nothing(500),
    }
}

/// Moves a reference on, where it moves.
fn step(host: &Host, name: &str) -> bool {
    let mut moves = lock(&host.moves);
    let Some((commits, looks)) = moves.get_mut(name) else { return true };
    let Some(commit) = commits.get(*looks).or(commits.last()) else { return true };
    *looks += 1;
    let repository = Repository::at(&host.root.join(format!("{name}.git")));
    repository.set("refs/heads/main", commit).is_ok()
}

fn nothing(status: u16) -> Response {
    answer(status, "text/plain", Body::from("nothing here\n"))
}

/// `OWNER/REPOSITORY`, and the rest of the path with its slash.
fn split(path: &str) -> Option<(String, String)> {
    let mut parts = path.strip_prefix('/')?.splitn(3, '/');
    let (owner, repository) = (parts.next()?, parts.next()?);
    let repository = repository.strip_suffix(".git").unwrap_or(repository);
    let rest = parts.next()?;
    if [owner, repository, rest].iter().any(|part| part.contains("..") || part.is_empty()) {
        return None;
    }
    Some((format!("{owner}/{repository}"), format!("/{rest}")))
}

fn at(method: &Method, body: &Bytes) -> At {
    if method == Method::GET {
        At::Refs
    } else if body.windows(15).any(|window| window == b"command=ls-refs") {
        At::List
    } else {
        At::Pack
    }
}

/// Ids behind `want` in a fetch; none where the body is compressed.
fn wants(body: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(body);
    let behind = text.split("want ").skip(1);
    behind.map(|rest| rest.chars().take_while(char::is_ascii_hexdigit).collect()).collect()
}
