//! The metadata server of a Compute Engine VM, as far as Google's clients ask it.
//!
//! Demands `Metadata-Flavor: Google`, as the real one does to keep browsers and redirects out, and sends it back.
//! Tokens are invented here and known to IAM credentials and to the object store; nothing outlives the process.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::json;

use super::Shared;
use super::script::Step;

const FLAVOR: &str = "metadata-flavor";
/// What a key file's assertion is exchanged as.
const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

pub(super) fn router(shared: Arc<Shared>) -> Router {
    let account = "/computeMetadata/v1/instance/service-accounts/default";
    Router::new()
        .route("/", get(|| async { "computeMetadata/\n" }))
        .route(&format!("{account}/token"), get(token))
        .route(&format!("{account}/email"), get(email))
        .route(
            &format!("{account}/scopes"),
            get(|| async { "https://www.googleapis.com/auth/cloud-platform\n" }),
        )
        .route(&format!("{account}/"), get(account_summary))
        .route("/computeMetadata/v1/project/project-id", get(project))
        .route("/computeMetadata/v1/project/numeric-project-id", get(|| async { "100000000001" }))
        .route("/computeMetadata/v1/universe/universe-domain", get(|| async { "googleapis.com" }))
        .route(
            "/computeMetadata/v1/instance/zone",
            get(|| async { "projects/100000000001/zones/europe-west1-b" }),
        )
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), guard))
        // The `token_uri` of the key files, which is another service in truth: nobody sends it a flavor.
        .route("/token", post(exchange))
        .with_state(shared)
}

/// The header that must be there both ways, and the scripted mishaps.
async fn guard(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    request: Request,
    next: Next,
) -> Response {
    if headers.get(FLAVOR).is_none_or(|value| value != "Google") {
        return (StatusCode::FORBIDDEN, "Missing Metadata-Flavor:Google header.\n").into_response();
    }
    if let Step::Fail(status, _) = shared.metadata_script.step().await {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        return (status, "scripted failure of the metadata server\n").into_response();
    }
    let mut response = next.run(request).await;
    response.headers_mut().insert(FLAVOR, HeaderValue::from_static("Google"));
    response
}

async fn token(State(shared): State<Arc<Shared>>) -> Response {
    shared.token_calls.fetch_add(1, Ordering::Relaxed);
    let (token, lifetime) = shared.accounts.issue_token(&shared.accounts.first().email);
    let body = json!({"access_token": token, "expires_in": lifetime.as_secs(), "token_type": "Bearer"});
    ([(header::CACHE_CONTROL, "no-store")], axum::Json(body)).into_response()
}

/// An assertion that its account signed, for a token.
async fn exchange(State(shared): State<Arc<Shared>>, form: String) -> Response {
    let field = |name: &str| {
        let mut fields = url::form_urlencoded::parse(form.as_bytes());
        fields.find(|(known, _)| known == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
    };
    let account = shared.accounts.asserted(&field("assertion"));
    let Some(account) = account.filter(|_| field("grant_type") == GRANT) else {
        let body = json!({"error": "invalid_grant", "error_description": "Invalid JWT Signature."});
        return (StatusCode::BAD_REQUEST, axum::Json(body)).into_response();
    };
    let (token, lifetime) = shared.accounts.issue_token(&account);
    axum::Json(json!({"access_token": token, "expires_in": lifetime.as_secs(), "token_type": "Bearer"}))
        .into_response()
}

async fn email(State(shared): State<Arc<Shared>>) -> String {
    shared.accounts.first().email.clone()
}

async fn project(State(shared): State<Arc<Shared>>) -> String {
    shared.accounts.first().project.clone()
}

async fn account_summary(State(shared): State<Arc<Shared>>) -> axum::Json<serde_json::Value> {
    axum::Json(json!({
        "aliases": ["default"],
        "email": shared.accounts.first().email,
        "scopes": ["https://www.googleapis.com/auth/cloud-platform"],
    }))
}
