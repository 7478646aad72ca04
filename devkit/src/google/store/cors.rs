//! What a browser is told about pages of other origins, as a bucket's configuration has it.
//!
//! The XML API alone: the JSON API of the service has rules of its own, and no page of ours speaks to it.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::bucket::{Bucket, Cors};

/// Readable by any page that gets an answer at all.
const ALWAYS: &str = "Content-Length, Content-Type, Date, Server, Transfer-Encoding";

/// The answer to a preflight. Where nothing fits it is the same without permission, and the browser does not go on.
pub(super) fn preflight(bucket: Option<&Bucket>, headers: &HeaderMap) -> Response {
    let method = text(headers, &header::ACCESS_CONTROL_REQUEST_METHOD);
    let Some((cors, origin)) = bucket.and_then(|bucket| fitting(bucket, headers, method)) else {
        return StatusCode::OK.into_response();
    };
    let wanted = text(headers, &header::ACCESS_CONTROL_REQUEST_HEADERS).split(',').map(str::trim);
    let allowed: Vec<&str> = wanted
        .filter(|wanted| cors.headers.iter().any(|known| known == "*" || known.eq_ignore_ascii_case(wanted)))
        .collect();
    let mut response = StatusCode::OK.into_response();
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, origin),
        (header::ACCESS_CONTROL_ALLOW_METHODS, cors.methods.join(",")),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, allowed.join(",")),
        (header::ACCESS_CONTROL_MAX_AGE, cors.max_age.to_string()),
        (header::VARY, "Origin".to_owned()),
    ] {
        put(response.headers_mut(), name, &value);
    }
    response
}

/// What any other answer says beside itself.
pub(super) fn answer(bucket: &Bucket, method: &Method, asked: &HeaderMap, said: &mut HeaderMap) {
    if let Some((cors, origin)) = fitting(bucket, asked, method.as_str()) {
        put(said, header::ACCESS_CONTROL_ALLOW_ORIGIN, &origin);
        let readable = std::iter::once(ALWAYS).chain(cors.headers.iter().map(String::as_str));
        put(said, header::ACCESS_CONTROL_EXPOSE_HEADERS, &readable.collect::<Vec<_>>().join(", "));
        put(said, header::VARY, "Origin");
    }
}

/// The first entry for the request's origin and method, and the origin as it is answered.
fn fitting<'a>(bucket: &'a Bucket, headers: &HeaderMap, method: &str) -> Option<(&'a Cors, String)> {
    let origin = headers.get(header::ORIGIN)?.to_str().ok()?;
    let cors = bucket.cors.iter().find(|cors| {
        cors.origins.iter().any(|known| known == "*" || known == origin)
            && cors.methods.iter().any(|known| known == "*" || known == method)
    })?;
    let any = cors.origins.iter().any(|known| known == "*");
    Some((cors, if any { "*".to_owned() } else { origin.to_owned() }))
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
