//! What a handler takes from a request: axum's own extractors, which refuse with a surface's [`Problem`].
//!
//! A refusal names what cannot be read by axum's words, which quote no more of the request than a field's name.

use std::fmt;
use std::marker::PhantomData;

use axum::http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};

use super::problem::{Problem, ProblemKind};

/// Declares a surface's extractors, each like axum's of the same name, with the rejection that it refuses with there:
/// `extractors! { Kind; parts { Path PathRejection; } bodies { Json JsonRejection; } }`. Types of the surface's own, so that a
/// handler names them without its kind of problems.
macro_rules! extractors {
    (
        $kind:ty;
        parts { $($(#[$of_part:meta])* $part:ident $part_rejection:ident;)* }
        bodies { $($(#[$of_body:meta])* $body:ident $body_rejection:ident;)* }
    ) => {
        $(
            $(#[$of_part])*
            #[derive(Debug, Clone, Copy)]
            pub struct $part<T>(pub T);

            impl<T, S> ::axum::extract::FromRequestParts<S> for $part<T>
            where
                T: ::serde::de::DeserializeOwned + Send,
                S: Send + Sync,
            {
                type Rejection = $crate::web::problem::Problem<$kind>;

                async fn from_request_parts(
                    parts: &mut ::axum::http::request::Parts,
                    state: &S,
                ) -> Result<Self, Self::Rejection> {
                    let taken = ::axum::extract::$part::<T>::from_request_parts(parts, state).await;
                    taken.map(|taken| Self(taken.0)).map_err(|refused: $part_rejection| {
                        $crate::web::input::refused(refused.status(), &refused.body_text())
                    })
                }
            }
        )*
        $(
            $(#[$of_body])*
            #[derive(Debug, Clone, Copy)]
            pub struct $body<T>(pub T);

            impl<T, S> ::axum::extract::FromRequest<S> for $body<T>
            where
                T: ::serde::de::DeserializeOwned,
                S: Send + Sync,
            {
                type Rejection = $crate::web::problem::Problem<$kind>;

                async fn from_request(
                    request: ::axum::extract::Request,
                    state: &S,
                ) -> Result<Self, Self::Rejection> {
                    let taken = ::axum::extract::$body::<T>::from_request(request, state).await;
                    taken.map(|taken| Self(taken.0)).map_err(|refused: $body_rejection| {
                        $crate::web::input::refused(refused.status(), &refused.body_text())
                    })
                }
            }
        )*
    };
}

pub(crate) use extractors;

/// The problem that axum's refusal is. Content that is not as a field must be counts as one that cannot be read.
#[must_use]
pub fn refused<Kind: ProblemKind>(status: StatusCode, said: &str) -> Problem<Kind> {
    if [StatusCode::BAD_REQUEST, StatusCode::UNPROCESSABLE_ENTITY].contains(&status) {
        return Kind::unreadable(said.to_owned().into());
    }
    Kind::of_status(status)
}

/// The document that this content is.
///
/// # Errors
/// [`Problem`] 400.
pub fn read<Kind: ProblemKind, T: DeserializeOwned>(content: &[u8]) -> Result<T, Problem<Kind>> {
    axum::Json::<T>::from_bytes(content)
        .map(|json| json.0)
        .map_err(|refused| self::refused(refused.status(), &refused.body_text()))
}

/// The type of a request's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentType {
    /// A document.
    Json,
    /// A form of a page.
    Form,
    /// There is none.
    Nothing,
}

/// The type of a request's content, which is empty or not.
///
/// # Errors
/// [`Problem`] 415.
pub fn content_type<Kind: ProblemKind>(
    headers: &HeaderMap,
    is_empty: bool,
) -> Result<ContentType, Problem<Kind>> {
    let named = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
    let essence = named.map(|text| text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    match essence.as_deref() {
        Some("application/json") => Ok(ContentType::Json),
        Some("application/x-www-form-urlencoded") => Ok(ContentType::Form),
        None if is_empty => Ok(ContentType::Nothing),
        Some(_) | None => Err(Kind::of_status(StatusCode::UNSUPPORTED_MEDIA_TYPE)),
    }
}

/// An object. A list of values would be taken for one, each for the member at its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object<T>(pub T);

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
