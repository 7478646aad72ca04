//! Around every handler: the name of the host, pages of other origins (CORS), size, time and number of requests, headers, the line of
//! the journal, panics. What a handler, a library or this file refuses becomes a problem in one place.
//!
//! No cookie counts here, so that no other page can ask in somebody's name.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::limit::RequestBodyLimitLayer;
use url::Url;

use super::LONGEST_WAIT;
use crate::journal;
use crate::uploads::NAME;
use crate::uploads::journal::EventName;
use crate::uploads::metrics::{Answer, REQUESTS};
use crate::uploads::problem::{Kind, Problem};
use crate::web::headers::guard;
use crate::web::host::{Hosts, asked};
use crate::web::problem::ProblemKind as _;
use crate::web::room::{Room, panicked};

/// Largest body of a request, in bytes: a hundred numbers with their digests have a tenth of it.
const BODY: usize = 64 * 1024;
/// Requests at once, beside those that wait for a change.
const AT_ONCE: usize = 256;
/// Longest time until an answer begins: signing a hundred links at an IAM that is slow takes its time.
const LONGEST: Duration = Duration::from_secs(30);
/// Time for which a browser may believe what it was told of another origin.
const PREFLIGHT: &str = "600";
/// What a program's answer may do in a browser.
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";

struct Shared {
    hosts: Vec<Hosts>,
    origins: Vec<HeaderValue>,
    room: Room,
}

/// The routes with everything around them.
pub(super) fn around(routes: Router, at: SocketAddr, origin: &str, allowed_origins: &[String]) -> Router {
    // Whoever is on this host may use the address itself.
    let addresses = [origin.to_owned(), format!("http://{at}"), format!("http://localhost:{}", at.port())];
    let hosts = addresses.iter().filter_map(|address| Hosts::of(&Url::parse(address).ok()?)).collect();
    let origins = allowed_origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()).collect();
    let shared = Arc::new(Shared { hosts, origins, room: Room::new(AT_ONCE, LONGEST.max(LONGEST_WAIT)) });
    routes
        .fallback(|| async { Kind::of_status(StatusCode::NOT_FOUND) })
        .method_not_allowed_fallback(|| async { Kind::of_status(StatusCode::METHOD_NOT_ALLOWED) })
        .layer(CatchPanicLayer::custom(panicked::<Kind>(NAME)))
        .layer(RequestBodyLimitLayer::new(BODY))
        .layer(from_fn_with_state(Arc::clone(&shared), admit))
        .layer(from_fn_with_state(shared, finish))
}

/// Name of the host, room, time.
async fn admit(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let asked = asked(&request);
    if !shared.hosts.iter().any(|hosts| hosts.are(asked.iter().map(String::as_str))) {
        let what = "The request names a host that is not this API's.";
        return Problem::new(Kind::Host, what, "Use the address of uploads.origin.").into_response();
    }
    if request.method() == Method::OPTIONS && request.headers().contains_key(header::ORIGIN) {
        return StatusCode::NO_CONTENT.into_response();
    }
    shared.room.answered::<Kind>(next.run(request)).await
}

/// Headers and records of an answer.
async fn finish(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map_or("none", |path| path.as_str()).to_owned();
    let origin =
        request.headers().get(header::ORIGIN).filter(|origin| shared.origins.contains(origin)).cloned();
    let mut response = next.run(request).await;
    let status = response.status();
    let is_problem = response.extensions().get::<Problem>().is_some();
    if status.is_client_error() && !is_problem {
        response = Kind::of_status(status).into_response();
    }
    REQUESTS.add(Answer::of(status.as_u16()), 1);
    if method == Method::GET && status.is_success() {
        journal!(debug, EventName::UploadRequest, %method, route, status = status.as_u16(), "{method} {route} {}", status.as_u16());
    } else {
        journal!(info, EventName::UploadRequest, %method, route, status = status.as_u16(), "{method} {route} {}", status.as_u16());
    }
    let headers = response.headers_mut();
    let kept = headers.get(header::CACHE_CONTROL).cloned();
    guard(headers);
    if let Some(kept) = kept {
        headers.insert(header::CACHE_CONTROL, kept);
    }
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(NOTHING));
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        // A page that is allowed reads what it asked for.
        headers.insert("cross-origin-resource-policy", HeaderValue::from_static("cross-origin"));
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
        headers.insert(
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            HeaderValue::from_static("authorization, content-type"),
        );
        headers
            .insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("location, retry-after"));
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT));
    }
    response
}
