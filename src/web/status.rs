//! Classes of statuses: the label by which a surface's metrics count its answers. Pure.

use axum::http::StatusCode;

use crate::kernel::words;

words! {
    /// The class of a status.
    Status {
        /// Done.
        Done = "2xx",
        /// Elsewhere.
        Elsewhere = "3xx",
        /// Refused.
        Refused = "4xx",
        /// Failed.
        Failed = "5xx",
    }
}

impl Status {
    /// The class of `status`.
    #[must_use]
    pub fn of(status: StatusCode) -> Self {
        match status.as_u16() {
            ..300 => Self::Done,
            300..400 => Self::Elsewhere,
            400..500 => Self::Refused,
            500.. => Self::Failed,
        }
    }
}
