//! IAM credentials: `signBlob`, with a service account's real key, for a caller with a token of that account.
//!
//! Refusals have Google's error shape. Signatures are real, so that the object store can verify them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::json;

use super::Shared;
use super::accounts::Bearer;
use super::script::Step;

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new().route("/v1/projects/-/serviceAccounts/{verb}", post(sign_blob)).with_state(shared)
}

#[derive(Deserialize)]
struct SignBlob {
    payload: String,
}

async fn sign_blob(
    State(shared): State<Arc<Shared>>,
    Path(verb): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    shared.sign_calls.fetch_add(1, Ordering::Relaxed);
    if let Step::Fail(status, retry_after) = shared.iam_script.step().await {
        return refusal(status, retry_after);
    }
    let Some(account) = verb.strip_suffix(":signBlob") else {
        return refusal(404, None);
    };
    let token = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "));
    let Some(Bearer::Account(caller)) = token.map(|token| shared.accounts.bearer(token)) else {
        return refusal(401, None);
    };
    let key = shared.accounts.key(account).filter(|key| key.email == caller);
    let Some(key) = key else {
        // Google does not tell a stranger whether the account exists.
        return refusal(403, None);
    };
    let Ok(request) = serde_json::from_slice::<SignBlob>(&body) else {
        return refusal(400, None);
    };
    let Ok(payload) = STANDARD.decode(request.payload) else {
        return refusal(400, None);
    };
    match key.sign(&payload) {
        Ok(signature) => {
            axum::Json(json!({"keyId": key.key_id, "signedBlob": STANDARD.encode(signature)})).into_response()
        }
        Err(_) => refusal(500, None),
    }
}

/// A refusal in Google's shape.
fn refusal(status: u16, retry_after: Option<u64>) -> Response {
    let (name, reason, message) = match status {
        400 => ("INVALID_ARGUMENT", "INVALID_ARGUMENT", "Request contains an invalid argument."),
        401 => ("UNAUTHENTICATED", "ACCESS_TOKEN_EXPIRED", "Request had invalid authentication credentials."),
        403 => (
            "PERMISSION_DENIED",
            "IAM_PERMISSION_DENIED",
            "Permission 'iam.serviceAccounts.signBlob' denied on resource (or it may not exist).",
        ),
        404 => ("NOT_FOUND", "NOT_FOUND", "Requested entity was not found."),
        429 => ("RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED", "Quota exceeded."),
        503 => ("UNAVAILABLE", "UNAVAILABLE", "The service is currently unavailable."),
        _ => ("INTERNAL", "INTERNAL", "Internal error encountered."),
    };
    let body = json!({"error": {
        "code": status, "message": message, "status": name,
        "details": [{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason, "domain": "iam.googleapis.com",
        }],
    }});
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, axum::Json(body)).into_response();
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}
