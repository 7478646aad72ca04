//! Answers as the help desk writes them, good and spoilt.
//!
//! Pure. Every answer says in its `Server` header that it comes from a stand-in.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};

use super::limits::Wait;
use super::refusal::Refusal;

/// What every answer says of its author.
const SERVER: HeaderValue = HeaderValue::from_static("maple-router-devkit (a stand-in, not HappyFox)");
/// What something in between says instead of the help desk.
const PAGE: &str = "<!DOCTYPE html>\n<html><head><title>One moment</title></head>\
                    <body><h1>One moment, please</h1><p>We are looking into it.</p></body></html>\n";

/// The end of a request.
#[derive(Debug)]
pub(super) enum Reply {
    /// This is answered.
    Answer(Response),
    /// The connection ends here.
    Cut,
    /// Nothing is answered, and the connection stays.
    Silence,
}

/// An answer of this type.
fn answer(status: u16, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::SERVER, SERVER);
    response
}

/// JSON.
pub(super) fn json(status: u16, body: &Value) -> Response {
    answer(status, "application/json", body.to_string())
}

/// The first half of some JSON.
pub(super) fn truncated(body: &Value) -> Response {
    let text = body.to_string();
    let half = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    answer(200, "application/json", text[..half].to_owned())
}

/// A refusal.
pub(super) fn refused(refusal: &Refusal) -> Response {
    json(refusal.status, &refusal.to_json())
}

/// A status that a rule asks for.
pub(super) fn status(status: u16) -> Response {
    json(status, &json!({"error": format!("HTTP {status}, as the test wished")}))
}

/// A page of HTML.
pub(super) fn html(status: u16) -> Response {
    answer(status, "text/html; charset=utf-8", PAGE)
}

/// 302.
pub(super) fn redirect(to: &str) -> Response {
    let mut response = answer(302, "text/html; charset=utf-8", Body::empty());
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}

/// 401. The realm is that of the old reference manual; the body is guessed.
pub(super) fn unauthorized() -> Response {
    let mut response = json(401, &json!({"error": "Authorization Required"}));
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"API\""));
    response
}

/// 429 that names this wait.
pub(super) fn throttled(wait: Wait) -> Response {
    let words = match wait.body {
        Some(seconds) => format!("Throttled, wait {seconds} seconds."),
        None => "Throttled.".to_owned(),
    };
    let mut response = answer(429, "text/plain; charset=utf-8", words);
    if let Some(seconds) = wait.header {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// A part of a list, as the API pages it: `rows` is the page, `before` the number of rows in front of it, `all` of all.
pub(super) fn page(rows: &[Value], before: usize, all: usize, size: usize) -> Value {
    let first = if rows.is_empty() { 0 } else { before + 1 };
    let last = if rows.is_empty() { 0 } else { before + rows.len() };
    json!({
        "page_info": {
            "count": rows.len(), "start_index": first, "end_index": last, "last_index": all,
            "page_count": all.div_ceil(size),
        },
        "data": rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_where_it_is() {
        let rows = [json!(1), json!(2)];
        let expected =
            json!({"count": 2, "start_index": 11, "end_index": 12, "last_index": 12, "page_count": 2});
        assert_eq!(page(&rows, 10, 12, 10)["page_info"], expected);
        let nothing = json!({"count": 0, "start_index": 0, "end_index": 0, "last_index": 0, "page_count": 0});
        assert_eq!(page(&[], 0, 0, 10)["page_info"], nothing);
    }

    #[tokio::test]
    async fn half_of_it_is_no_json() {
        for whole in [json!({"id": 1}), json!({"ü": "üüü"}), json!([])] {
            let response = truncated(&whole);
            assert_eq!(
                (response.status().as_u16(), response.headers()[header::SERVER].clone()),
                (200, SERVER)
            );
            let half = axum::body::to_bytes(response.into_body(), 100).await.unwrap();
            assert!(serde_json::from_slice::<Value>(&half).is_err(), "{half:?}");
        }
    }
}
