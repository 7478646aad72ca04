//! What a handler takes from a request: axum's own extractors, which refuse with a [`Problem`], and [`Command`], a change.
//!
//! A refusal names what cannot be read by axum's words, which quote no more of the request than a field's name.

use axum::body::{Body, Bytes};
use axum::extract::rejection::{BytesRejection, FormRejection, JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;

use super::access::credential::{DeskKey, KeyedDigest};
use super::idempotency::{self, Key};
use super::problem::Problem;

/// Field of a form that holds the idempotency key.
const KEY_FIELD: &str = "idempotency_key";

macro_rules! of_parts {
    ($($(#[$doc:meta])* $name:ident $rejection:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name<T>(pub T);

        impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for $name<T> {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
                let taken = axum::extract::$name::<T>::from_request_parts(parts, state).await;
                taken.map(|taken| Self(taken.0)).map_err(|refused: $rejection| told(refused.status(), &refused.body_text()))
            }
        }
    )*};
}

of_parts! {
    /// Parameters behind the question mark.
    Query QueryRejection;
    /// Parameters of the path.
    Path PathRejection;
}

macro_rules! of_bodies {
    ($($(#[$doc:meta])* $name:ident $rejection:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name<T>(pub T);

        impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for $name<T> {
            type Rejection = Problem;

            async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
                let taken = axum::extract::$name::<T>::from_request(request, state).await;
                taken.map(|taken| Self(taken.0)).map_err(|refused: $rejection| told(refused.status(), &refused.body_text()))
            }
        }
    )*};
}

of_bodies! {
    /// A document.
    Json JsonRejection;
    /// A form of a page.
    Form FormRejection;
}

/// A change: its content, a document or a form, and what makes a second one of the same a repetition. An empty body is an empty
/// document.
#[derive(Debug)]
pub struct Command<T> {
    /// The content.
    pub body: T,
    /// The key, by the header or by the form's field `idempotency_key`.
    pub key: Option<Key>,
    /// The digest of method, path and content.
    pub request: KeyedDigest,
    /// Whether a page's form sent it, so that a page is the answer.
    pub is_form: bool,
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Command<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let secret = request.extensions().get::<DeskKey>().cloned().ok_or_else(Problem::internal)?;
        let (parts, body) = request.into_parts();
        let content = Bytes::from_request(Request::from_parts(parts.clone(), body), state)
            .await
            .map_err(|refused: BytesRejection| told(refused.status(), &refused.body_text()))?;
        let path = parts.uri.path_and_query().map_or_else(|| parts.uri.path(), |path| path.as_str());
        let request = idempotency::request(&secret, &parts.method, path, &content);
        let mut key = Key::of(&parts.headers)?;
        match content_type(&parts.headers, content.is_empty())? {
            ContentType::Nothing => Ok(Self { body: read(b"{}")?, key, request, is_form: false }),
            ContentType::Json => Ok(Self { body: read(&content)?, key, request, is_form: false }),
            ContentType::Form => {
                let field = url::form_urlencoded::parse(&content).find(|(name, _)| name == KEY_FIELD);
                if let (None, Some((_, text))) = (&key, field) {
                    key = Some(Key::new(&text)?);
                }
                let again = Request::from_parts(parts, Body::from(content));
                Ok(Self { body: Form::<T>::from_request(again, state).await?.0, key, request, is_form: true })
            }
        }
    }
}

enum ContentType {
    Json,
    Form,
    Nothing,
}

fn content_type(headers: &HeaderMap, is_empty: bool) -> Result<ContentType, Problem> {
    let named = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
    let essence = named.map(|text| text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    match essence.as_deref() {
        Some("application/json") => Ok(ContentType::Json),
        Some("application/x-www-form-urlencoded") => Ok(ContentType::Form),
        None if is_empty => Ok(ContentType::Nothing),
        Some(_) | None => Err(Problem::of_status(StatusCode::UNSUPPORTED_MEDIA_TYPE)),
    }
}

fn read<T: DeserializeOwned>(content: &[u8]) -> Result<T, Problem> {
    axum::Json::<T>::from_bytes(content)
        .map(|json| json.0)
        .map_err(|refused| told(refused.status(), &refused.body_text()))
}

/// The problem that axum's refusal is. Content that is not as a field must be counts as one that cannot be read.
fn told(status: StatusCode, said: &str) -> Problem {
    if [StatusCode::BAD_REQUEST, StatusCode::UNPROCESSABLE_ENTITY].contains(&status) {
        return Problem::bad_request(said.to_owned());
    }
    Problem::of_status(status)
}
