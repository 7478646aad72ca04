//! Refusals and failures as the desk tells them: `application/problem+json` (RFC 9457) for programs, a page for people.
//!
//! A closed set of kinds, each with its status, its title and what to do. Nothing of a database's or a library's own words is
//! in an answer: they may quote rows. Pure but for the log line of a failed statement.

use std::borrow::Cow;
use std::fmt;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::access::origin::Refused;
use crate::config::Role;
use crate::db::{DbError, DbErrorKind};
use crate::kernel::words;

words! {
    /// The kind of a problem: the end of its `type`.
    Kind {
        /// 400: the request cannot be read.
        BadRequest = "bad_request",
        /// 401: nobody knows who asks.
        Unauthenticated = "unauthenticated",
        /// 403: the role does not suffice.
        Role = "role",
        /// 403: the proxy or the link names somebody who is no user here.
        UnknownUser = "unknown_user",
        /// 403: another page asked for a change.
        Csrf = "csrf",
        /// 404.
        NotFound = "not_found",
        /// 405.
        MethodNotAllowed = "method_not_allowed",
        /// 409: somebody else was faster.
        VersionConflict = "version_conflict",
        /// 409: not from this state.
        NotPossible = "not_possible",
        /// 409: another entry about the same is open.
        OpenTwin = "open_twin",
        /// 409: not as many entries match as were seen.
        SelectionChanged = "selection_changed",
        /// 412: `If-Match` names another version.
        PreconditionFailed = "precondition_failed",
        /// 413.
        TooLarge = "too_large",
        /// 415.
        UnsupportedMediaType = "unsupported_media_type",
        /// 421: another name than the desk's.
        Host = "host",
        /// 422: a field is missing, or is not as it must be.
        Guard = "guard",
        /// 422: what a resolution claims is not proved.
        EvidenceMissing = "evidence_missing",
        /// 422: the idempotency key belongs to another request.
        IdempotencyMismatch = "idempotency_mismatch",
        /// 428: neither `If-Match` nor a version.
        PreconditionRequired = "precondition_required",
        /// 429.
        RateLimited = "rate_limited",
        /// 500: a fault of ours.
        Internal = "internal",
        /// 503: the schema is not there.
        NotInstalled = "not_installed",
        /// 503: the database does not answer.
        DatabaseAway = "database_away",
        /// 503: too much at once.
        Busy = "busy",
    }
}

impl Kind {
    /// The HTTP status.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Role | Self::UnknownUser | Self::Csrf => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::VersionConflict | Self::NotPossible | Self::OpenTwin | Self::SelectionChanged => {
                StatusCode::CONFLICT
            }
            Self::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::Guard | Self::EvidenceMissing | Self::IdempotencyMismatch => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Self::PreconditionRequired => StatusCode::PRECONDITION_REQUIRED,
            Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NotInstalled | Self::DatabaseAway | Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The same sentence for every problem of the kind.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::BadRequest => "The request cannot be read",
            Self::Unauthenticated => "You are not logged in",
            Self::Role => "Your role does not allow this",
            Self::UnknownUser => "You are not a user of this desk",
            Self::Csrf => "Another page asked for this change",
            Self::NotFound => "There is nothing here",
            Self::MethodNotAllowed => "This cannot be asked here",
            Self::VersionConflict => "Somebody else was faster",
            Self::NotPossible => "This is not possible now",
            Self::OpenTwin => "There is another open entry about the same",
            Self::SelectionChanged => "Not what you saw matches now",
            Self::PreconditionFailed => "This has changed since you looked",
            Self::TooLarge => "The request is too large",
            Self::UnsupportedMediaType => "The request's content type is not understood",
            Self::Host => "The desk has another name",
            Self::Guard => "Something is missing",
            Self::EvidenceMissing => "Nothing proves that this is resolved",
            Self::IdempotencyMismatch => "The idempotency key belongs to another request",
            Self::PreconditionRequired => "The version that you saw is missing",
            Self::RateLimited => "Too many requests",
            Self::Internal => "A fault of the desk",
            Self::NotInstalled => "The database is not set up for the desk",
            Self::DatabaseAway => "The database does not answer",
            Self::Busy => "The desk is busy",
        }
    }
}

/// The `type` of a problem is this and its kind.
pub const TYPE_PREFIX: &str = "urn:maple-router:problem:";
/// Content type of a problem.
pub const CONTENT_TYPE: &str = "application/problem+json";
/// Seconds after which to try again where nothing better is known.
const RETRY_AFTER: u64 = 2;

/// A problem: what a handler returns instead of its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    kind: Kind,
    detail: Cow<'static, str>,
    remedy: Cow<'static, str>,
    /// Extension members; never one of RFC 9457's own.
    members: Map<String, Value>,
    retry_after: Option<u64>,
}

impl Problem {
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
        debug_assert!(!["type", "title", "status", "detail", "remedy"].contains(&name), "{name}");
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

    /// 400. `what` names the part that cannot be read, and why.
    #[must_use]
    pub fn bad_request(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::BadRequest, what, "Compare the request with /api/openapi.json.")
    }

    /// 401 without any credential that counts.
    #[must_use]
    pub fn not_logged_in() -> Self {
        Self::new(
            Kind::Unauthenticated,
            "No session, token or assertion that counts came with the request.",
            "On the desk's host: sudo maple-router desk login NAME prints a link that logs you in.",
        )
    }

    /// 401: the credential has ended, or never was one. Which of them is not told.
    #[must_use]
    pub fn ended() -> Self {
        Self::new(
            Kind::Unauthenticated,
            "Your session or token has ended.",
            "On the desk's host: sudo maple-router desk login NAME prints a fresh link, desk token NAME a fresh token.",
        )
    }

    /// 403: a higher role is needed.
    #[must_use]
    pub fn role(needed: Role, has: Role) -> Self {
        Self::new(
            Kind::Role,
            format!("This needs the role {needed}, and you have the role {has} here."),
            "Ask somebody of that role, or the administrator of the host ([desk.users] in its configuration).",
        )
        .with("needed", needed.label())
        .with("role", has.label())
    }

    /// 403: proved to be somebody whom the configuration does not name.
    #[must_use]
    pub fn unknown_user() -> Self {
        Self::new(
            Kind::UnknownUser,
            "Who you are is known, and you are not among the users of this desk.",
            "Ask the administrator of the host for a section [desk.users.NAME] with your address, and a reload.",
        )
    }

    /// 404.
    #[must_use]
    pub fn not_found(what: &str) -> Self {
        Self::new(
            Kind::NotFound,
            format!("There is no {what} here."),
            "Compare the address; / leads to the queue.",
        )
    }

    /// 409: the entry has moved on since the version that was sent.
    #[must_use]
    pub fn version_conflict(state: &str, version: i64, by: &str, at: Timestamp) -> Self {
        Self::new(
            Kind::VersionConflict,
            format!("The entry is {state} now: {by} changed it at {at}."),
            "Look at it again; what you typed is kept on the page.",
        )
        .with("state", state)
        .with("version", version)
        .with("by", by)
        .with("at", at.to_string())
    }

    /// 409: the command is not possible from this state; `legal` are those that are.
    #[must_use]
    pub fn not_possible(detail: impl Into<Cow<'static, str>>, legal: &[&str]) -> Self {
        let remedy =
            if legal.is_empty() { "Nothing is possible from this state." } else { "Choose one of legal." };
        Self::new(Kind::NotPossible, detail, remedy).with("legal", legal)
    }

    /// 409: the entry cannot be opened again while another about the same is open.
    #[must_use]
    pub fn open_twin(twin: impl fmt::Display) -> Self {
        Self::new(
            Kind::OpenTwin,
            "The same has happened again since, and another entry about it is open.",
            "Decide about that one.",
        )
        .with("entry", twin.to_string())
    }

    /// 409: `expected` entries were seen, and `matched` match now.
    #[must_use]
    pub fn selection_changed(expected: usize, matched: usize) -> Self {
        Self::new(
            Kind::SelectionChanged,
            format!("You saw {expected} entries, and {matched} match now. Nothing was changed."),
            "Look at the list again; entries with their versions can be named one by one.",
        )
        .with("expected", expected)
        .with("matched", matched)
    }

    /// 412: `If-Match` names another version than the present one.
    #[must_use]
    pub fn precondition_failed(version: i64) -> Self {
        Self::new(
            Kind::PreconditionFailed,
            "If-Match names another version than the entry has.",
            "Read the entry again and send its ETag.",
        )
        .with("version", version)
    }

    /// 422: `field` is missing, or not as it must be.
    #[must_use]
    pub fn guard(field: &str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Guard, detail, "Fill it in and send it again.").with("field", field)
    }

    /// 422: `missing` is what would prove the resolution.
    #[must_use]
    pub fn evidence_missing(missing: &[String]) -> Self {
        Self::new(
            Kind::EvidenceMissing,
            "It is not known that this is resolved.",
            "Start a remedy, or vouch for it if you know better.",
        )
        .with("missing", missing)
    }

    /// 422: the key was used for another request.
    #[must_use]
    pub fn idempotency_mismatch() -> Self {
        Self::new(
            Kind::IdempotencyMismatch,
            "This Idempotency-Key was sent before with another request.",
            "Use a new key for a new request.",
        )
    }

    /// 428.
    #[must_use]
    pub fn precondition_required() -> Self {
        Self::new(
            Kind::PreconditionRequired,
            "The request says neither by If-Match nor by version which version it is about.",
            "Read the entry and send its ETag as If-Match, or its version in the body.",
        )
    }

    /// 429.
    #[must_use]
    pub fn rate_limited(seconds: u64) -> Self {
        Self::new(Kind::RateLimited, "You ask more often than one person can.", "Wait, then ask again.")
            .retry_after(seconds)
    }

    /// 503: too much at once.
    #[must_use]
    pub fn busy() -> Self {
        Self::new(Kind::Busy, "Too much is asked of the desk at this moment.", "Try again in a few seconds.")
            .retry_after(RETRY_AFTER)
    }

    /// 503: the schema is not there.
    #[must_use]
    pub fn not_installed() -> Self {
        Self::new(
            Kind::NotInstalled,
            "The tables of the desk are not in the database, or this role may not use them.",
            "As the owner: maple-router migrate --router; maple-router check tells more.",
        )
    }

    /// 503: the database does not answer.
    #[must_use]
    pub fn database_away() -> Self {
        Self::new(
            Kind::DatabaseAway,
            "The database does not answer, or takes no writes. Nothing was changed.",
            "Try again in a while; routing waits as well, and people are notified.",
        )
        .retry_after(RETRY_AFTER)
    }

    /// 503: the database went away before it said whether the change is made.
    #[must_use]
    pub fn commit_unknown() -> Self {
        Self::new(
            Kind::DatabaseAway,
            "The database went away while the change was recorded: it is made, or it is not.",
            "Look at the entry again. The same request with the same Idempotency-Key is never done twice.",
        )
        .retry_after(RETRY_AFTER)
    }

    /// 500.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(
            Kind::Internal,
            "The desk could not answer. The journal of the host tells why.",
            "Tell the administrator of the host when this happened.",
        )
    }

    /// The problem that a bare status is, as libraries answer.
    #[must_use]
    pub fn of_status(status: StatusCode) -> Self {
        match status {
            StatusCode::UNAUTHORIZED => Self::not_logged_in(),
            StatusCode::NOT_FOUND => Self::not_found("such page"),
            StatusCode::METHOD_NOT_ALLOWED => Self::new(
                Kind::MethodNotAllowed,
                "The address is right, and it is not asked like this.",
                "See Allow, or /api/openapi.json.",
            ),
            StatusCode::PAYLOAD_TOO_LARGE => Self::new(
                Kind::TooLarge,
                "A request has at most 64 KiB.",
                "Shorten the text, or send fewer entries at once.",
            ),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Self::new(
                Kind::UnsupportedMediaType,
                "The content is neither of the types that are understood here.",
                "Send application/json; forms of the pages send application/x-www-form-urlencoded.",
            ),
            StatusCode::TOO_MANY_REQUESTS => Self::rate_limited(RETRY_AFTER),
            StatusCode::SERVICE_UNAVAILABLE => Self::busy(),
            other if other.is_server_error() => Self::internal(),
            _ => Self::bad_request("The request is not as it must be."),
        }
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

    /// The answer for a person: the same with a page as its content, which stays as it is.
    #[must_use]
    pub fn page(&self, html: String) -> Response {
        let mut response = self.answer("text/html; charset=utf-8", html);
        response.extensions_mut().insert(Paged);
        response
    }

    fn answer(&self, content_type: &'static str, body: String) -> Response {
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.kind.status();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.kind == Kind::TooLarge {
            // The rest of the body stays unread, so that nobody should send another request behind it.
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if self.kind == Kind::Unauthenticated {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"maple-router desk\""),
            );
        }
        // The middleware counts it, and shows a page instead where a person asks.
        response.extensions_mut().insert(self.clone());
        response
    }
}

/// That a problem's answer is a page already: a form with what is wrong in it, say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paged;

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        self.answer(CONTENT_TYPE, self.json().to_string())
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::OtherHost => Self::new(
                Kind::Host,
                "The request is addressed to a name or a port that is not the desk's.",
                "Use the address that desk login prints ([desk] origin).",
            ),
            Refused::CrossSite => Self::new(
                Kind::Csrf,
                "Not one of the desk's own pages asked for this, or the browser does not say which did.",
                "Open the desk in a window of its own and repeat it there; programs send a token as Authorization.",
            ),
        }
    }
}

/// SQLSTATEs of a schema, a table or a function that is not there, or that this role may not use.
const NOT_THERE: [&str; 4] = ["3F000", "42P01", "42883", "42501"];

impl From<DbError> for Problem {
    /// The kind alone reaches the answer; the journal has the names.
    fn from(error: DbError) -> Self {
        let named = error.named();
        match error.kind() {
            DbErrorKind::Unreachable if matches!(error, DbError::CommitUnknown { .. }) => {
                tracing::warn!("the desk does not know whether a change was made: {named}");
                Self::commit_unknown()
            }
            DbErrorKind::Unreachable => {
                tracing::warn!("the desk could not reach the database: {named}");
                Self::database_away()
            }
            DbErrorKind::Busy => {
                tracing::warn!("the desk gave up waiting for the database: {named}");
                Self::busy()
            }
            DbErrorKind::Contract if error.sqlstate().is_some_and(|code| NOT_THERE.contains(&code)) => {
                tracing::warn!("the desk's tables cannot be used: {named}");
                Self::not_installed()
            }
            DbErrorKind::Contract | DbErrorKind::Bug => {
                tracing::error!("a statement of the desk failed: {named}");
                Self::internal()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(code: &str) -> DbError {
        DbError::Server {
            code: code.to_owned(),
            message: "row of bob@example.org".to_owned(),
            object: ", table grey_queue".to_owned(),
        }
    }

    #[test]
    fn a_document_is_as_the_rfc_says_with_members_beside() {
        let at = "2026-11-23T10:00:00Z".parse().expect("a time");
        let document = Problem::version_conflict("Resolved", 7, "bob", at).json();
        assert_eq!(document["type"], "urn:maple-router:problem:version_conflict");
        assert_eq!((document["status"].as_u64(), document["version"].as_i64()), (Some(409), Some(7)));
        assert_eq!((document["state"].as_str(), document["by"].as_str()), (Some("Resolved"), Some("bob")));
        assert_eq!(Problem::not_possible("x", &["assign"]).json()["legal"], json!(["assign"]));
        assert_eq!(Problem::guard("reason", "x").json()["field"], "reason");
    }

    #[test]
    fn every_kind_has_an_error_for_its_status_and_words_of_its_own() {
        let titles: std::collections::BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.title()).collect();
        assert_eq!(titles.len(), Kind::ALL.len());
        for kind in Kind::ALL {
            assert!(kind.status().is_client_error() || kind.status().is_server_error(), "{kind}");
        }
    }

    #[test]
    fn a_bare_status_keeps_its_status() {
        for code in [400, 401, 404, 405, 413, 415, 429, 500, 503] {
            let status = StatusCode::from_u16(code).expect("a status");
            assert_eq!(Problem::of_status(status).kind().status(), status);
        }
    }

    #[test]
    fn a_failed_statement_tells_its_kind_and_nothing_else() {
        for (error, kind) in [
            (server("57P03"), Kind::DatabaseAway),
            (server("25006"), Kind::DatabaseAway),
            (DbError::Connection("reset".to_owned()), Kind::DatabaseAway),
            (server("55P03"), Kind::Busy),
            (server("57014"), Kind::Busy),
            (DbError::PoolClosed, Kind::Busy),
            (server("42P01"), Kind::NotInstalled),
            (server("3F000"), Kind::NotInstalled),
            (server("42501"), Kind::NotInstalled),
            (server("22P02"), Kind::Internal),
            (server("23514"), Kind::Internal),
        ] {
            let problem = Problem::from(error.clone());
            assert_eq!(problem.kind(), kind, "{error}");
            let shown = problem.json().to_string();
            assert!(!shown.contains("bob@") && !shown.contains("grey_queue"), "{shown}");
        }
    }
}
