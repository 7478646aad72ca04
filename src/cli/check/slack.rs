//! Line `slack`: whether alerts can reach anybody; with `--send`, by posting one through the daemon's own client.
//!
//! The webhook's URL is a secret: no line and no error shows it.

use crate::config::Config;
use crate::gateway::slack::Slack;
use crate::ports::{CheckLine, Posted, Webhook as _};

const NAME: &str = "slack";

/// Looks at the webhook, and posts to it where `send` says so.
pub(super) async fn line(config: &Config, send: bool) -> CheckLine {
    let webhook = match config.slack_webhook() {
        Ok(Some(found)) => found.secret,
        Ok(None) => {
            return CheckLine::warn(
                NAME,
                "no webhook is configured: failures will be alerted to nobody, and stay in `maple-router status` as unalerted",
                "put the incoming webhook's URL into a file and name it in slack.webhook_file, or pass the credential slack-webhook",
            );
        }
        Err(_) => return super::not_tried(NAME, "the webhook cannot be read", "secrets"),
    };
    let slack = match Slack::new(&webhook, &config.slack.channel, config.slack.timeout) {
        Ok(slack) => slack,
        Err(error) => {
            return CheckLine::fail(
                NAME,
                error.to_string(),
                "copy the incoming webhook's whole URL, https://hooks.slack.com/services/…, on one line",
            );
        }
    };
    if !send {
        return CheckLine::ok(NAME, "a webhook is configured; `check --send` posts to it");
    }
    let remedy = "see whether the webhook still exists and this host may reach it";
    match slack.post("maple-router check: this is a test, nothing is wrong.").await {
        Posted::Sent => CheckLine::ok(NAME, "the test message was accepted"),
        Posted::RetryAfter(pause) => CheckLine::fail(
            NAME,
            format!("Slack takes no more messages for {} s (429)", pause.as_secs()),
            "try again then; the daemon waits for as long by itself",
        ),
        Posted::Retry(said) | Posted::Rejected { said, .. } => {
            CheckLine::fail(NAME, format!("the test message could not be posted: {said}"), remedy)
        }
    }
}
