//! What can go wrong with a call to the store, and the one function that says what it means.
//!
//! Pure. No text of the store's goes on: of an answer only its status, a word of a closed set and the permission that it names
//! are kept. Neither a URL nor a name, an upload's id or a token is in an error.

use std::fmt;

use thiserror::Error;

use super::call::{Call, Permission};
use crate::gateway::signed_url::SignError;

/// Why a call to the store gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreError {
    /// There is no such object, generation or upload.
    #[error("the store has nothing of that name")]
    Gone,
    /// The destination is there already, and may be what was to be written: an answer was lost before.
    #[error("the store has an object of that name already")]
    Exists,
    /// The object is of another generation than the one that was meant.
    #[error("the object is of another generation")]
    Changed,
    /// The account lacks a permission.
    #[error("the store refuses to {call}: the service account lacks {permission}")]
    Forbidden {
        /// What was refused.
        call: Call,
        /// What is to be granted.
        permission: Permission,
    },
    /// The object is missing, or is kept from us by other rules than permissions (a retention, a condition on names): the
    /// store says the same of both to whoever may not list the bucket. It was asked, and the account has the permission that
    /// the call needs: in a bucket without such rules, nothing is missing but the object.
    #[error("the store refuses to {call}: the object is missing or kept from us")]
    MissingOrForbidden {
        /// What was refused.
        call: Call,
        /// The permission that the refusal names.
        permission: Permission,
    },
    /// There is no such bucket.
    #[error("the store has no such bucket")]
    NoBucket,
    /// The store does not accept our access token. It is forgotten: the next call brings a new one.
    #[error("the store does not accept our access token")]
    TokenRefused,
    /// There is no access token, or no signature.
    #[error("the store is not asked: {}", .0.detail())]
    Signing(SignError),
    /// The store says that the request itself is no good.
    #[error("the store finds fault with the request to {call}: {code}")]
    Invalid {
        /// What was asked.
        call: Call,
        /// What is wrong with it.
        code: InvalidCode,
    },
    /// No object can have the name; nothing was asked.
    #[error("an object cannot be named like that: {0}")]
    Name(&'static str),
    /// The store is away: whether the call had its effect is not known.
    #[error("the store is away ({call}): {how}")]
    Away {
        /// What was asked.
        call: Call,
        /// How it is away.
        how: Absence,
    },
}

/// What is wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidCode {
    /// A part that is named is not there, or has another ETag.
    InvalidPart,
    /// The parts are not named in their order.
    InvalidPartOrder,
    /// A part that is not the last one has less than 5 MiB.
    EntityTooSmall,
    /// The object would be too large.
    EntityTooLarge,
    /// No byte of the object is in the range.
    InvalidRange,
    /// Anything else: our fault; the status.
    Other(u16),
}

impl fmt::Display for InvalidCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidPart => f.write_str("a part is missing or has another ETag"),
            Self::InvalidPartOrder => f.write_str("the parts are out of order"),
            Self::EntityTooSmall => f.write_str("a part is too small"),
            Self::EntityTooLarge => f.write_str("the object is too large"),
            Self::InvalidRange => f.write_str("the range is outside the object"),
            Self::Other(status) => write!(f, "it says {status}"),
        }
    }
}

/// How the store is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// No connection was made.
    NoConnection,
    /// The connection broke.
    Broken,
    /// Nothing was said in time.
    Silent,
    /// It says that it cannot now, or answers with a status that has no meaning here.
    Status(u16),
    /// An answer that cannot be understood.
    Garbled,
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoConnection => f.write_str("no connection was made"),
            Self::Broken => f.write_str("the connection broke"),
            Self::Silent => f.write_str("it takes too long"),
            Self::Status(status) => write!(f, "it says {status}"),
            Self::Garbled => f.write_str("its answer cannot be understood"),
        }
    }
}

impl StoreError {
    /// The error is about us, not about an object: the rights or credentials of the account, the configuration.
    #[must_use]
    pub fn is_about_us(&self) -> bool {
        match self {
            Self::Forbidden { .. } | Self::NoBucket | Self::TokenRefused => true,
            Self::Signing(error) => error.is_about_us(),
            Self::Gone
            | Self::Exists
            | Self::Changed
            | Self::MissingOrForbidden { .. }
            | Self::Invalid { .. }
            | Self::Name(_)
            | Self::Away { .. } => false,
        }
    }

    /// The error passes by itself.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Away { .. } | Self::TokenRefused => true,
            Self::Signing(error) => error.is_transient(),
            Self::Gone
            | Self::Exists
            | Self::Changed
            | Self::Forbidden { .. }
            | Self::MissingOrForbidden { .. }
            | Self::NoBucket
            | Self::Invalid { .. }
            | Self::Name(_) => false,
        }
    }
}

/// What was seen of a call that gave nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    /// No answer, or half of one.
    Nothing(Absence),
    /// An answer that is no success, or has an error inside.
    Answer {
        status: u16,
        /// The store's word: XML's code, JSON's reason.
        word: String,
        /// The permission that it names.
        permission: Option<Permission>,
    },
}

impl Finding {
    /// The finding of a request that failed; without its URL.
    pub(super) fn of(error: &reqwest::Error) -> Self {
        Self::Nothing(match (error.is_timeout(), error.is_connect()) {
            (true, _) => Absence::Silent,
            (false, true) => Absence::NoConnection,
            (false, false) => Absence::Broken,
        })
    }
}

/// The meaning of a finding. The only function that gives it.
pub(super) fn classify(call: Call, finding: &Finding) -> StoreError {
    let away = |how| StoreError::Away { call, how };
    let (status, word, permission) = match finding {
        Finding::Nothing(how) => return away(*how),
        Finding::Answer { status, word, permission } => {
            (effective(*status, word), word.as_str(), *permission)
        }
    };
    let invalid = |code| StoreError::Invalid { call, code };
    match (status, word) {
        (408 | 409 | 429 | 500..=599, _) => away(Absence::Status(status)),
        (403, "rateLimitExceeded" | "userRateLimitExceeded" | "quotaExceeded") => {
            away(Absence::Status(status))
        }
        (401, _) => StoreError::TokenRefused,
        (403, _) => refused(call, permission),
        (404, "NoSuchBucket") => StoreError::NoBucket,
        (404, _) if matches!(call, Call::Bucket | Call::Permissions | Call::Initiate | Call::List) => {
            StoreError::NoBucket
        }
        (404, _) => StoreError::Gone,
        (412, _) if call == Call::Rewrite => StoreError::Exists,
        (412, _) => StoreError::Changed,
        (416, _) => invalid(InvalidCode::InvalidRange),
        (_, "InvalidPart") => invalid(InvalidCode::InvalidPart),
        (_, "InvalidPartOrder") => invalid(InvalidCode::InvalidPartOrder),
        (_, "EntityTooSmall") => invalid(InvalidCode::EntityTooSmall),
        (_, "EntityTooLarge") => invalid(InvalidCode::EntityTooLarge),
        (400..=499, _) => invalid(InvalidCode::Other(status)),
        _ => away(Absence::Status(status)),
    }
}

/// The status that an answer would have, had its error not been found only after the answer had begun.
fn effective(status: u16, word: &str) -> u16 {
    match word {
        _ if status >= 300 => status,
        "NoSuchUpload" | "NoSuchKey" | "NoSuchBucket" => 404,
        "AccessDenied" => 403,
        "InvalidPart" | "InvalidPartOrder" | "EntityTooSmall" | "EntityTooLarge" | "InvalidArgument" => 400,
        "SlowDown" | "ServiceUnavailable" => 503,
        _ => 500,
    }
}

/// The meaning of a 403. A copy that may not overwrite was refused because there is something. Of one object the store tells
/// nobody who may not list whether it is there.
fn refused(call: Call, permission: Option<Permission>) -> StoreError {
    let Some(permission) = permission.or(call.needs()) else {
        return StoreError::Away { call, how: Absence::Status(403) };
    };
    match (call, permission) {
        (Call::Rewrite, Permission::Delete) => StoreError::Exists,
        (Call::Stat | Call::Read | Call::Rewrite, Permission::Get | Permission::List)
        | (Call::Delete, Permission::Delete | Permission::Get | Permission::List) => {
            StoreError::MissingOrForbidden { call, permission }
        }
        _ => StoreError::Forbidden { call, permission },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, word: &str, permission: Option<Permission>) -> Finding {
        Finding::Answer { status, word: word.to_owned(), permission }
    }

    #[test]
    fn every_answer_means_one_thing() {
        use Call::{Abort, Bucket, Complete, Delete, Initiate, ListParts, Permissions, Read, Rewrite, Stat};
        use Permission as P;
        let away = |call, status| StoreError::Away { call, how: Absence::Status(status) };
        let forbidden = |call, permission| StoreError::Forbidden { call, permission };
        let hidden = |call, permission| StoreError::MissingOrForbidden { call, permission };
        let invalid = |call, code| StoreError::Invalid { call, code };
        let table = [
            (Complete, 404, "NoSuchUpload", None, StoreError::Gone),
            (Complete, 404, "NoSuchBucket", None, StoreError::NoBucket),
            (Initiate, 404, "", None, StoreError::NoBucket),
            (Bucket, 404, "notFound", None, StoreError::NoBucket),
            (Permissions, 404, "notFound", None, StoreError::NoBucket),
            (ListParts, 404, "NoSuchUpload", None, StoreError::Gone),
            (Abort, 404, "NoSuchUpload", None, StoreError::Gone),
            (Stat, 404, "notFound", None, StoreError::Gone),
            (Rewrite, 412, "conditionNotMet", None, StoreError::Exists),
            (Rewrite, 403, "forbidden", Some(P::Delete), StoreError::Exists),
            (Rewrite, 403, "forbidden", Some(P::Create), forbidden(Rewrite, P::Create)),
            (Rewrite, 403, "forbidden", Some(P::Get), hidden(Rewrite, P::Get)),
            (Rewrite, 403, "forbidden", Some(P::List), hidden(Rewrite, P::List)),
            (Rewrite, 404, "notFound", None, StoreError::Gone),
            (Read, 412, "conditionNotMet", None, StoreError::Changed),
            (Delete, 412, "conditionNotMet", None, StoreError::Changed),
            (Read, 416, "requestedRangeNotSatisfiable", None, invalid(Read, InvalidCode::InvalidRange)),
            (Stat, 403, "forbidden", Some(P::List), hidden(Stat, P::List)),
            (Stat, 403, "forbidden", None, hidden(Stat, P::Get)),
            (Read, 403, "forbidden", Some(P::Get), hidden(Read, P::Get)),
            (Delete, 403, "forbidden", Some(P::Delete), hidden(Delete, P::Delete)),
            (Initiate, 403, "AccessDenied", Some(P::CreateUpload), forbidden(Initiate, P::CreateUpload)),
            (ListParts, 403, "AccessDenied", None, forbidden(ListParts, P::ListParts)),
            (Abort, 403, "AccessDenied", None, forbidden(Abort, P::AbortUpload)),
            (Complete, 403, "AccessDenied", Some(P::Delete), forbidden(Complete, P::Delete)),
            (Bucket, 403, "forbidden", None, forbidden(Bucket, P::GetBucket)),
            (Permissions, 403, "forbidden", None, away(Permissions, 403)),
            (Stat, 403, "rateLimitExceeded", None, away(Stat, 403)),
            (Stat, 401, "authError", None, StoreError::TokenRefused),
            (Complete, 400, "InvalidPart", None, invalid(Complete, InvalidCode::InvalidPart)),
            (Complete, 400, "InvalidPartOrder", None, invalid(Complete, InvalidCode::InvalidPartOrder)),
            (Complete, 400, "EntityTooSmall", None, invalid(Complete, InvalidCode::EntityTooSmall)),
            (Complete, 400, "EntityTooLarge", None, invalid(Complete, InvalidCode::EntityTooLarge)),
            (Complete, 400, "MalformedXML", None, invalid(Complete, InvalidCode::Other(400))),
            (Delete, 405, "", None, invalid(Delete, InvalidCode::Other(405))),
            (Complete, 429, "SlowDown", None, away(Complete, 429)),
            (Complete, 500, "InternalError", None, away(Complete, 500)),
            (Complete, 503, "NoSuchUpload", None, away(Complete, 503)),
            (Rewrite, 409, "conflict", None, away(Rewrite, 409)),
            (Read, 408, "", None, away(Read, 408)),
            (Read, 302, "", None, away(Read, 302)),
            (Complete, 200, "InternalError", None, away(Complete, 500)),
            (Complete, 200, "SlowDown", None, away(Complete, 503)),
            (Complete, 200, "NoSuchUpload", None, StoreError::Gone),
            (Complete, 200, "InvalidPart", None, invalid(Complete, InvalidCode::InvalidPart)),
            (Complete, 200, "AccessDenied", Some(P::Delete), forbidden(Complete, P::Delete)),
        ];
        for (call, status, word, permission, expected) in table {
            let found = classify(call, &answer(status, word, permission));
            assert_eq!(found, expected, "{call:?} {status} {word} {permission:?}");
        }
        for how in [Absence::NoConnection, Absence::Broken, Absence::Silent, Absence::Garbled] {
            let found = classify(Stat, &Finding::Nothing(how));
            assert_eq!(found, StoreError::Away { call: Stat, how });
        }
    }

    #[test]
    fn what_is_about_us_and_what_passes_are_told_apart() {
        for call in Call::ALL {
            for status in 100..=599 {
                let error = classify(call, &answer(status, "", None));
                let expected = match status {
                    401 => (true, true),
                    403 => {
                        let hidden = matches!(call, Call::Stat | Call::Read | Call::Delete);
                        (!hidden && call != Call::Permissions, call == Call::Permissions)
                    }
                    404 => (error == StoreError::NoBucket, false),
                    408 | 409 | 429 => (false, true),
                    400..=499 => (false, false),
                    _ => (false, true),
                };
                assert_eq!(
                    (error.is_about_us(), error.is_transient()),
                    expected,
                    "{call:?} {status}: {error}"
                );
            }
        }
    }
}
