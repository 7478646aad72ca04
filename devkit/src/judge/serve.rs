//! The endpoint: what arrives is counted and kept, then checked, then answered as the mode says.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::HeaderMap;
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde_json::json;

use super::completion::tokens;
use super::door::{authorized, is_json, signed, unknown};
use super::mishap::Mishap;
use super::mode::Mode;
use super::question::Question;
use super::refusal::Refusal;
use super::{Inner, MODEL, answer, request};
use crate::google::loopback::Cut;

/// Largest question, in bytes.
const BODY_LIMIT: usize = 4 * 1024 * 1024;
/// Where a redirect leads.
const ELSEWHERE: &str = "/elsewhere/chat/completions";

pub(super) fn router(inner: &Arc<Inner>) -> Router {
    Router::new()
        .route("/v1/models", get(models))
        .route("/v1/chat/completions", post(asked))
        .route(ELSEWHERE, post(strayed).get(strayed))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(middleware::from_fn(signed))
        .with_state(Arc::clone(inner))
}

async fn models(State(inner): State<Arc<Inner>>, headers: HeaderMap) -> Response {
    if let Err(refusal) = authorized(inner.key.as_deref(), &headers) {
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
    let question =
        request::check(&body, &[MODEL]).map(|request| Question::of(&request.messages)).unwrap_or_default();
    Json(answer::completion(&Mode::Scored(100), &question, 0).document(MODEL, count, 0).0).into_response()
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
    if let Err(refusal) = authorized(inner.key.as_deref(), &headers) {
        return refusal.into_response();
    }
    if !is_json(&headers) {
        return Refusal::of(400, "The Content-Type must be application/json.", None).into_response();
    }
    // A wrong request takes nothing from the script.
    let request = match request::check(&body, &[MODEL]) {
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
    let mishap = mode.mishap();
    if let Some(refusal) = mishap.and_then(Mishap::refusal) {
        return refusal.into_response();
    }
    let question = Question::of(&request.messages);
    let completion = answer::completion(&mode, &question, flips).asked_for(request.n, request.max_tokens);
    let prompt: usize = request.messages.iter().map(|(_, text)| tokens(text)).sum();
    let (document, spent) = completion.document(MODEL, number, prompt);
    let response = match mishap {
        Some(mishap) => mishap.sent(&document, cut, ELSEWHERE).await,
        None => Json(document).into_response(),
    };
    let mut state = inner.state();
    state.tokens.prompt += u64::try_from(prompt).unwrap_or(u64::MAX);
    state.tokens.completion += u64::try_from(spent).unwrap_or(u64::MAX);
    response
}
