//! The endpoint: what arrives is counted and kept, then checked, then answered as the mode says.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::answer::{self, Completion};
use super::mode::Mode;
use super::question::Question;
use super::refusal::Refusal;
use super::{Inner, MODEL, request};
use crate::google::loopback::Cut;

/// Largest question, in bytes.
const BODY_LIMIT: usize = 4 * 1024 * 1024;
/// A huge answer: so many pieces of so many blanks.
const PIECES: usize = 16 * 1024;
const PIECE: usize = 64 * 1024;
/// A page of a proxy in front of a judge.
const PAGE: &str = "<!DOCTYPE html><title>Bad gateway</title><p>Try again.";
/// What every answer says of its server.
const SERVER: &str = "devkit-scripted-judge (a stand-in, no model)";

pub(super) fn router(inner: &Arc<Inner>) -> Router {
    Router::new()
        .route("/v1/models", get(models))
        .route("/v1/chat/completions", post(asked))
        .route("/elsewhere/chat/completions", post(strayed).get(strayed))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(middleware::from_fn(signed))
        .with_state(Arc::clone(inner))
}

async fn signed(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().insert(header::SERVER, HeaderValue::from_static(SERVER));
    response
}

async fn unknown(request: Request) -> Refusal {
    let message = format!("Invalid URL ({} {})", request.method(), request.uri().path());
    Refusal::of(404, message, Some("unknown_url"))
}

async fn models(State(inner): State<Arc<Inner>>, headers: HeaderMap) -> Response {
    if let Err(refusal) = authorized(&inner, &headers) {
        return refusal.into_response();
    }
    let model = json!({"id": MODEL, "object": "model", "created": 0, "owned_by": "devkit"});
    Json(json!({"object": "list", "data": [model]})).into_response()
}

/// Where a redirect leads: a client that came here took its question, and its key, to where it was not told to.
async fn strayed(State(inner): State<Arc<Inner>>, body: String) -> Response {
    let count = {
        let mut state = inner.state();
        state.strayed += 1;
        state.strayed
    };
    let question = request::check(&body).map(|request| Question::of(&request.messages)).unwrap_or_default();
    Json(answer::completion(&Mode::Scored(100), &question, 0).document(count, 0).0).into_response()
}

fn authorized(inner: &Inner, headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(key) = &inner.key else { return Ok(()) };
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    match given.map(|given| given.strip_prefix("Bearer ")) {
        Some(Some(given)) if given == key => Ok(()),
        Some(_) => Err(Refusal::of(401, "Incorrect API key provided.", Some("invalid_api_key"))),
        None => Err(Refusal::of(401, "You didn't provide an API key.", None)),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let stated = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    stated.split(';').next().is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json"))
}

async fn asked(
    State(inner): State<Arc<Inner>>,
    Extension(cut): Extension<Cut>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let body = String::from_utf8_lossy(&body).into_owned();
    let number = {
        let mut state = inner.state();
        state.requests += 1;
        state.asked.push(body.clone());
        state.requests
    };
    inner.arrived.notify_waiters();
    if let Err(refusal) = authorized(&inner, &headers) {
        return refusal.into_response();
    }
    if !is_json(&headers) {
        return Refusal::of(400, "The Content-Type must be application/json.", None).into_response();
    }
    // A wrong request takes nothing from the script.
    let request = match request::check(&body) {
        Ok(request) => request,
        Err(refusal) => return refusal.into_response(),
    };
    let (mode, flips) = {
        let mut state = inner.state();
        let mode = state.next.pop_front().unwrap_or_else(|| state.mode.clone());
        let flips = state.flips;
        state.flips += u64::from(matches!(mode, Mode::Flips(..)));
        (mode, flips)
    };
    if let Some(refusal) = refusal(&mode) {
        return refusal.into_response();
    }
    let question = Question::of(&request.messages);
    let Completion { choices } = answer::completion(&mode, &question, flips);
    let mut choices: Vec<_> = choices.into_iter().map(|choice| choice.within(request.max_tokens)).collect();
    if let [only] = &choices[..] {
        choices = vec![only.clone(); request.n];
    }
    let prompt: usize = request.messages.iter().map(|(_, text)| answer::tokens(text)).sum();
    let (document, spent) = Completion { choices }.document(number, prompt);
    let response = sent(&mode, &document, cut).await;
    let mut state = inner.state();
    state.tokens.prompt += u64::try_from(prompt).unwrap_or(u64::MAX);
    state.tokens.completion += u64::try_from(spent).unwrap_or(u64::MAX);
    response
}

/// The refusal of a mode that refuses.
fn refusal(mode: &Mode) -> Option<Refusal> {
    let limited = || Refusal::of(429, "Rate limit reached.", Some("rate_limit_exceeded"));
    let about_messages = |words: &str, code| {
        Some(Refusal { param: Some("messages".to_owned()), ..Refusal::of(400, words, Some(code)) })
    };
    if let Mode::RetryAfter(seconds) = mode {
        return Some(Refusal { retry_after: Some(*seconds), ..limited() });
    }
    if let Mode::Status(status) = mode {
        return Some(if *status == 429 { limited() } else { Refusal::of(*status, "As scripted.", None) });
    }
    if *mode == Mode::ContextLength {
        let words =
            "This model's maximum context length is 1 token. Please reduce the length of the messages.";
        return about_messages(words, "context_length_exceeded");
    }
    if *mode == Mode::Filtered {
        return about_messages("The response was filtered due to the prompt.", "content_filter");
    }
    None
}

/// A way to send a completion, or not.
type Way = fn(&Value) -> Response;

/// A completion by the mode's way.
async fn sent(mode: &Mode, document: &Value, cut: Cut) -> Response {
    if let Mode::Slow(time) = mode {
        tokio::time::sleep(*time).await;
    }
    if *mode == Mode::Hang {
        return std::future::pending().await;
    }
    if *mode == Mode::Disconnect {
        return cut.now().await;
    }
    let ways: [(Mode, Way); 6] = [
        (Mode::Page, |_| (StatusCode::BAD_GATEWAY, Html(PAGE)).into_response()),
        (Mode::PageAsSuccess, |_| Html(PAGE).into_response()),
        (Mode::Redirect, |_| Redirect::temporary("/elsewhere/chat/completions").into_response()),
        (Mode::HalfBody, half),
        (Mode::Huge, huge),
        (Mode::WrongType, |document| document.to_string().into_response()),
    ];
    let way = ways.iter().find(|(other, _)| other == mode);
    way.map_or_else(|| Json(document).into_response(), |(_, way)| way(document))
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
