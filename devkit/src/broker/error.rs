//! Causes of the broker's refusals, and the one function where a refusal becomes a gRPC status or an HTTP error
//! body. Pure: a refused call has changed nothing. Messages carry resource names only, never message data.

use std::io;
use std::net::SocketAddr;

use axum::http::StatusCode;
use serde_json::{Value, json};
use tonic::{Code, Status};

/// Why the broker did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The request can never succeed as it stands.
    #[error("{0}")]
    Invalid(String),
    /// No such topic or subscription.
    #[error("Resource not found (resource={0}).")]
    NotFound(String),
    /// The name is taken.
    #[error("Resource already exists in the project (resource={0}).")]
    AlreadyExists(String),
    /// Pub/Sub has this, the embedded broker does not.
    #[error("the embedded broker does not support {0}; use Google's emulator or the real service for it")]
    Unsupported(String),
    /// The broker is stopping, or a test broke the stream.
    #[error("{0}")]
    Unavailable(&'static str),
    /// A test made the broker fail with this code.
    #[error("fault injected by a test: {0}")]
    Injected(Code),
    /// The listening socket could not be had.
    #[error("the broker cannot listen on {address}: {source}; choose another port, or 0 for a free one")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
}

impl BrokerError {
    /// The canonical code of this refusal.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Invalid(_) => Code::InvalidArgument,
            Self::NotFound(_) => Code::NotFound,
            Self::AlreadyExists(_) => Code::AlreadyExists,
            Self::Unsupported(_) => Code::Unimplemented,
            Self::Unavailable(_) => Code::Unavailable,
            Self::Injected(code) => *code,
            Self::Listen { .. } => Code::Internal,
        }
    }

    /// HTTP status and JSON body in the form of Google's APIs (`{"error": {"code", "message", "status"}}`).
    pub(super) fn to_http(&self) -> (StatusCode, Value) {
        let (status, name) = http_form(self.code());
        let body =
            json!({ "error": { "code": status.as_u16(), "message": self.to_string(), "status": name } });
        (status, body)
    }
}

impl From<BrokerError> for Status {
    fn from(error: BrokerError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

/// The HTTP status and the name that Google's APIs give to a canonical code (google.rpc.Code).
fn http_form(code: Code) -> (StatusCode, &'static str) {
    match code {
        Code::Ok => (StatusCode::OK, "OK"),
        Code::Cancelled => (StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST), "CANCELLED"),
        Code::Unknown => (StatusCode::INTERNAL_SERVER_ERROR, "UNKNOWN"),
        Code::InvalidArgument => (StatusCode::BAD_REQUEST, "INVALID_ARGUMENT"),
        Code::DeadlineExceeded => (StatusCode::GATEWAY_TIMEOUT, "DEADLINE_EXCEEDED"),
        Code::NotFound => (StatusCode::NOT_FOUND, "NOT_FOUND"),
        Code::AlreadyExists => (StatusCode::CONFLICT, "ALREADY_EXISTS"),
        Code::PermissionDenied => (StatusCode::FORBIDDEN, "PERMISSION_DENIED"),
        Code::ResourceExhausted => (StatusCode::TOO_MANY_REQUESTS, "RESOURCE_EXHAUSTED"),
        Code::FailedPrecondition => (StatusCode::BAD_REQUEST, "FAILED_PRECONDITION"),
        Code::Aborted => (StatusCode::CONFLICT, "ABORTED"),
        Code::OutOfRange => (StatusCode::BAD_REQUEST, "OUT_OF_RANGE"),
        Code::Unimplemented => (StatusCode::NOT_IMPLEMENTED, "UNIMPLEMENTED"),
        Code::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL"),
        Code::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE"),
        Code::DataLoss => (StatusCode::INTERNAL_SERVER_ERROR, "DATA_LOSS"),
        Code::Unauthenticated => (StatusCode::UNAUTHORIZED, "UNAUTHENTICATED"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_the_services_form() {
        let name = || "projects/p/topics/abc".to_owned();
        let table = [
            (BrokerError::Invalid("Bad.".to_owned()), 400, "INVALID_ARGUMENT"),
            (BrokerError::NotFound(name()), 404, "NOT_FOUND"),
            (BrokerError::AlreadyExists(name()), 409, "ALREADY_EXISTS"),
            (BrokerError::Unsupported("filters".to_owned()), 501, "UNIMPLEMENTED"),
            (BrokerError::Unavailable("the broker is stopping"), 503, "UNAVAILABLE"),
            (BrokerError::Injected(Code::PermissionDenied), 403, "PERMISSION_DENIED"),
            (BrokerError::Injected(Code::ResourceExhausted), 429, "RESOURCE_EXHAUSTED"),
        ];
        for (error, status, expected) in table {
            let (sent, body) = error.to_http();
            assert_eq!(sent.as_u16(), status, "{error}");
            assert_eq!(body["error"]["code"], status, "{error}");
            assert_eq!(body["error"]["status"], expected, "{error}");
            assert_eq!(body["error"]["message"], error.to_string());
            let code = error.code();
            assert_eq!(Status::from(error).code(), code);
        }
    }
}
