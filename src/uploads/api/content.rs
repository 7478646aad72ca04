//! What requests bring: documents that are read strictly, keys, parameters. Whatever cannot be read is a [`Problem`] that names it.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;

use crate::uploads::problem::{Kind, Problem};
use crate::web::idempotency::Key;
use crate::web::input::{ContentType, content_type, read};
use crate::web::problem::ProblemKind as _;

/// A document.
pub(super) struct Document<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Document<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let headers = request.headers().clone();
        let content =
            Bytes::from_request(request, state).await.map_err(|refused| Kind::of_status(refused.status()))?;
        match content_type::<Kind>(&headers, content.is_empty())? {
            ContentType::Json => read::<Kind, T>(&content).map(Self),
            ContentType::Nothing => read::<Kind, T>(b"{}").map(Self),
            ContentType::Form => Err(Kind::of_status(StatusCode::UNSUPPORTED_MEDIA_TYPE)),
        }
    }
}

/// The key of a request that makes something.
///
/// # Errors
/// [`Problem`] 428 without one, 400 where it is none.
pub(super) fn key(headers: &HeaderMap) -> Result<Key, Problem> {
    Key::of(headers)?.ok_or_else(|| {
        Problem::new(
            Kind::PreconditionRequired,
            "Without an Idempotency-Key nobody knows whether a repeated request is meant to be another upload.",
            "Send the header with a name of your own for this file, e.g. a UUID, and the same one when you repeat it.",
        )
    })
}

/// Refuses parameters where there are none: what is misspelt would otherwise do nothing, silently.
///
/// # Errors
/// [`Problem`] 400.
pub(super) fn no_query(query: Option<&str>) -> Result<(), Problem> {
    match query.filter(|query| !query.is_empty()) {
        None => Ok(()),
        Some(_) => Err(Problem::bad_request("There are no parameters here.")),
    }
}
