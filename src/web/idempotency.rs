//! A request that is sent twice is carried out once (draft-ietf-httpapi-idempotency-key-header): the key and the two ends. What
//! makes two requests the same, and where answers are kept, is each surface's own. Pure.
//!
//! In the command's own transaction, with a store's `once` and `keep`:
//!
//! ```ignore
//! match once(&tx, user, &key, &request).await? {
//!     Once::Kept(kept) => return Ok(kept.into_response()),
//!     Once::Mismatch => return Err(Problem::idempotency_mismatch()),
//!     Once::Fresh => {}
//! }
//! // … the command …
//! keep(&tx, user, &key, &request, &kept).await?;
//! ```

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::problem::{Problem, ProblemKind};

/// The header; a form has a field `idempotency_key`.
pub const HEADER: &str = "idempotency-key";
/// The header, as documents write it.
pub const NAME: &str = "Idempotency-Key";
/// Longest key; the database has the same rule.
const LONGEST: usize = 128;

/// Why a text, or what a request has in the place of one, is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoKey {
    /// It is empty, too long, or has characters that cannot be seen.
    Unreadable,
    /// There are several.
    Several,
}

impl<Kind: ProblemKind> From<NoKey> for Problem<Kind> {
    fn from(why: NoKey) -> Self {
        Kind::unreadable(match why {
            NoKey::Unreadable => "An Idempotency-Key has 1 to 128 visible ASCII characters.".into(),
            NoKey::Several => "There are several Idempotency-Keys.".into(),
        })
    }
}

/// A client's name for one request: 1 to 128 visible ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// The key of this text; quotes around it, as the draft has them, are not part of it.
    ///
    /// # Errors
    /// [`NoKey`]: a [`Problem`] by `?`.
    pub fn new(text: &str) -> Result<Self, NoKey> {
        let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
        if (1..=LONGEST).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) {
            return Ok(Self(text.to_owned()));
        }
        Err(NoKey::Unreadable)
    }

    /// The key of a request's header, if it has one.
    ///
    /// # Errors
    /// [`NoKey`]: it is no key, or there are several.
    pub fn of(headers: &HeaderMap) -> Result<Option<Self>, NoKey> {
        let mut values = headers.get_all(HEADER).iter();
        match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(value), None) => Self::new(value.to_str().unwrap_or_default()).map(Some),
            (Some(_), Some(_)) => Err(NoKey::Several),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// An answer that is given again.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// The status.
    pub status: u16,
    /// The document.
    pub response: Value,
}

impl IntoResponse for Kept {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(self.response)).into_response()
    }
}

/// Whether a request was answered before.
#[derive(Debug, Clone, PartialEq)]
pub enum Once {
    /// It was, with this.
    Kept(Kept),
    /// The key was used for another request.
    Mismatch,
    /// It was not. Carry it out, and keep the answer.
    Fresh,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_short_and_visible() {
        let longest = "k".repeat(128);
        for good in ["k", "8e03978e-40d5-43dd-bc93-6894a57f9324", &longest] {
            assert_eq!(Key::new(good).expect(good).as_str(), good);
        }
        assert_eq!(Key::new("\"quoted\"").expect("quoted").as_str(), "quoted");
        let longer = "k".repeat(129);
        for bad in ["", "\"\"", "a b", "a\n", "\u{e4}", &longer] {
            assert!(Key::new(bad).is_err(), "{bad:?}");
        }
        let mut headers = HeaderMap::new();
        assert_eq!(Key::of(&headers), Ok(None));
        headers.append(HEADER, "a".parse().expect("a value"));
        assert_eq!(Key::of(&headers).expect("one").expect("there").as_str(), "a");
        headers.append(HEADER, "b".parse().expect("a value"));
        assert!(Key::of(&headers).is_err(), "which of them?");
    }
}
