//! Refusals and failures as documents: `application/problem+json` (RFC 9457).
//!
//! A surface brings the closed set of its kinds, each with its status and its title; whatever is said of a single problem, a
//! surface's own constructors say. Nothing of a database's or a library's own words belongs into one: they may quote rows. Pure.

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use crate::kernel::Word;

/// The `type` of a problem is this and its kind.
pub const TYPE_PREFIX: &str = "urn:maple-router:problem:";
/// Content type of a problem.
pub const CONTENT_TYPE: &str = "application/problem+json";
/// Names that RFC 9457 and this document have taken.
pub const TAKEN: [&str; 5] = ["type", "title", "status", "detail", "remedy"];

/// The kind of a surface's problems: the end of their `type`.
pub trait ProblemKind: Word {
    /// The HTTP status.
    fn status(self) -> StatusCode;

    /// The same sentence for every problem of the kind.
    fn title(self) -> &'static str;

    /// The `WWW-Authenticate` of its answers, where a proof would help.
    fn challenge(self) -> Option<&'static str> {
        None
    }

    /// The problem that a bare status is, as libraries answer: 404, 405, 413, 415, 500 and 503 among them.
    fn of_status(status: StatusCode) -> Problem<Self>;

    /// The problem of a request whose part cannot be read; `what` names it, and why.
    fn unreadable(what: Cow<'static, str>) -> Problem<Self>;
}

/// A problem: what a handler returns instead of its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem<Kind> {
    kind: Kind,
    detail: Cow<'static, str>,
    remedy: Cow<'static, str>,
    /// Extension members; never one of RFC 9457's own.
    members: Map<String, Value>,
    retry_after: Option<u64>,
}

impl<Kind: ProblemKind> Problem<Kind> {
    /// A problem with what happened, to what, and what to do next; both are shown as they are.
    #[must_use]
    pub fn new(
        kind: Kind,
        detail: impl Into<Cow<'static, str>>,
        remedy: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { kind, detail: detail.into(), remedy: remedy.into(), members: Map::new(), retry_after: None }
    }

    /// The same problem with an extension member.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        debug_assert!(!TAKEN.contains(&name), "{name}");
        self.members.insert(name.to_owned(), value.into());
        self
    }

    /// The same problem, to be tried again after so many seconds (`Retry-After`).
    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds.max(1)), ..self }
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What happened, to what.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// What to do next.
    #[must_use]
    pub fn remedy(&self) -> &str {
        &self.remedy
    }

    /// An extension member.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Value> {
        self.members.get(name)
    }

    /// The document.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut document = json!({
            "type": format!("{TYPE_PREFIX}{}", self.kind),
            "title": self.kind.title(),
            "status": self.kind.status().as_u16(),
            "detail": self.detail,
            "remedy": self.remedy,
        });
        if let Value::Object(fields) = &mut document {
            fields.extend(self.members.clone());
        }
        document
    }

    /// The answer with this content, and the problem itself among its extensions, for whoever counts it on its way out.
    #[must_use]
    pub fn answer(&self, content_type: &'static str, content: String) -> Response {
        let mut response = Response::new(Body::from(content));
        let status = self.kind.status();
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::PAYLOAD_TOO_LARGE {
            // The rest of the body stays unread, so that nobody should send another request behind it.
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(challenge) = self.kind.challenge() {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response.extensions_mut().insert(self.clone());
        response
    }
}

impl<Kind: ProblemKind> IntoResponse for Problem<Kind> {
    fn into_response(self) -> Response {
        self.answer(CONTENT_TYPE, self.json().to_string())
    }
}

/// The better answer, with what the first one said of methods, time and proofs.
#[must_use]
pub fn instead(first: &Response, mut better: Response) -> Response {
    for name in [header::ALLOW, header::RETRY_AFTER, header::WWW_AUTHENTICATE] {
        if let Some(value) = first.headers().get(&name) {
            better.headers_mut().insert(name, value.clone());
        }
    }
    better
}

#[cfg(test)]
mod tests {
    #![expect(unreachable_pub, reason = "a closed set is declared for whoever may see it")]

    use super::*;
    use crate::kernel::words;
    use crate::web::idempotency::NoKey;
    use crate::web::input::{ContentType, content_type, read};

    words! {
        /// Kinds of a surface that is none.
        Kind {
            /// 400.
            Unreadable = "unreadable",
            /// 401.
            Stranger = "stranger",
            /// 413.
            Large = "large",
        }
    }

    impl ProblemKind for Kind {
        fn status(self) -> StatusCode {
            match self {
                Self::Unreadable => StatusCode::BAD_REQUEST,
                Self::Stranger => StatusCode::UNAUTHORIZED,
                Self::Large => StatusCode::PAYLOAD_TOO_LARGE,
            }
        }

        fn title(self) -> &'static str {
            self.label()
        }

        fn challenge(self) -> Option<&'static str> {
            (self == Self::Stranger).then_some("Bearer")
        }

        fn of_status(_: StatusCode) -> Problem<Self> {
            Problem::new(Self::Large, "x", "x")
        }

        fn unreadable(what: Cow<'static, str>) -> Problem<Self> {
            Problem::new(Self::Unreadable, what, "x")
        }
    }

    #[test]
    fn an_answer_says_what_its_kind_says() {
        let header = |kind, name| {
            let response = Problem::<Kind>::new(kind, "x", "x").retry_after(0).into_response();
            assert_eq!(response.headers()[header::RETRY_AFTER], "1");
            assert_eq!(response.extensions().get::<Problem<Kind>>().map(Problem::kind), Some(kind));
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        assert_eq!(header(Kind::Stranger, header::WWW_AUTHENTICATE).as_deref(), Some("Bearer"));
        assert_eq!(header(Kind::Unreadable, header::WWW_AUTHENTICATE), None);
        assert_eq!(header(Kind::Large, header::CONNECTION).as_deref(), Some("close"));
        assert_eq!(header(Kind::Stranger, header::CONNECTION), None);
    }

    #[test]
    fn what_cannot_be_read_is_a_problem_of_the_surfaces_own() {
        let unread = read::<Kind, bool>(b"{").expect_err("no document");
        let several = Problem::<Kind>::from(NoKey::Several);
        assert_eq!((unread.kind(), several.kind()), (Kind::Unreadable, Kind::Unreadable));
        let mut headers = axum::http::HeaderMap::new();
        assert_eq!(content_type::<Kind>(&headers, true), Ok(ContentType::Nothing));
        assert_eq!(content_type::<Kind>(&headers, false).map_err(|problem| problem.kind()), Err(Kind::Large));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("Application/JSON; charset=utf-8"));
        assert_eq!(content_type::<Kind>(&headers, false), Ok(ContentType::Json));
    }
}
