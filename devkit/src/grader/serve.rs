//! The endpoints: what arrives is counted, then checked, then answered as the mode says.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde_json::{Value, json};

use super::chat::{self, Question};
use super::mode::{Grading, Hearing};
use super::{Inner, Kind, MODELS, SHAPE, TRANSCRIBER, by_content, form, heard};
use crate::google::loopback::Cut;
use crate::judge::completion::{Completion, tokens};
use crate::judge::door::{authorized, is_json, signed, unknown};
use crate::judge::refusal::Refusal;
use crate::judge::{Mishap, request};

/// Largest body, in bytes: a recording that is too large arrives, and is refused.
const BODY_LIMIT: usize = 2 * form::LARGEST;
/// Where a redirect leads.
const ELSEWHERE: &str = "/elsewhere";

pub(super) fn router(inner: &Arc<Inner>) -> Router {
    Router::new()
        .route("/v1/models", get(models))
        .route("/v1/chat/completions", post(chat))
        .route("/v1/audio/transcriptions", post(transcription))
        .route("/recordings/{name}", get(recording))
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
    let model = |id: &&str| json!({"id": id, "object": "model", "created": 0, "owned_by": "devkit"});
    let data: Vec<Value> = MODELS.iter().chain(&[TRANSCRIBER]).map(model).collect();
    Json(json!({"object": "list", "data": data})).into_response()
}

/// Where a redirect leads: a client that came here took its work, and its key, to where it was not told to.
async fn strayed(State(inner): State<Arc<Inner>>) -> StatusCode {
    inner.state().strayed += 1;
    StatusCode::NO_CONTENT
}

/// A recording goes to whoever has its address, and a key has no business here.
async fn recording(
    State(inner): State<Arc<Inner>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    inner.count(Kind::Recording);
    if headers.contains_key(header::AUTHORIZATION) {
        return StatusCode::BAD_REQUEST.into_response();
    }
    let kept = inner.state().recordings.get(&name).cloned();
    kept.map_or_else(|| StatusCode::NOT_FOUND.into_response(), |recording| recording.sent())
}

async fn chat(
    State(inner): State<Arc<Inner>>,
    Extension(cut): Extension<Cut>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let body = String::from_utf8_lossy(&body).into_owned();
    let request = request::check(&body, &MODELS);
    let is_grading = request.as_ref().is_ok_and(|request| request.shape.as_deref() == Some(SHAPE));
    let number = inner.count(if is_grading { Kind::Grading } else { Kind::Chat });
    inner.state().asked.push(body);
    if let Err(refusal) = authorized(inner.key.as_deref(), &headers) {
        return refusal.into_response();
    }
    if !is_json(&headers) {
        return Refusal::of(400, "The Content-Type must be application/json.", None).into_response();
    }
    // A wrong request takes nothing from the script.
    let request = match request {
        Ok(request) => request,
        Err(refusal) => return refusal.into_response(),
    };
    let question = Question::of(&request.messages).filter(|_| is_grading);
    let (completion, mishap) = answered(&inner, question.as_ref());
    if let Some(refusal) = mishap.and_then(Mishap::refusal) {
        return refusal.into_response();
    }
    if let Some(time) = question.as_ref().and_then(|question| by_content::slow(&question.work)) {
        tokio::time::sleep(time).await;
    }
    let prompt: usize = request.messages.iter().map(|(_, text)| tokens(text)).sum();
    let completion = completion.asked_for(request.n, request.max_tokens);
    let (document, spent) = completion.document(&request.model, number, prompt);
    let response = sent(mishap, &document, cut).await;
    let mut state = inner.state();
    state.tokens.prompt += u64::try_from(prompt).unwrap_or(u64::MAX);
    state.tokens.completion += u64::try_from(spent).unwrap_or(u64::MAX);
    response
}

/// What the script says about a question, and what befalls that.
fn answered(inner: &Inner, question: Option<&Question>) -> (Completion, Option<Mishap>) {
    let Some(question) = question else { return (chat::other(), None) };
    let mut state = inner.state();
    let grading = state.gradings.pop_front().unwrap_or_else(|| state.grading.clone());
    let samples = state.samples.entry(question.work.clone()).or_default();
    let nth = *samples;
    *samples += 1;
    let mishap = if let Grading::Mishap(mishap) = grading { Some(mishap) } else { None };
    (chat::completion(&grading, question, nth), mishap)
}

async fn transcription(
    State(inner): State<Arc<Inner>>,
    Extension(cut): Extension<Cut>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    inner.count(Kind::Transcription);
    if let Err(refusal) = authorized(inner.key.as_deref(), &headers) {
        return refusal.into_response();
    }
    let form = match form::check(&headers, body).await {
        Ok(form) => form,
        Err(refusal) => return refusal.into_response(),
    };
    let hearing = {
        let mut state = inner.state();
        state.hearings.pop_front().unwrap_or_else(|| state.hearing.clone())
    };
    let mishap = if let Hearing::Mishap(mishap) = hearing { Some(mishap) } else { None };
    if let Some(refusal) = mishap.and_then(Mishap::refusal) {
        return refusal.into_response();
    }
    if let Hearing::Body(body) = hearing {
        return ([(header::CONTENT_TYPE, "application/json")], body).into_response();
    }
    let text = heard::text(&form.file);
    let mut document = heard::verbose(&hearing, &text);
    if !form.is_verbose {
        document = json!({"text": text});
    } else if let Some(document) = document.as_object_mut() {
        document.retain(|key, _| match key.as_str() {
            "words" => form.has_words(),
            "segments" => form.has_segments(),
            _ => true,
        });
    }
    sent(mishap, &document, cut).await
}

async fn sent(mishap: Option<Mishap>, document: &Value, cut: Cut) -> Response {
    match mishap {
        Some(mishap) => mishap.sent(document, cut, ELSEWHERE).await,
        None => Json(document).into_response(),
    }
}
