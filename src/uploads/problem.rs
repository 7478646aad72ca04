//! What the API refuses, and what an upload ends by: a closed set. Pure.
//!
//! An upload that was aborted keeps its problem and answers with it from then on, byte for byte.

use std::borrow::Cow;

use axum::http::StatusCode;
use serde_json::Value;

use super::NAME;
use crate::db::DbError;
use crate::kernel::{NotPossible, words};
use crate::web::failure::Failure;
use crate::web::problem::{self, ProblemKind, TAKEN, TYPE_PREFIX};

words! {
    /// The kind of a problem: the end of its `type`.
    Kind {
        /// 400: the request cannot be read.
        BadRequest = "bad_request",
        /// 401: neither the backend's key nor a session's token.
        Unauthenticated = "unauthenticated",
        /// 404, also for somebody else's session.
        NotFound = "not_found",
        /// 405.
        MethodNotAllowed = "method_not_allowed",
        /// 409: not from this state.
        NotPossible = "not_possible",
        /// 409: the store does not have every part.
        PartsMissing = "parts_missing",
        /// 409: the submission was routed, or is being routed.
        SubmissionClosed = "submission_closed",
        /// 410: the time is up.
        Expired = "expired",
        /// 410: somebody ended it.
        Aborted = "aborted",
        /// 410: the store has lost what was brought.
        Lost = "lost",
        /// 413.
        TooLarge = "too_large",
        /// 415: the type is not taken, or the bytes show another.
        Type = "type",
        /// 415: the request's own content type.
        UnsupportedMediaType = "unsupported_media_type",
        /// 421: another name than the API's.
        Host = "host",
        /// 422: other bytes came than were declared.
        LengthMismatch = "length_mismatch",
        /// 422: other bytes came than were declared.
        DigestMismatch = "digest_mismatch",
        /// 422: the idempotency key belongs to another request.
        IdempotencyMismatch = "idempotency_mismatch",
        /// 422: the file's name cannot be one.
        Name = "name",
        /// 422: a member is not as it must be.
        Guard = "guard",
        /// 428: no idempotency key.
        PreconditionRequired = "precondition_required",
        /// 429: too many open sessions.
        Sessions = "sessions",
        /// 429: too many bytes in open sessions.
        Bytes = "bytes",
        /// 500: a fault of ours.
        Internal = "internal",
        /// 503: the schema is not there.
        NotInstalled = "not_installed",
        /// 503: the database does not answer.
        DatabaseAway = "database_away",
        /// 503: the object store does not answer.
        StoreAway = "store_away",
        /// 503: too much at once.
        Busy = "busy",
    }
}

impl ProblemKind for Kind {
    fn status(self) -> StatusCode {
        match self {
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotPossible | Self::PartsMissing | Self::SubmissionClosed => StatusCode::CONFLICT,
            Self::Expired | Self::Aborted | Self::Lost => StatusCode::GONE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Type | Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::LengthMismatch
            | Self::DigestMismatch
            | Self::IdempotencyMismatch
            | Self::Name
            | Self::Guard => StatusCode::UNPROCESSABLE_ENTITY,
            Self::PreconditionRequired => StatusCode::PRECONDITION_REQUIRED,
            Self::Sessions | Self::Bytes => StatusCode::TOO_MANY_REQUESTS,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NotInstalled | Self::DatabaseAway | Self::StoreAway | Self::Busy => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::BadRequest => "The request cannot be read",
            Self::Unauthenticated => "Neither a key nor a token that counts",
            Self::NotFound => "There is nothing here",
            Self::MethodNotAllowed => "This cannot be asked here",
            Self::NotPossible => "This is not possible now",
            Self::PartsMissing => "Not every part is there",
            Self::SubmissionClosed => "The submission takes no more files",
            Self::Expired => "The upload was not finished in time",
            Self::Aborted => "The upload was ended",
            Self::Lost => "The store has lost the upload",
            Self::TooLarge => "The file is too large",
            Self::Type => "This type of file is not taken",
            Self::UnsupportedMediaType => "The request's content type is not understood",
            Self::Host => "The API has another name",
            Self::LengthMismatch => "Not as many bytes came as were declared",
            Self::DigestMismatch => "Other bytes came than were declared",
            Self::IdempotencyMismatch => "The idempotency key belongs to another request",
            Self::Name => "This cannot be the name of a file",
            Self::Guard => "Something is missing, or not as it must be",
            Self::PreconditionRequired => "The idempotency key is missing",
            Self::Sessions => "Too many uploads at once",
            Self::Bytes => "Too many bytes at once",
            Self::Internal => "A fault of the service",
            Self::NotInstalled => "The database is not set up for uploads",
            Self::DatabaseAway => "The database does not answer",
            Self::StoreAway => "The object store does not answer",
            Self::Busy => "The service is busy",
        }
    }

    fn challenge(self) -> Option<&'static str> {
        (self == Self::Unauthenticated).then_some("Bearer")
    }

    fn of_status(status: StatusCode) -> Problem {
        let again = "Compare the request with /v1/openapi.json.";
        match status {
            StatusCode::NOT_FOUND => Problem::new(Kind::NotFound, "There is no such address here.", again),
            StatusCode::METHOD_NOT_ALLOWED => {
                Problem::new(Kind::MethodNotAllowed, "This address has other methods.", again)
            }
            StatusCode::PAYLOAD_TOO_LARGE => Problem::new(
                Kind::TooLarge,
                "The request has more than 64 KiB.",
                "Send the file itself to the links of its parts, not here.",
            ),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Problem::new(
                Kind::UnsupportedMediaType,
                "Requests have content of the type application/json.",
                again,
            ),
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::REQUEST_TIMEOUT => {
                Problem::new(Kind::Busy, "Too much is asked at once.", "Try again.").retry_after(2)
            }
            status if status.is_client_error() => Problem::bad_request("The request cannot be read."),
            _ => Problem::internal(),
        }
    }

    fn unreadable(what: Cow<'static, str>) -> Problem {
        Problem::bad_request(what)
    }
}

/// A problem: what a command gives instead of its answer.
pub type Problem = problem::Problem<Kind>;

/// What to do where the file itself has to come again.
const AGAIN: &str = "Begin a new upload.";

impl problem::Problem<Kind> {
    /// 400. `what` names the part that cannot be read, and why.
    #[must_use]
    pub fn bad_request(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::BadRequest, what, "Compare the request with /v1/openapi.json.")
    }

    /// 401.
    #[must_use]
    pub fn unauthenticated() -> Self {
        Self::new(
            Kind::Unauthenticated,
            "Neither the backend's key nor the token of an upload came with the request.",
            "Send Authorization: Bearer with one of them.",
        )
    }

    /// 404: no such session, or somebody else's. Which of them is not told.
    #[must_use]
    pub fn not_found() -> Self {
        Self::new(
            Kind::NotFound,
            "There is no such upload here.",
            "Compare the address and the token; a session has an end.",
        )
    }

    /// 409: the command is not possible from this state.
    #[must_use]
    pub fn not_possible(refused: &NotPossible) -> Self {
        let remedy =
            if refused.legal.is_empty() { "Nothing is possible any more." } else { "Choose one of legal." };
        Self::new(Kind::NotPossible, refused.to_string(), remedy).with("legal", refused.legal.clone())
    }

    /// 410: the time is up.
    #[must_use]
    pub fn expired() -> Self {
        Self::new(Kind::Expired, "The session has come to its end, and what was brought is removed.", AGAIN)
    }

    /// 410: ended by somebody.
    #[must_use]
    pub fn aborted(by: &str) -> Self {
        Self::new(Kind::Aborted, format!("The upload was ended by {by}."), AGAIN)
    }

    /// 410: the store has neither the parts nor the object.
    #[must_use]
    pub fn lost() -> Self {
        Self::new(Kind::Lost, "The store has neither the parts nor the file.", AGAIN)
    }

    /// 409: a part was sent again, with other bytes, after the client had said that all of them are there.
    #[must_use]
    pub fn parts_changed() -> Self {
        let what = "A part was sent again with other bytes after the upload was complete.";
        Self::new(Kind::PartsMissing, what, AGAIN)
    }

    /// 422: a member of the request is not as it must be.
    #[must_use]
    pub fn guard(field: &str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Guard, detail, "Mend it and send the request again.").with("field", field)
    }

    /// 500.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(
            Kind::Internal,
            "Something failed that should not.",
            "Tell whoever runs the service; its journal says what.",
        )
    }

    /// 503: the store does not answer.
    #[must_use]
    pub fn store_away() -> Self {
        Self::new(
            Kind::StoreAway,
            "The object store does not answer, or refuses the service.",
            "Try again in a while; nothing is lost.",
        )
        .retry_after(10)
    }

    /// The problem whose document an aborted upload keeps. What a timer ended has no words of its own.
    #[must_use]
    pub fn of_kept(kept: &Value) -> Self {
        let text = |name: &str| kept.get(name).and_then(Value::as_str).map(str::to_owned);
        let kind = text("type").and_then(|kind| Kind::parse(kind.strip_prefix(TYPE_PREFIX)?));
        let (Some(kind), Some(detail), Some(remedy)) = (kind, text("detail"), text("remedy")) else {
            return Self::expired();
        };
        let members =
            kept.as_object().into_iter().flatten().filter(|(name, _)| !TAKEN.contains(&name.as_str()));
        members
            .fold(Self::new(kind, detail, remedy), |problem, (name, value)| problem.with(name, value.clone()))
    }
}

impl From<NotPossible> for problem::Problem<Kind> {
    fn from(refused: NotPossible) -> Self {
        Self::not_possible(&refused)
    }
}

impl From<DbError> for problem::Problem<Kind> {
    /// The kind alone reaches the answer; the journal has the names.
    fn from(error: DbError) -> Self {
        match Failure::of(&NAME, &error) {
            Failure::CommitUnknown | Failure::Away => {
                let detail = "The database does not answer; it is not known whether anything was changed.";
                Self::new(Kind::DatabaseAway, detail, "Send the same request again; it is carried out once.")
                    .retry_after(5)
            }
            Failure::Busy => {
                Self::new(Kind::Busy, "Somebody else holds what this needs.", "Try again.").retry_after(2)
            }
            Failure::NotInstalled => Self::new(
                Kind::NotInstalled,
                "The database has not what uploads need, or does not let the service use it.",
                "As the owner of the tables: maple-router migrate --content; maple-router check names what is missing.",
            ),
            Failure::Ours => Self::internal(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_an_upload_ended_by_is_kept_whole() {
        let ended = Problem::new(Kind::LengthMismatch, "d", "r").with("declared", 5).with("found", 4);
        assert_eq!(Problem::of_kept(&ended.json()), ended);
        assert_eq!(Problem::of_kept(&json!({"code": "expired"})), Problem::expired());
        for odd in [json!({}), json!(null), json!({"type": "unheard of", "detail": "", "remedy": ""})] {
            assert_eq!(Problem::of_kept(&odd), Problem::expired(), "{odd}");
        }
    }
}
