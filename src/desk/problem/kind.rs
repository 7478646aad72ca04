//! Kinds of the desk's problems: a closed set, each with its status and its title.

use std::borrow::Cow;

use axum::http::StatusCode;

use crate::kernel::words;
use crate::web::problem::{Problem, ProblemKind};

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
        /// 403: a ticket or a cookie that does not open this.
        Ticket = "ticket",
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

impl ProblemKind for Kind {
    fn status(self) -> StatusCode {
        match self {
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Role | Self::UnknownUser | Self::Csrf | Self::Ticket => StatusCode::FORBIDDEN,
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

    fn title(self) -> &'static str {
        match self {
            Self::BadRequest => "The request cannot be read",
            Self::Unauthenticated => "You are not logged in",
            Self::Role => "Your role does not allow this",
            Self::UnknownUser => "You are not a user of this desk",
            Self::Csrf => "Another page asked for this change",
            Self::Ticket => "The ticket does not open this",
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

    fn challenge(self) -> Option<&'static str> {
        (self == Self::Unauthenticated).then_some("Bearer realm=\"maple-router desk\"")
    }

    fn of_status(status: StatusCode) -> Problem<Self> {
        Problem::<Self>::of_status(status)
    }

    fn unreadable(what: Cow<'static, str>) -> Problem<Self> {
        Problem::<Self>::bad_request(what)
    }
}
