//! Headers: what every answer says to browsers, whatever it is, and what a request says once. Pure.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

const PERMISSIONS: &str = "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), microphone=(), payment=(), usb=()";
/// Headers of every answer.
const ALWAYS: [(HeaderName, &str); 7] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), PERMISSIONS),
    (HeaderName::from_static("x-permitted-cross-domain-policies"), "none"),
];

/// Has an answer say what every one says. A content security policy is each surface's own.
pub fn guard(headers: &mut HeaderMap) {
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// The value of a header that a request has once; of one that it has twice an empty text, because neither could be trusted.
#[must_use]
pub fn single(headers: &HeaderMap, name: &str) -> Option<String> {
    let mut values = headers.get_all(name).iter();
    values.next().map(|value| if values.next().is_some() { String::new() } else { text(value) })
}

/// The text of a value; empty where it is none.
pub(super) fn text(value: &HeaderValue) -> String {
    value.to_str().unwrap_or_default().to_owned()
}
