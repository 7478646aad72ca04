//! Why a request is refused, said in the XML of the one API and the JSON of the other.
//!
//! Codes, reasons and texts are the service's where Google documents them or others have shown its answers. Guessed:
//! `MalformedXML`, and the texts of errors of multipart uploads.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::json;

use super::routes::Api;
use super::xml;

/// Header that a 416 names the object's length in.
const WHOLE: header::HeaderName = header::CONTENT_RANGE;

/// A refusal, in either API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    /// What the XML API calls it.
    code: &'static str,
    /// What the JSON API calls it.
    reason: &'static str,
    message: String,
    details: String,
    /// The header that it lies in, as the JSON API says it.
    location: Option<&'static str>,
    /// `Content-Range`, for a range that cannot be had.
    range: Option<Box<str>>,
}

impl Refusal {
    pub(super) fn new(status: u16, code: &'static str, reason: &'static str, message: &str) -> Self {
        let (message, details) = (message.to_owned(), String::new());
        Self { status, code, reason, message, details, location: None, range: None }
    }

    fn details(mut self, details: String) -> Self {
        self.details = details;
        self
    }

    pub(super) fn invalid(details: &str) -> Self {
        Self::new(400, "InvalidArgument", "invalid", "Invalid argument.").details(details.to_owned())
    }

    /// A header of a signature that is not as it must be.
    pub(super) fn malformed_header(details: String) -> Self {
        Self::new(400, "MalformedSecurityHeader", "invalid", "Your request has a malformed header.")
            .details(details)
    }

    pub(super) fn signature() -> Self {
        Self::new(
            403,
            "SignatureDoesNotMatch",
            "forbidden",
            "The request signature we calculated does not match the signature you provided.",
        )
    }

    /// The real service answers 400 here, not 403.
    pub(super) fn expired() -> Self {
        Self::new(400, "ExpiredToken", "invalid", "The provided token has expired.")
    }

    /// Nobody in particular asks.
    pub(super) fn anonymous(permission: &str, api: Api) -> Self {
        let details = format!("Anonymous caller does not have {permission} access.");
        match api {
            Api::Xml => Self::new(403, "AccessDenied", "forbidden", "Access denied.").details(details),
            Api::Json => Self {
                location: Some("Authorization"),
                ..Self::new(401, "AuthenticationRequired", "required", &details)
            },
        }
    }

    /// A token that is unknown or good no more.
    pub(super) fn credentials() -> Self {
        Self {
            location: Some("Authorization"),
            ..Self::new(401, "AuthenticationRequired", "authError", "Invalid Credentials")
        }
    }

    pub(super) fn denied(who: &str, permission: &str) -> Self {
        let details = format!(
            "{who} does not have {permission} access. Permission '{permission}' denied on resource (or it may not \
             exist)."
        );
        Self::new(403, "AccessDenied", "forbidden", "Access denied.").details(details)
    }

    pub(super) fn no_bucket() -> Self {
        Self::new(404, "NoSuchBucket", "notFound", "The specified bucket does not exist.")
    }

    pub(super) fn no_object(bucket: &str, object: &str) -> Self {
        Self::new(404, "NoSuchKey", "notFound", "The specified key does not exist.")
            .details(format!("No such object: {bucket}/{object}"))
    }

    pub(super) fn no_upload() -> Self {
        Self::new(404, "NoSuchUpload", "notFound", "The requested upload was not found.")
    }

    pub(super) fn condition() -> Self {
        Self {
            location: Some("If-Match"),
            ..Self::new(
                412,
                "PreconditionFailed",
                "conditionNotMet",
                "At least one of the pre-conditions you specified did not hold.",
            )
        }
    }

    pub(super) fn not_implemented(details: &str) -> Self {
        Self::new(
            400,
            "NotImplemented",
            "notImplemented",
            "A header or query you provided requested a function that is not implemented.",
        )
        .details(details.to_owned())
    }

    pub(super) fn digest(name: &str, said: &str, computed: &str) -> Self {
        let message = format!("The {name} you specified did not match what we computed.");
        Self::new(400, "BadDigest", "invalid", &message).details(format!(
            "The {name} you specified in Content-MD5 or x-goog-hash was '{said}', but we computed '{computed}'."
        ))
    }

    pub(super) fn digest_unreadable(header: &str) -> Self {
        let message = format!("The {header} you specified was invalid.");
        Self::new(400, "InvalidDigest", "invalid", &message).details(format!("{header} is not a digest."))
    }

    pub(super) fn malformed_xml(details: &str) -> Self {
        let message = "The XML you provided was not well-formed or did not validate.";
        Self::new(400, "MalformedXML", "invalid", message).details(details.to_owned())
    }

    pub(super) fn part(details: String) -> Self {
        Self::new(
            400,
            "InvalidPart",
            "invalid",
            "One or more of the specified parts could not be found. The part may not have been uploaded, or the \
             specified entity tag may not match the part's entity tag.",
        )
        .details(details)
    }

    pub(super) fn part_order() -> Self {
        let message = "The list of parts was not in ascending order. Parts must be ordered by part number.";
        Self::new(400, "InvalidPartOrder", "invalid", message).details(String::new())
    }

    pub(super) fn part_small(number: u16, length: u64) -> Self {
        let message = "Your proposed upload is smaller than the minimum allowed size.";
        Self::new(400, "EntityTooSmall", "invalid", message).details(format!(
            "Part {number} has {length} bytes; only the last one may have fewer than 5242880."
        ))
    }

    pub(super) fn range(length: u64) -> Self {
        Self {
            range: Some(format!("bytes */{length}").into()),
            ..Self::new(
                416,
                "InvalidRange",
                "requestedRangeNotSatisfiable",
                "The requested range cannot be satisfied.",
            )
        }
    }

    pub(super) fn method() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "methodNotAllowed",
            "The specified method is not allowed against this resource.",
        )
    }

    /// The service's own trouble.
    pub(super) fn trouble(status: u16) -> Self {
        match status {
            429 => Self::new(429, "SlowDown", "rateLimitExceeded", "Please reduce your request rate."),
            503 => Self::new(503, "ServiceUnavailable", "backendError", "Please reduce your request rate."),
            other => Self::new(
                other,
                "InternalError",
                "backendError",
                "We encountered an internal error. Please try again.",
            ),
        }
    }

    /// The XML API's answer that says it, and seems to be a success.
    pub(super) fn inside(&self) -> Response {
        let mut response = self.answer(Api::Xml);
        *response.status_mut() = StatusCode::OK;
        response
    }

    /// The answer that says it.
    pub(super) fn answer(&self, api: Api) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = match api {
            Api::Xml => {
                let text = [("Code", self.code), ("Message", &self.message), ("Details", &self.details)];
                let body = xml::element("Error", &text.map(|(name, text)| xml::leaf(name, text)).concat());
                (status, [(header::CONTENT_TYPE, xml::TYPE)], xml::document(&body)).into_response()
            }
            Api::Json => {
                let message = if self.details.is_empty() { &self.message } else { &self.details };
                let mut error = json!({"message": message, "domain": "global", "reason": self.reason});
                if let Some(place) = self.location {
                    error["locationType"] = "header".into();
                    error["location"] = place.into();
                }
                let body = json!({"error": {"code": self.status, "message": message, "errors": [error]}});
                (status, axum::Json(body)).into_response()
            }
        };
        if let Some(Ok(range)) = self.range.as_deref().map(HeaderValue::from_str) {
            response.headers_mut().insert(WHOLE, range);
        }
        response
    }
}
