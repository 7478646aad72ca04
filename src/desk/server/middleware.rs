//! Around every handler, from the outside in: the answer's head and its records (`finish`); name of the host, CSRF, room,
//! time (`admit`); body size, panics; and for whatever is closed, who asks and how often (`authenticate`).
//!
//! What a handler, a library or this file refuses becomes a [`Problem`] in one place.

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::limit::RequestBodyLimitLayer;

use crate::desk::NAME;
use crate::desk::access::authenticator::Authenticator;
use crate::desk::access::origin::Origin;
use crate::desk::access::presented::{API, is_bearer};
use crate::desk::access::{Visitor, learner};
use crate::desk::journal::EventName;
use crate::desk::limits::{Bounds, RateLimits};
use crate::desk::login;
use crate::desk::metrics::{PROBLEMS, REQUESTS, Route, SECONDS};
use crate::desk::policy;
use crate::desk::problem::{Kind, Paged, Problem};
use crate::desk::stream::{Followers, Streams};
use crate::desk::templates::{ProblemPage, ProblemView, Sent};
use crate::journal;
use crate::ports::Clock;
use crate::web::headers::{self, single};
use crate::web::host;
use crate::web::problem::instead;
use crate::web::room::{Room, panicked};
use crate::web::status::Status;

/// Largest body of a request, in bytes.
const BODY: usize = 64 * 1024;
/// Template of the files that pages load.
const FILES: &str = "/assets/{file}";
/// Refusals that cost nothing to provoke. A database that is away is nobody's doing.
const CHEAP: [Kind; 5] = [Kind::Unauthenticated, Kind::Ticket, Kind::Host, Kind::RateLimited, Kind::Busy];

/// What all requests share.
pub(super) struct Shared {
    origin: Origin,
    authenticator: Arc<Authenticator>,
    limits: Arc<RateLimits>,
    streams: Streams,
    followers: Followers,
    bounds: Bounds,
    room: Room,
    page: ProblemPage,
    clock: Arc<dyn Clock>,
}

impl Shared {
    pub(super) fn new(
        origin: Origin,
        authenticator: Arc<Authenticator>,
        limits: Arc<RateLimits>,
        (streams, followers): (Streams, Followers),
        bounds: Bounds,
        (page, clock): (ProblemPage, Arc<dyn Clock>),
    ) -> Self {
        let room = Room::new(bounds.at_once, bounds.answer);
        Self { origin, authenticator, limits, streams, followers, bounds, room, page, clock }
    }
}

/// What is found out about a request on its way in, for its answer's records.
#[derive(Debug, Clone, Default)]
struct Trace(Arc<TraceCells>);

#[derive(Debug, Default)]
struct TraceCells {
    closed: OnceLock<()>,
    visitor: OnceLock<Visitor>,
}

/// The routers with everything around them.
pub(super) fn around(open: Router, closed: Router, shared: Arc<Shared>) -> Router {
    let closed = closed.layer(from_fn_with_state(Arc::clone(&shared), authenticate));
    open.merge(closed)
        .fallback(|| async { Problem::not_found("such page") })
        .layer(CatchPanicLayer::custom(panicked::<Kind>(NAME)))
        .layer(RequestBodyLimitLayer::new(BODY))
        .layer(from_fn_with_state(Arc::clone(&shared), admit))
        .layer(from_fn_with_state(shared, finish))
}

/// Finds out who asks, before any handler behind the login runs. A learner is no user: on a learner's own routes the proof is handed on, and
/// their handlers, which have no visitor then, judge it.
async fn authenticate(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let trace = request.extensions().get::<Trace>().cloned().unwrap_or_default();
    trace.0.closed.get_or_init(|| ());
    if let Some(proof) = learners(&shared.authenticator, &request) {
        request.extensions_mut().insert(proof);
        return next.run(request).await;
    }
    let wakes = !is_stream(request.headers());
    let found = shared.authenticator.visitor(request.uri().path(), request.headers(), wakes).await;
    let visitor = match found.and_then(|visitor| shared.limits.request(&visitor.user).map(|()| visitor)) {
        Ok(visitor) => visitor,
        Err(problem) => return problem.into_response(),
    };
    trace.0.visitor.get_or_init(|| visitor.clone());
    request.extensions_mut().insert(visitor);
    next.run(request).await
}

/// What a learner's request brings, on a route that is for learners.
fn learners(authenticator: &Authenticator, request: &Request) -> Option<learner::Proof> {
    let template = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str)?;
    let (uri, headers) = (request.uri(), request.headers());
    let is_persons = authenticator.is_persons(uri.path(), headers);
    learner::presented(request.method(), template, uri.query(), headers, is_persons)
}

/// Refuses what is not for us, and what there is no room or no time for.
async fn admit(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let ours = is_ours(&shared.origin, &request);
    if let Err(problem) = ours {
        return problem.into_response();
    }
    request.extensions_mut().insert(shared.streams.clone());
    request.extensions_mut().insert(shared.followers.clone());
    request.extensions_mut().insert(shared.authenticator.key.clone());
    shared.room.answered::<Kind>(remembering(request, next)).await
}

/// Runs what follows; a refused change of a page's form keeps what was sent, so that nobody has to type it again.
async fn remembering(request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    if request.method() != Method::POST || !is_decision(&path) || !is_form(request.headers()) {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let Ok(content) = axum::body::to_bytes(body, BODY).await else {
        return Problem::of_status(StatusCode::PAYLOAD_TOO_LARGE).into_response();
    };
    let mut response = next.run(Request::from_parts(parts, Body::from(content.clone()))).await;
    if response.status().is_client_error() || response.status().is_server_error() {
        let fields = url::form_urlencoded::parse(&content).into_owned().collect();
        response.extensions_mut().insert(Sent { path, fields });
    }
    response
}

/// Whether people type into the form that is sent here. What logs somebody in is not among it.
fn is_decision(path: &str) -> bool {
    ["/entries/", "/queue/", "/forms/"].iter().any(|place| path.starts_with(place))
}

fn is_form(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/x-www-form-urlencoded"))
}

fn is_ours(origin: &Origin, request: &Request) -> Result<(), Problem> {
    origin.host(host::asked(request).iter().map(String::as_str))?;
    let headers = request.headers();
    let (site, from) = (single(headers, "sec-fetch-site"), single(headers, "origin"));
    let bearer = is_bearer(request.uri().path(), headers);
    Ok(origin.csrf(request.method(), site.as_deref(), from.as_deref(), bearer)?)
}

/// Makes the answer one of ours, whatever it is, and records it.
async fn finish(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let began = shared.clock.monotonic();
    let (trace, method) = (Trace::default(), request.method().clone());
    let template = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let asks_for_page = is_page(request.uri().path(), request.headers());
    let path = request.uri().path_and_query().map(|path| path.as_str().to_owned());
    let path = path.filter(|path| method == Method::GET && !path.starts_with(login::PATH));
    request.extensions_mut().insert(trace.clone());
    let mut response = next.run(request).await;
    let (visitor, status) = (trace.0.visitor.get(), response.status());
    let mut rests = false;
    if status.is_client_error() || status.is_server_error() {
        let problem = response.extensions().get::<Problem>().cloned();
        let told_already = problem.is_some();
        let problem = problem.unwrap_or_else(|| Problem::of_status(status));
        PROBLEMS.add(problem.kind(), 1);
        rests = CHEAP.contains(&problem.kind());
        if response.extensions().get::<Paged>().is_some() {
            // The handler has shown it.
        } else if asks_for_page {
            let sent = response.extensions().get::<Sent>();
            let view = ProblemView { problem: &problem, visitor, path: path.as_deref(), sent };
            response = instead(&response, problem.page((shared.page)(&view)));
        } else if !told_already {
            response = instead(&response, problem.into_response());
        }
    }
    let is_file = template.as_deref() == Some(FILES) && response.status().is_success();
    guard(response.headers_mut(), is_file);
    let route = class(template.as_deref(), trace.0.closed.get().is_some(), response.headers());
    let took = shared.clock.monotonic().saturating_duration_since(began);
    REQUESTS.add((route, Status::of(response.status())), 1);
    SECONDS.record((), took);
    record(&method, template.as_deref(), response.status(), visitor, took.as_millis());
    if rests {
        // No room is taken meanwhile, and the connection waits with its sender.
        tokio::time::sleep(shared.bounds.refusal).await;
    }
    response
}

fn guard(headers: &mut HeaderMap, is_file: bool) {
    // A file's path has its digest, so that a browser may keep it.
    let kept = headers.get(header::CACHE_CONTROL).filter(|_| is_file).cloned();
    headers::guard(headers);
    if let Some(kept) = kept {
        headers.insert(header::CACHE_CONTROL, kept);
    }
    // A mail in a frame brings a stricter policy of its own.
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(policy::PAGE));
}

/// One line of the journal for each request. What reads without a finding is a detail.
fn record(
    method: &Method,
    template: Option<&str>,
    status: StatusCode,
    visitor: Option<&Visitor>,
    took: u128,
) {
    let (route, user) = (template.unwrap_or("none"), visitor.map_or("", |visitor| visitor.user.as_str()));
    let (status, duration_ms) = (status.as_u16(), u64::try_from(took).unwrap_or(u64::MAX));
    if visitor.is_none() && method == Method::GET && status < 400 {
        journal!(debug, EventName::DeskRequest, %method, route, status, user, duration_ms, "{method} {route} {status}");
    } else {
        journal!(info, EventName::DeskRequest, %method, route, status, user, duration_ms, "{method} {route} {status}");
    }
}

fn class(template: Option<&str>, closed: bool, headers: &HeaderMap) -> Route {
    let streams = headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
    match template {
        None => Route::Other,
        Some(_) if streams => Route::Stream,
        Some(path) if path.starts_with(login::PATH) || path == "/logout" => Route::Login,
        Some(path) if path.starts_with(API) => Route::Api,
        Some(_) if closed => Route::Page,
        Some(_) => Route::Asset,
    }
}

/// Whether a person asks, who is shown a page.
fn is_page(path: &str, headers: &HeaderMap) -> bool {
    !path.starts_with(API) && accepts(headers, "text/html")
}

/// Whether a browser opens a stream: it does so by itself, again and again, so it keeps no session from resting.
fn is_stream(headers: &HeaderMap) -> bool {
    accepts(headers, "text/event-stream")
}

fn accepts(headers: &HeaderMap, what: &str) -> bool {
    headers.get_all(header::ACCEPT).iter().any(|value| value.to_str().is_ok_and(|text| text.contains(what)))
}
