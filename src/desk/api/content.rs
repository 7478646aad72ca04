//! The content of a decision: a JSON object whose members are all known, and its idempotency key.

use std::fmt;
use std::marker::PhantomData;

use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};

use crate::desk::access::credential::KeyedDigest;
use crate::desk::decide::Repeat;
use crate::desk::idempotency::Key;
use crate::desk::input::Command;
use crate::desk::problem::Problem;

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

/// An object. A list of values would be taken for one, each for the member at its place.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members(PhantomData)).map(Self)
    }
}

struct Members<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(members))
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
