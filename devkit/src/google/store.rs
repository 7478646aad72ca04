//! The object store, path style (`/BUCKET/OBJECT`): serves an object only through a good V4 signed URL.
//!
//! Refuses in the XML of the real service. Objects live in memory and die with the process.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::script::Step;
use super::v4::{self, Refusal};
use super::{Object, Shared, Spoilt};

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new().fallback(serve).with_state(shared)
}

/// Every answer says what time it is to the store.
async fn serve(State(shared): State<Arc<Shared>>, request: Request<Body>) -> Response {
    let mut response = answer(&shared, request).await;
    let date = shared.store_time().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    if let Ok(date) = HeaderValue::from_str(&date) {
        response.headers_mut().insert(header::DATE, date);
    }
    response
}

async fn answer(shared: &Shared, request: Request<Body>) -> Response {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return refusal(
            405,
            "MethodNotAllowed",
            "The specified method is not allowed against this resource.",
        );
    }
    shared.gets.fetch_add(1, Ordering::Relaxed);
    if let Step::Fail(status, _) = shared.store_script.step().await {
        return match status {
            503 => refusal(503, "ServiceUnavailable", "Please reduce your request rate."),
            other => refusal(other, "InternalError", "We encountered an internal error. Please try again."),
        };
    }
    let (uri, headers) = (request.uri(), request.headers());
    match v4::judge(&shared.key, request.method(), uri, headers, shared.store_time()) {
        Ok(()) => {}
        Err(Refusal::Anonymous) => {
            return refusal(
                403,
                "AccessDenied",
                "Anonymous caller does not have storage.objects.get access.",
            );
        }
        Err(Refusal::Malformed(part)) => {
            return refusal(
                400,
                "MalformedSecurityHeader",
                &format!("Your request has a malformed header: {part}."),
            );
        }
        Err(Refusal::Mismatch) => {
            return refusal(
                403,
                "SignatureDoesNotMatch",
                "The request signature we calculated does not match the signature you provided.",
            );
        }
        // The real service answers 400 here, not 403.
        Err(Refusal::Expired) => return refusal(400, "ExpiredToken", "The provided token has expired."),
    }
    if !shared.may_read() {
        // Permission is looked at before existence: a stranger does not learn which objects exist.
        return refusal(
            403,
            "AccessDenied",
            "The signer does not have storage.objects.get access to the object.",
        );
    }
    let path = String::from_utf8_lossy(&v4::decode(uri.path())).into_owned();
    let (bucket, object) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
    let Some(found) = shared.object(bucket, object) else {
        return refusal(404, "NoSuchKey", "The specified key does not exist.");
    };
    let disposition = v4::decoded_query(uri.query().unwrap_or_default())
        .into_iter()
        .find(|(name, _)| name == "response-content-disposition")
        .map(|(_, value)| value);
    let mut response = Response::new(body(shared, &found));
    describe(response.headers_mut(), &found);
    if let Ok(value) = HeaderValue::from_str(&found.content_type) {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    if let Some(text) = disposition {
        // File names stand there as UTF-8, and go out as they came in.
        match HeaderValue::from_bytes(text.as_bytes()) {
            Ok(value) => {
                response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
            }
            Err(_) => return refusal(400, "InvalidArgument", "Invalid response-content-disposition."),
        }
    }
    response
}

/// The object's bytes, or what is left of them on a bad way.
fn body(shared: &Shared, found: &Object) -> Body {
    let spoilt = shared.spoilt.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let bytes = found.bytes.clone();
    match spoilt {
        None => Body::from(bytes),
        Some(Spoilt::Flipped) => {
            let mut bytes = bytes.to_vec();
            if let Some(last) = bytes.last_mut() {
                *last ^= 1;
            }
            Body::from(bytes)
        }
        Some(Spoilt::Cut) => {
            let half = bytes.slice(..bytes.len() / 2);
            let end = io::Error::new(io::ErrorKind::ConnectionAborted, "cut");
            Body::from_stream(futures::stream::iter([Ok(half), Err(end)]))
        }
    }
}

/// What the service says of an object beside its type.
fn describe(headers: &mut HeaderMap, found: &Object) {
    let digest = BASE64.encode(found.crc32c.to_be_bytes());
    let encoding = found.encoding.as_deref();
    for (name, value) in [
        ("x-goog-generation", found.generation.to_string()),
        ("x-goog-hash", format!("crc32c={digest}")),
        ("x-goog-stored-content-length", found.bytes.len().to_string()),
        ("x-goog-stored-content-encoding", encoding.unwrap_or("identity").to_owned()),
    ] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    if let Some(Ok(encoding)) = encoding.map(HeaderValue::from_str) {
        headers.insert(header::CONTENT_ENCODING, encoding);
    }
}

/// A refusal in the XML of the service.
fn refusal(status: u16, code: &str, message: &str) -> Response {
    let body = format!(
        "<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    );
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(header::CONTENT_TYPE, "application/xml; charset=UTF-8")], body).into_response()
}
