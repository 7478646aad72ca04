//! Line `slack`: whether alerts can reach anybody; with `--send`, by posting one.
//!
//! The webhook's URL is a secret: no line and no error shows it.

use std::time::Duration;

use crate::config::Config;
use crate::ports::CheckLine;

const NAME: &str = "slack";

/// Looks at the webhook, and posts to it where `send` says so.
pub(super) async fn line(config: &Config, send: bool) -> CheckLine {
    let webhook = match config.slack_webhook() {
        Ok(Some(found)) => found.secret,
        Ok(None) => {
            return CheckLine::warn(
                NAME,
                "no webhook is configured: alerts, which a later version sends, will reach nobody",
                "put the incoming webhook's URL into a file and name it in slack.webhook_file, or pass the credential slack-webhook",
            );
        }
        Err(_) => return super::not_tried(NAME, "the webhook cannot be read", "secrets"),
    };
    if !is_webhook(webhook.expose()) {
        return CheckLine::fail(
            NAME,
            "what the webhook file holds is no https URL",
            "copy the incoming webhook's whole URL, https://hooks.slack.com/services/…, on one line",
        );
    }
    if !send {
        return CheckLine::ok(NAME, "a webhook is configured; `check --send` posts to it");
    }
    match post(webhook.expose(), &config.slack.channel, config.slack.timeout).await {
        Ok(()) => CheckLine::ok(NAME, "the test message was accepted"),
        Err(detail) => {
            CheckLine::fail(NAME, detail, "see whether the webhook still exists and this host may reach it")
        }
    }
}

/// An https URL with a host; plain http only on this machine, where a test listens.
fn is_webhook(text: &str) -> bool {
    let Ok(url) = url::Url::parse(text) else { return false };
    let loopback = match url.host() {
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => return false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && loopback)
}

/// Posts a test message. The error never holds the URL: it is a secret.
async fn post(url: &str, channel: &str, timeout: Duration) -> Result<(), String> {
    let told =
        |error: reqwest::Error| format!("the test message could not be posted: {}", error.without_url());
    let client = reqwest::Client::builder().timeout(timeout).build().map_err(told)?;
    let mut message = serde_json::json!({ "text": "maple-router check: this is a test, nothing is wrong." });
    if !channel.is_empty() {
        message["channel"] = channel.into();
    }
    let answer = client.post(url).json(&message).send().await.map_err(told)?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let body: String = answer.text().await.unwrap_or_default().chars().take(100).collect();
    Err(format!("Slack answered {status}: {body}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks_are_https_unless_they_stay_here() {
        for (text, expected) in [
            ("https://hooks.slack.com/services/T/B/x", true),
            ("http://127.0.0.1:9/hook", true),
            ("http://localhost/hook", true),
            ("http://hooks.slack.com/services/T/B/x", false),
            ("hooks.slack.com/services", false),
            ("", false),
        ] {
            assert_eq!(is_webhook(text), expected, "{text}");
        }
    }
}
