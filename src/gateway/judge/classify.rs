//! The one classifier of a judge's answers: away, refused for a reason that a person mends, about this content alone. Pure.

use std::time::Duration;

use jiff::fmt::rfc2822;
use serde::Deserialize;

use crate::kernel::words;
use crate::ports::InvalidAnswer;

/// Bounds between which a wait is believed.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

words! {
    /// Why there was no answer.
    Cause {
        /// No connection was made.
        Connect = "connect",
        /// No answer in time, or not all of it.
        Timeout = "timeout",
        /// The connection broke before or within the answer.
        Broken = "broken",
        /// The judge wants fewer questions (429).
        Throttled = "throttled",
        /// The server is in trouble (408, 409, 425, 5xx).
        Trouble = "trouble",
    }
}

/// Why there is no verdict. Shows neither content nor the server's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JudgeError {
    /// Nobody answered; the same question may be answered later.
    #[error("the judge cannot be asked now ({cause}); it is asked again")]
    Unavailable {
        /// Why.
        cause: Cause,
        /// The wait that the server asks for.
        retry_after: Option<Duration>,
    },
    /// The judge answers no question of ours: address, key, model or parameters. A person has to act.
    #[error("the judge refuses our questions ({status}); check base_url, model and key of [{section}]")]
    Refused {
        /// The configuration's section.
        section: &'static str,
        /// The status.
        status: u16,
    },
    /// This content is longer than this judge can read; others are answered.
    #[error("the content is longer than the judge can read; a person has to look at it")]
    TooLarge,
    /// An answer that says nothing.
    #[error("the judge's answer is none ({0})")]
    Invalid(InvalidAnswer),
}

/// A request that ended without an answer: too late, or without a connection, or in the middle.
pub(in crate::gateway) fn broken(is_timeout: bool, is_connect: bool) -> JudgeError {
    let cause = match (is_timeout, is_connect) {
        (true, _) => Cause::Timeout,
        (false, true) => Cause::Connect,
        (false, false) => Cause::Broken,
    };
    JudgeError::Unavailable { cause, retry_after: None }
}

/// What a status means that is no success.
pub(in crate::gateway) fn refusal(
    status: u16,
    wait: Option<Duration>,
    body: &[u8],
    section: &'static str,
) -> JudgeError {
    match status {
        429 => JudgeError::Unavailable { cause: Cause::Throttled, retry_after: wait },
        408 | 409 | 425 | 500..=599 => JudgeError::Unavailable { cause: Cause::Trouble, retry_after: wait },
        413 => JudgeError::TooLarge,
        400 | 422 => match About::of(body) {
            About::Length => JudgeError::TooLarge,
            About::Content => JudgeError::Invalid(InvalidAnswer::Refusal),
            About::Us => JudgeError::Refused { section, status },
        },
        _ => JudgeError::Refused { section, status },
    }
}

/// What a refused request is refused for. One long text must not look like a configuration that is wrong for all.
enum About {
    /// The question is longer than the model's window.
    Length,
    /// A filter before the model.
    Content,
    /// Anything else.
    Us,
}

#[derive(Deserialize, Default)]
struct Refusal {
    #[serde(default)]
    error: Words,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Words {
    code: serde_json::Value,
    message: serde_json::Value,
}

impl About {
    /// By the API's code; by its words where a server of the same API has no code (they are not repeated anywhere).
    fn of(body: &[u8]) -> Self {
        let Refusal { error } = serde_json::from_slice(body).unwrap_or_default();
        let message = error.message.as_str().unwrap_or_default();
        match error.code.as_str() {
            Some("context_length_exceeded" | "string_above_max_length") => Self::Length,
            Some("content_filter" | "content_policy_violation") => Self::Content,
            _ if message.contains("maximum context length") => Self::Length,
            _ => Self::Us,
        }
    }
}

/// `Retry-After`, in seconds or as a date. A date counts from the answer's own `Date`: our clock plays no part.
pub(in crate::gateway) fn wait(retry_after: Option<&str>, date: Option<&str>) -> Option<Duration> {
    let asked = retry_after?.trim();
    let digits = !asked.is_empty() && asked.bytes().all(|b| b.is_ascii_digit());
    let wait = if digits {
        asked.parse().map_or(LONGEST_WAIT, Duration::from_secs)
    } else {
        let (until, now) = (rfc2822::parse(asked).ok()?, rfc2822::parse(date?.trim()).ok()?);
        Duration::try_from(until.timestamp().duration_since(now.timestamp())).unwrap_or_default()
    };
    Some(wait.clamp(SHORTEST_WAIT, LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_means_one_thing() {
        let away = |cause| JudgeError::Unavailable { cause, retry_after: None };
        let section = "screening.judge";
        let us = |status| JudgeError::Refused { section, status };
        let long = r#"{"error": {"message": "…", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}}"#;
        let vllm = r#"{"error": {"message": "This model's maximum context length is 8192 tokens.", "type": "BadRequestError", "param": null, "code": 400}}"#;
        let filtered = r#"{"error": {"message": "…", "code": "content_filter"}}"#;
        let wrong = r#"{"error": {"message": "Unknown parameter", "code": "unknown_parameter"}}"#;
        for (status, body, expected) in [
            (400, long, JudgeError::TooLarge),
            (400, vllm, JudgeError::TooLarge),
            (422, long, JudgeError::TooLarge),
            (413, "", JudgeError::TooLarge),
            (400, filtered, JudgeError::Invalid(InvalidAnswer::Refusal)),
            (400, wrong, us(400)),
            (400, "", us(400)),
            (400, "<html>", us(400)),
            (400, r#"{"error": "maximum context length"}"#, us(400)),
            (400, r#"{"error": null}"#, us(400)),
            (422, "", us(422)),
            (401, long, us(401)),
            (402, "", us(402)),
            (403, "", us(403)),
            (404, "", us(404)),
            (405, "", us(405)),
            (301, "", us(301)),
            (302, "", us(302)),
            (307, "", us(307)),
            (304, "", us(304)),
            (700, "", us(700)),
            (429, long, away(Cause::Throttled)),
            (408, "", away(Cause::Trouble)),
            (500, long, away(Cause::Trouble)),
            (502, "<html>", away(Cause::Trouble)),
            (503, "", away(Cause::Trouble)),
            (599, "", away(Cause::Trouble)),
        ] {
            let found = refusal(status, None, body.as_bytes(), section);
            assert_eq!(found, expected, "{status} {body}");
            assert!(!found.to_string().contains("maximum") && !format!("{found:?}").contains("html"));
        }
        let wait = Some(Duration::from_secs(7));
        for status in [429, 503] {
            let found = refusal(status, wait, b"", section);
            assert!(
                matches!(found, JudgeError::Unavailable { retry_after, .. } if retry_after == wait),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_wait_is_believed_within_bounds() {
        let (date, later) = ("Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:30:00 GMT");
        for (asked, now, expected) in [
            (Some("7"), None, Some(7)),
            (Some(" 7 "), None, Some(7)),
            (Some("0"), None, Some(1)),
            (Some("999999999"), None, Some(3600)),
            (Some("99999999999999999999999"), None, Some(3600)),
            (Some("-5"), None, None),
            (Some("soon"), None, None),
            (Some(""), None, None),
            (Some(later), Some(date), Some(120)),
            (Some(date), Some(later), Some(1)),
            (Some(later), None, None),
            (None, Some(date), None),
        ] {
            assert_eq!(wait(asked, now), expected.map(Duration::from_secs), "{asked:?}");
        }
    }
}
