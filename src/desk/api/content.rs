//! The content of a decision: a JSON object whose members are all known, and its idempotency key.

use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use serde::de::DeserializeOwned;

use crate::desk::access::credential::KeyedDigest;
use crate::desk::decide::Repeat;
use crate::desk::input::Command;
use crate::desk::problem::Problem;
use crate::web::idempotency::Key;
use crate::web::input::Object;

/// What a decision says. An empty body is an empty object.
pub(super) struct Content<T> {
    /// The members.
    pub(super) body: T,
    /// The client's name for the request.
    pub(super) named: Option<Named>,
}

/// A client's name for a request, and the request's digest.
pub(super) struct Named {
    key: Key,
    request: KeyedDigest,
}

impl Named {
    /// What makes a second request of the same a repetition.
    pub(super) fn repeat(&self) -> Repeat<'_> {
        Repeat { key: &self.key, request: &self.request }
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Content<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let Command { body, key, request, is_form } =
            Command::<Object<T>>::from_request(request, state).await?;
        if is_form {
            return Err(Problem::of_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        }
        Ok(Self { body: body.0, named: key.map(|key| Named { key, request }) })
    }
}

/// The text of a member whose words are bare: a name, a key.
///
/// # Errors
/// [`Problem`] 422: it has characters that no such word has.
pub(super) fn word(field: &str, text: Option<String>) -> Result<Option<String>, Problem> {
    match text {
        Some(text) if text.chars().any(char::is_control) => {
            Err(Problem::guard(field, "It has characters that cannot be in it."))
        }
        text => Ok(text),
    }
}
