//! What a handler takes from a request: axum's own extractors, which refuse with a [`Problem`], and [`Command`], a change.
//!
//! A refusal names what cannot be read by axum's words, which quote no more of the request than a field's name.

use axum::body::{Body, Bytes};
use axum::extract::rejection::{BytesRejection, FormRejection, JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;

use super::access::credential::{DeskKey, KeyedDigest};
use super::idempotency;
use super::problem::{Kind, Problem};
use crate::web::idempotency::Key;
use crate::web::input::{self, ContentType, content_type, extractors, read};

/// Field of a form that holds the idempotency key.
const KEY_FIELD: &str = "idempotency_key";

extractors! {
    Kind;
    parts {
        /// Parameters behind the question mark.
        Query QueryRejection;
        /// Parameters of the path.
        Path PathRejection;
    }
    bodies {
        /// A document.
        Json JsonRejection;
        /// A form of a page.
        Form FormRejection;
    }
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
            .map_err(|refused: BytesRejection| input::refused(refused.status(), &refused.body_text()))?;
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
