//! What requests bring: documents that are read strictly, keys, parameters. Whatever cannot be read is a [`Problem`] that names it.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;

use crate::uploads::problem::{Kind, Problem};
use crate::web::problem::ProblemKind as _;

/// Longest idempotency key.
const LONGEST_KEY: usize = 128;

/// A document.
pub(super) struct Document<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Document<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let named =
            request.headers().get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
        let essence =
            named.map(|text| text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
        let content =
            Bytes::from_request(request, state).await.map_err(|refused| Kind::of_status(refused.status()))?;
        match essence.as_deref() {
            Some("application/json") => {}
            None if content.is_empty() => {}
            Some(_) | None => return Err(Kind::of_status(StatusCode::UNSUPPORTED_MEDIA_TYPE)),
        }
        let content = if content.is_empty() { Bytes::from_static(b"{}") } else { content };
        let read = axum::Json::<T>::from_bytes(&content);
        read.map(|json| Self(json.0)).map_err(|refused| Problem::bad_request(refused.body_text()))
    }
}

/// The key of a request that makes something.
///
/// # Errors
/// [`Problem`] 428 without one, 400 where it is none.
pub(super) fn key(headers: &HeaderMap) -> Result<String, Problem> {
    let mut values = headers.get_all("idempotency-key").iter();
    let text = match (values.next(), values.next()) {
        (None, _) => {
            return Err(Problem::new(
                Kind::PreconditionRequired,
                "Without an Idempotency-Key nobody knows whether a repeated request is meant to be another upload.",
                "Send the header with a name of your own for this file, e.g. a UUID, and the same one when you repeat it.",
            ));
        }
        (Some(value), None) => value.to_str().unwrap_or_default(),
        (Some(_), Some(_)) => return Err(Problem::bad_request("There are several Idempotency-Keys.")),
    };
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    if (1..=LONGEST_KEY).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(text.to_owned());
    }
    Err(Problem::bad_request("An Idempotency-Key has 1 to 128 visible ASCII characters."))
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
