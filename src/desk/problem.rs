//! Refusals and failures as the desk tells them: `application/problem+json` (RFC 9457) for programs, a page for people.
//!
//! A closed set of kinds ([`Kind`]), and for each what happened and what to do. Nothing of a database's or a library's own words
//! is in an answer: they may quote rows. Pure but for the log line of a failed statement.

mod kind;

use std::borrow::Cow;
use std::fmt;

use axum::http::StatusCode;
use axum::response::Response;
use jiff::Timestamp;

pub use self::kind::Kind;
use super::NAME;
use super::access::origin::Refused;
use crate::config::Role;
use crate::db::DbError;
use crate::web;
use crate::web::failure::Failure;

/// A problem: what a handler of the desk returns instead of its answer.
pub type Problem = web::problem::Problem<Kind>;

/// Seconds after which to try again where nothing better is known.
const RETRY_AFTER: u64 = 2;

impl Problem {
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

    /// 403: a ticket that was spent or has ended, a cookie that has, or another submission's. Which of them is not told.
    #[must_use]
    pub fn ticket() -> Self {
        Self::new(
            Kind::Ticket,
            "The ticket or the cookie is another submission's, was used, or has ended.",
            "Go back to where your work was handed in, and follow its link anew.",
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

    /// The answer for a person: the same with a page as its content, which stays as it is.
    #[must_use]
    pub fn page(&self, html: String) -> Response {
        let mut response = self.answer("text/html; charset=utf-8", html);
        response.extensions_mut().insert(Paged);
        response
    }
}

/// That a problem's answer is a page already: a form with what is wrong in it, say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paged;

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

impl From<DbError> for Problem {
    /// The kind alone reaches the answer; the journal has the names.
    fn from(error: DbError) -> Self {
        match Failure::of(&NAME, &error) {
            Failure::CommitUnknown => Self::commit_unknown(),
            Failure::Away => Self::database_away(),
            Failure::Busy => Self::busy(),
            Failure::NotInstalled => Self::not_installed(),
            Failure::Ours => Self::internal(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::web::problem::ProblemKind as _;

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
