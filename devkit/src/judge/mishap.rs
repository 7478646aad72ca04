//! What befalls an answer on its way, whatever it says: a server in trouble, a proxy's page, a connection that ends.

use std::io;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use futures::{StreamExt as _, stream};
use serde_json::Value;

use super::refusal::Refusal;
use crate::google::loopback::Cut;

/// A huge answer: so many pieces of so many blanks.
const PIECES: usize = 16 * 1024;
const PIECE: usize = 64 * 1024;
/// A page of a proxy in front of a server.
const PAGE: &str = "<!DOCTYPE html><title>Bad gateway</title><p>Try again.";

/// A way in which an answer does not arrive, or not as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    /// A good answer, after this time.
    Slow(Duration),
    /// Nothing, for ever.
    Hang,
    /// 429, and `Retry-After` in seconds.
    RetryAfter(u64),
    /// This status, with an error in OpenAI's shape.
    Status(u16),
    /// 502, and a page.
    Page,
    /// 200, and a page.
    PageAsSuccess,
    /// 400: longer than the model's window.
    ContextLength,
    /// 400: a filter before the model.
    Filtered,
    /// Half of a good answer; then the connection ends.
    HalfBody,
    /// The connection ends without a word.
    Disconnect,
    /// 307 to another path of this server, where a good answer is.
    Redirect,
    /// A gibibyte of blanks before a good answer.
    Huge,
    /// A good answer that says it is plain text.
    WrongType,
}

impl Mishap {
    /// The refusal of one that refuses.
    pub(crate) fn refusal(self) -> Option<Refusal> {
        let limited = || Refusal::of(429, "Rate limit reached.", Some("rate_limit_exceeded"));
        let about_messages = |words: &str, code| {
            Some(Refusal { param: Some("messages".to_owned()), ..Refusal::of(400, words, Some(code)) })
        };
        match self {
            Self::RetryAfter(seconds) => Some(Refusal { retry_after: Some(seconds), ..limited() }),
            Self::Status(429) => Some(limited()),
            Self::Status(status) => Some(Refusal::of(status, "As scripted.", None)),
            Self::ContextLength => about_messages(
                "This model's maximum context length is 1 token. Please reduce the length of the messages.",
                "context_length_exceeded",
            ),
            Self::Filtered => {
                about_messages("The response was filtered due to the prompt.", "content_filter")
            }
            Self::Slow(_)
            | Self::Hang
            | Self::Page
            | Self::PageAsSuccess
            | Self::HalfBody
            | Self::Disconnect
            | Self::Redirect
            | Self::Huge
            | Self::WrongType => None,
        }
    }

    /// A good answer as it arrives, or not; a redirect leads to `elsewhere`.
    pub(crate) async fn sent(self, document: &Value, cut: Cut, elsewhere: &str) -> Response {
        match self {
            Self::Slow(time) => {
                tokio::time::sleep(time).await;
                Json(document).into_response()
            }
            Self::Hang => std::future::pending().await,
            Self::Disconnect => cut.now().await,
            Self::Page => (StatusCode::BAD_GATEWAY, Html(PAGE)).into_response(),
            Self::PageAsSuccess => Html(PAGE).into_response(),
            Self::Redirect => Redirect::temporary(elsewhere).into_response(),
            Self::HalfBody => half(document),
            Self::Huge => huge(document),
            Self::WrongType => document.to_string().into_response(),
            // These were refused before.
            Self::RetryAfter(_) | Self::Status(_) | Self::ContextLength | Self::Filtered => {
                Json(document).into_response()
            }
        }
    }
}

fn half(document: &Value) -> Response {
    let whole = document.to_string();
    let half = Bytes::copy_from_slice(&whole.as_bytes()[..whole.len() / 2]);
    let end = Err(io::Error::other("as scripted"));
    of_json(Body::from_stream(stream::iter([Ok(half), end])), Some(whole.len()))
}

fn huge(document: &Value) -> Response {
    let blanks = stream::repeat(Bytes::from_static(&[b' '; PIECE])).take(PIECES);
    let answer = stream::iter([Bytes::from(document.to_string())]);
    of_json(Body::from_stream(blanks.chain(answer).map(io::Result::Ok)), None)
}

fn of_json(body: Body, length: Option<usize>) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(length) = length {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    response
}
