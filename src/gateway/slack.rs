//! Slack's incoming webhook: one message, one answer, and what the answer means.
//!
//! The webhook's URL is the secret itself: no error, no `Debug` and no log line shows it. If we die while a message
//! is on its way, Slack may have taken it: the caller must be able to repeat it. The client never repeats anything
//! by itself, never follows a redirect, and reads no more of an answer than a line.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::fmt::rfc2822;
use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};

use crate::config::secret::Secret;
use crate::ports::{Posted, Webhook};
use crate::scrub::scrub;

/// Most that is read of an answer, in bytes.
const ANSWER_LIMIT: usize = 1024;
/// Most of an answer that is repeated, in characters.
const SAID_LIMIT: usize = 100;
/// Pause after a 429 without a usable `Retry-After`.
const USUAL_PAUSE: Duration = Duration::from_secs(30);
/// Bounds between which Slack's pauses are believed.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// A webhook that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SlackError {
    /// The text is no https URL. The error does not show it.
    #[error("what the webhook file holds is no https URL")]
    NotAnUrl,
    /// No client can be made.
    #[error("no HTTPS client for Slack can be made: {0}")]
    Client(String),
}

/// The one client of an incoming webhook.
pub struct Slack {
    client: reqwest::Client,
    webhook: Secret,
    channel: String,
}

impl fmt::Debug for Slack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slack").field("webhook", &self.webhook).field("channel", &self.channel).finish()
    }
}

impl Slack {
    /// A client for `webhook`; `channel` goes with every message (a webhook may ignore it), `timeout` bounds one
    /// request. Connects to nothing.
    ///
    /// # Errors
    /// [`SlackError`].
    pub fn new(webhook: &Secret, channel: &str, timeout: Duration) -> Result<Self, SlackError> {
        let webhook = Secret::new(webhook.expose().trim());
        if !is_webhook(webhook.expose()) {
            return Err(SlackError::NotAnUrl);
        }
        let client = reqwest::Client::builder()
            .timeout(timeout)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| SlackError::Client(error.without_url().to_string()))?;
        Ok(Self { client, webhook, channel: channel.to_owned() })
    }

    async fn posted(&self, text: &str) -> Posted {
        let mut message = serde_json::json!({ "text": text });
        if !self.channel.is_empty() {
            message["channel"] = self.channel.clone().into();
        }
        let mut answer = match self.client.post(self.webhook.expose()).json(&message).send().await {
            Ok(answer) => answer,
            Err(error) => return Posted::Retry(self.shown(error)),
        };
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let mut body = Vec::new();
        while body.len() < ANSWER_LIMIT {
            match answer.chunk().await {
                Ok(Some(chunk)) => {
                    body.extend_from_slice(&chunk[..chunk.len().min(ANSWER_LIMIT - body.len())]);
                }
                Ok(None) => break,
                Err(error) => return Posted::Retry(self.shown(error)),
            }
        }
        classify(status, &self.clean(&String::from_utf8_lossy(&body)), &headers)
    }

    /// The cause of a failed request, without the URL: that is the secret.
    fn shown(&self, error: reqwest::Error) -> String {
        if error.is_timeout() {
            return "no answer in time".to_owned();
        }
        let error = error.without_url();
        let mut cause: &dyn std::error::Error = &error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        let kind = if error.is_connect() { "cannot be reached" } else { "the connection broke" };
        self.clean(&format!("{kind}: {cause}"))
    }

    /// The text on one line, bounded, and without the secret, even where Slack repeats it.
    fn clean(&self, text: &str) -> String {
        let mut text = text.replace(self.webhook.expose(), "<webhook>");
        if let Ok(url) = url::Url::parse(self.webhook.expose())
            && url.path().len() > 1
        {
            text = text.replace(url.path(), "<webhook>");
        }
        let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        scrub(line.trim()).chars().take(SAID_LIMIT).collect()
    }
}

impl Webhook for Slack {
    fn post<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Posted> {
        self.posted(text).boxed()
    }
}

/// An https URL with a host; plain http only on this machine, where a test listens.
fn is_webhook(text: &str) -> bool {
    let Ok(url) = url::Url::parse(text) else { return false };
    let loopback = match url.host() {
        Some(url::Host::Ipv4(ip)) => IpAddr::V4(ip).is_loopback(),
        Some(url::Host::Ipv6(ip)) => IpAddr::V6(ip).is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => return false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && loopback)
}

/// The one classifier of Slack's answers. `body` is clean already.
fn classify(status: u16, body: &str, headers: &HeaderMap) -> Posted {
    let said = || format!("Slack answered {status}: {body}");
    match status {
        200..=299 if body == "ok" => Posted::Sent,
        // A proxy between us and Slack, or no webhook of Slack's at all: not confirmed.
        200..=299 => Posted::Retry(said()),
        429 => Posted::RetryAfter(pause(headers).unwrap_or(USUAL_PAUSE)),
        408 | 500..=599 => pause(headers).map_or_else(|| Posted::Retry(said()), Posted::RetryAfter),
        // The payload: `invalid_payload`, `no_text`, `msg_too_long`, …
        400 | 413 | 422 => Posted::Rejected { said: said(), only_this: true },
        // The webhook, the channel, the workspace: `no_service`, `invalid_token`, `channel_is_archived`, …
        _ => Posted::Rejected { said: said(), only_this: false },
    }
}

/// `Retry-After`, in seconds or as a date. A date counts from the answer's own `Date`: our clock plays no part.
fn pause(headers: &HeaderMap) -> Option<Duration> {
    let header = |name: &HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    let asked = header(&RETRY_AFTER)?;
    let pause = if let Ok(seconds) = asked.parse() {
        Duration::from_secs(seconds)
    } else {
        let (until, now) = (rfc2822::parse(asked).ok()?, rfc2822::parse(header(&DATE)?).ok()?);
        Duration::try_from(until.timestamp().duration_since(now.timestamp())).unwrap_or_default()
    };
    Some(pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_means_one_thing() {
        let after = |seconds| Posted::RetryAfter(Duration::from_secs(seconds));
        let retry = |status: u16, body: &str| Posted::Retry(format!("Slack answered {status}: {body}"));
        let rejected = |status: u16, body: &str, only_this| Posted::Rejected {
            said: format!("Slack answered {status}: {body}"),
            only_this,
        };
        let (date, later) = ("Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:30:00 GMT");
        // Status, body, Retry-After, Date.
        type Case = (u16, &'static str, Option<&'static str>, Option<&'static str>, Posted);
        let cases: [Case; 24] = [
            (200, "ok", None, None, Posted::Sent),
            (200, "<html>log in</html>", None, None, retry(200, "<html>log in</html>")),
            (204, "", None, None, retry(204, "")),
            (429, "rate_limited", Some("7"), None, after(7)),
            (429, "rate_limited", Some(" 7 "), None, after(7)),
            (429, "rate_limited", Some("0"), None, after(1)),
            (429, "rate_limited", Some("999999999"), None, after(3600)),
            (429, "rate_limited", None, None, after(30)),
            (429, "rate_limited", Some("soon"), None, after(30)),
            (429, "rate_limited", Some("-5"), None, after(30)),
            (429, "rate_limited", Some(later), Some(date), after(120)),
            (429, "rate_limited", Some(date), Some(later), after(1)),
            (429, "rate_limited", Some(later), None, after(30)),
            (503, "unavailable", Some("9"), None, after(9)),
            (503, "unavailable", None, None, retry(503, "unavailable")),
            (500, "rollup_error", None, None, retry(500, "rollup_error")),
            (408, "", None, None, retry(408, "")),
            (400, "invalid_payload", None, None, rejected(400, "invalid_payload", true)),
            (400, "msg_too_long", None, None, rejected(400, "msg_too_long", true)),
            (413, "too large", None, None, rejected(413, "too large", true)),
            (403, "invalid_token", None, None, rejected(403, "invalid_token", false)),
            (404, "no_service", Some("9"), None, rejected(404, "no_service", false)),
            (410, "channel_is_archived", None, None, rejected(410, "channel_is_archived", false)),
            (302, "", None, None, rejected(302, "", false)),
        ];
        for (status, body, retry_after, date, expected) in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in [(RETRY_AFTER, retry_after), (DATE, date)] {
                if let Some(value) = value {
                    headers.insert(name, value.parse().expect("a header"));
                }
            }
            assert_eq!(classify(status, body, &headers), expected, "{status} {body} {retry_after:?}");
        }
    }

    #[test]
    fn webhooks_are_https_unless_they_stay_here() {
        for (text, expected) in [
            ("https://hooks.slack.com/services/T/B/x", true),
            ("http://127.0.0.1:9/hook", true),
            ("http://[::1]:9/hook", true),
            ("http://localhost/hook", true),
            ("http://hooks.slack.com/services/T/B/x", false),
            ("hooks.slack.com/services", false),
            ("", false),
        ] {
            assert_eq!(is_webhook(text), expected, "{text}");
        }
    }

    #[tokio::test]
    async fn whatever_goes_wrong_the_secret_is_not_told() {
        let secret = "https://127.0.0.1:1/services/T0/B0/s3cr3t";
        let slack =
            Slack::new(&Secret::new(format!("{secret}\n")), "#c", Duration::from_secs(5)).expect("a client");
        let Posted::Retry(shown) = slack.post("x").await else { panic!("nobody listens there") };
        assert!(shown.contains("cannot be reached"), "{shown}");
        let repeated = slack.clean(&format!("no {secret} here, nor /services/T0/B0/s3cr3t, a@b.test"));
        assert_eq!(repeated, "no <webhook> here, nor <webhook>, <address>");
        for shown in [shown, format!("{slack:?}")] {
            assert!(!shown.contains("s3cr3t"), "{shown}");
        }
        let no_url = Slack::new(&Secret::new("s3cr3t"), "", Duration::from_secs(5)).expect_err("no URL");
        assert!(!no_url.to_string().contains("s3cr3t"));
    }
}
