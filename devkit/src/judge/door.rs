//! What every endpoint does before it looks at a request: says what it is, and asks for the key.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::refusal::Refusal;

/// What every answer says of its server.
const SERVER: &str = "devkit-scripted (a stand-in, no model)";

pub(crate) async fn signed(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().insert(header::SERVER, HeaderValue::from_static(SERVER));
    response
}

pub(crate) async fn unknown(request: Request) -> Response {
    let message = format!("Invalid URL ({} {})", request.method(), request.uri().path());
    Refusal::of(404, message, Some("unknown_url")).into_response()
}

/// Refuses whoever has not the key, where one is wanted.
pub(crate) fn authorized(key: Option<&str>, headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(key) = key else { return Ok(()) };
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    match given.map(|given| given.strip_prefix("Bearer ")) {
        Some(Some(given)) if given == key => Ok(()),
        Some(_) => Err(Refusal::of(401, "Incorrect API key provided.", Some("invalid_api_key"))),
        None => Err(Refusal::of(401, "You didn't provide an API key.", None)),
    }
}

pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let stated = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    stated.split(';').next().is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json"))
}
