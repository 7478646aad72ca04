//! The page `/u` on which a person brings a file. The session's token stands in the fragment of its address, which browsers send to
//! nobody. One document, one style sheet, one script, all of them in the binary.

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use url::Url;

const HTML: &str = include_str!("assets/upload.html");
const CSS: &str = include_str!("assets/upload.css");
const SCRIPT: &str = include_str!("assets/upload.js");
const ICON: &str = include_str!("assets/upload.svg");

/// Of the page: its own files, and parts sent to the object store. `{store}` is its origin.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self' {store}; \
     form-action 'none'; frame-ancestors 'none'; base-uri 'none'";

/// The routes of the page, which sends parts to the store at this address.
pub(super) fn routes(store: &str) -> Router {
    // Of an address with a path a browser would allow that path alone.
    let store =
        Url::parse(store).map_or_else(|_| String::new(), |store| store.origin().ascii_serialization());
    let policy = HeaderValue::from_str(&POLICY.replace("{store}", &store)).ok();
    Router::new()
        .route("/u", get(move || async move { page(policy) }))
        .route("/u/upload.css", get(|| async { file("text/css; charset=utf-8", CSS) }))
        .route("/u/upload.js", get(|| async { file("text/javascript; charset=utf-8", SCRIPT) }))
        .route("/u/upload.svg", get(|| async { file("image/svg+xml", ICON) }))
}

fn page(policy: Option<HeaderValue>) -> Response {
    let mut response = file("text/html; charset=utf-8", HTML);
    if let Some(policy) = policy {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

fn file(media_type: &'static str, content: &'static str) -> Response {
    let headers = [(header::CONTENT_TYPE, media_type), (header::CACHE_CONTROL, "no-cache")];
    (headers, content).into_response()
}
