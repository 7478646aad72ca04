//! Slack's incoming webhook on loopback: takes what Slack would take, refuses as Slack would refuse, and keeps it.
//!
//! In memory, and where a directory is given as files, too. An `ok` is sent only for a message that was kept, so
//! "confirmed" and "received" can be compared.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::Value;
use tokio::sync::Notify;
use uuid::Uuid;

pub use crate::google::{Mishap, Script};
use crate::google::{Step, loopback::Server};

/// Longest `text`, in characters.
const TEXT_LIMIT: usize = 40_000;
/// Most blocks in a message.
const BLOCK_LIMIT: usize = 50;
/// Longest text object of a section, in characters.
const SECTION_LIMIT: usize = 3_000;
/// Longest text of a header block, in characters.
const HEADER_LIMIT: usize = 150;
/// Largest request body, in bytes.
const BODY_LIMIT: usize = 1024 * 1024;

/// One message that Slack confirmed.
#[derive(Debug, Clone, PartialEq)]
pub struct SlackMessage {
    /// The `text`; empty when there were only blocks.
    pub text: String,
    /// The whole payload.
    pub payload: Value,
}

impl SlackMessage {
    /// All text a reader would see: `text` and the texts of the blocks, one a line.
    #[must_use]
    pub fn visible_text(&self) -> String {
        let mut lines = vec![self.text.clone()];
        collect_texts(self.payload.get("blocks").unwrap_or(&Value::Null), &mut lines);
        collect_texts(self.payload.get("attachments").unwrap_or(&Value::Null), &mut lines);
        lines.retain(|line| !line.is_empty());
        lines.join("\n")
    }
}

#[derive(Debug, Default)]
struct Inbox {
    secret: String,
    /// Each message becomes `NN.txt`, what a reader sees, and `NN.json`, the payload.
    dir: Option<PathBuf>,
    script: Script,
    attempts: AtomicU64,
    messages: Mutex<Vec<SlackMessage>>,
    arrived: Notify,
}

/// An incoming webhook of a workspace that exists in this process only.
#[derive(Debug)]
pub struct SlackFake {
    inbox: Arc<Inbox>,
    address: SocketAddr,
    server: Option<Server>,
}

impl SlackFake {
    /// Starts on a free loopback port.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start() -> Result<Self> {
        Self::keeping(None).await
    }

    /// The same; each message is also written into `dir`, where one is given: `01.txt` as a reader sees it, `01.json` as it
    /// was posted.
    ///
    /// # Errors
    /// When no port can be had, or no such directory.
    #[expect(clippy::disallowed_methods, reason = "the secret must only be unlike any other")]
    pub async fn keeping(dir: Option<PathBuf>) -> Result<Self> {
        if let Some(dir) = &dir {
            std::fs::create_dir_all(dir)?;
        }
        let secret = Uuid::new_v4().simple().to_string();
        let inbox = Arc::new(Inbox { secret, dir, ..Inbox::default() });
        let server = Server::start(router(Arc::clone(&inbox))).await?;
        Ok(Self { inbox, address: server.address(), server: Some(server) })
    }

    /// The secret URL, in Slack's form.
    #[must_use]
    pub fn webhook_url(&self) -> String {
        format!("http://{}/services/T00000000/B00000000/{}", self.address, self.inbox.secret)
    }

    /// Confirmed messages, oldest first.
    #[must_use]
    pub fn messages(&self) -> Vec<SlackMessage> {
        self.inbox.messages.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets what was confirmed.
    pub fn clear_messages(&self) {
        self.inbox.messages.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Requests that arrived, refused and scripted ones included.
    #[must_use]
    pub fn attempts(&self) -> u64 {
        self.inbox.attempts.load(Ordering::Relaxed)
    }

    /// Faults of the next requests: [`Mishap::RetryAfter`] for 429, [`Mishap::Status`], [`Mishap::Hang`].
    #[must_use]
    pub fn script(&self) -> &Script {
        &self.inbox.script
    }

    /// Waits until at least `count` messages were confirmed, and gives them all.
    ///
    /// # Errors
    /// When fewer came in time.
    pub async fn wait_for(&self, count: usize, patience: Duration) -> Result<Vec<SlackMessage>> {
        let enough = async {
            loop {
                let arrived = self.inbox.arrived.notified();
                let messages = self.messages();
                if messages.len() >= count {
                    return messages;
                }
                arrived.await;
            }
        };
        match tokio::time::timeout(patience, enough).await {
            Ok(messages) => Ok(messages),
            Err(_) => {
                bail!("{} of {count} messages reached Slack within {patience:?}", self.messages().len())
            }
        }
    }

    /// Slack is gone: connects are refused.
    pub async fn down(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.stop().await;
        }
    }

    /// Slack is back, at the same URL.
    ///
    /// # Errors
    /// When the port has been taken meanwhile.
    pub async fn up(&mut self) -> Result<()> {
        if self.server.is_none() {
            self.server = Some(Server::start_at(self.address, router(Arc::clone(&self.inbox))).await?);
        }
        Ok(())
    }
}

impl Inbox {
    /// Keeps a message, on disk first: a message that cannot be written is not confirmed.
    fn keep(&self, message: SlackMessage) -> std::io::Result<()> {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dir) = &self.dir {
            let number = messages.len() + 1;
            std::fs::write(dir.join(format!("{number:02}.json")), format!("{:#}\n", message.payload))?;
            std::fs::write(dir.join(format!("{number:02}.txt")), format!("{}\n", message.visible_text()))?;
        }
        messages.push(message);
        Ok(())
    }
}

fn router(inbox: Arc<Inbox>) -> Router {
    Router::new()
        .route("/services/{team}/{integration}/{secret}", post(receive))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(inbox)
}

async fn receive(
    State(inbox): State<Arc<Inbox>>,
    Path((_team, _integration, secret)): Path<(String, String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    inbox.attempts.fetch_add(1, Ordering::Relaxed);
    if let Step::Fail(status, retry_after) = inbox.script.step().await {
        let word = match status {
            403 => "action_prohibited",
            404 => "no_service",
            410 => "channel_is_archived",
            429 => "rate_limited",
            _ => "rollup_error",
        };
        let mut response = refuse(status, word);
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        return response;
    }
    if secret != inbox.secret {
        return refuse(403, "invalid_token");
    }
    let content_type =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/json") {
        return refuse(400, "invalid_payload");
    }
    let Ok(payload) = serde_json::from_slice::<Value>(&body) else {
        return refuse(400, "invalid_payload");
    };
    if let Err(word) = judge(&payload) {
        return refuse(400, word);
    }
    let text = payload.get("text").and_then(Value::as_str).unwrap_or_default().to_owned();
    if inbox.keep(SlackMessage { text, payload }).is_err() {
        return refuse(500, "rollup_error");
    }
    inbox.arrived.notify_waiters();
    "ok".into_response()
}

/// Whether Slack would take this payload; else the word it answers.
fn judge(payload: &Value) -> Result<(), &'static str> {
    let Some(object) = payload.as_object() else {
        return Err("invalid_payload");
    };
    let text = match object.get("text") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.as_str()).filter(|text| !text.trim().is_empty()),
        Some(_) => return Err("invalid_payload"),
    };
    let blocks = match object.get("blocks") {
        None | Some(Value::Null) => &[][..],
        Some(Value::Array(blocks)) => blocks.as_slice(),
        Some(_) => return Err("invalid_blocks"),
    };
    let attachments =
        object.get("attachments").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if text.is_none() && blocks.is_empty() && !attachments {
        return Err("no_text");
    }
    if text.is_some_and(|text| text.chars().count() > TEXT_LIMIT) {
        return Err("msg_too_long");
    }
    if blocks.len() > BLOCK_LIMIT || !blocks.iter().all(block_fits) {
        return Err("invalid_blocks");
    }
    Ok(())
}

fn block_fits(block: &Value) -> bool {
    let length = |value: &Value| value.get("text").and_then(Value::as_str).map(|text| text.chars().count());
    let limit = match block.get("type").and_then(Value::as_str) {
        None => return false,
        Some("header") => HEADER_LIMIT,
        Some(_) => SECTION_LIMIT,
    };
    let own =
        block.get("text").is_none_or(|text| length(text).is_some_and(|count| (1..=limit).contains(&count)));
    let fields = block.get("fields").and_then(Value::as_array).is_none_or(|fields| fields.len() <= 10);
    own && fields
}

/// Every string under a key `text`, in order.
fn collect_texts(value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, lines)),
        Value::Object(map) => {
            for (key, inner) in map {
                match inner {
                    Value::String(text) if key == "text" => lines.push(text.clone()),
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
                    Value::Array(_) | Value::Object(_) => collect_texts(inner, lines),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn refuse(status: u16, word: &'static str) -> Response {
    (StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), word).into_response()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn slack_takes_and_refuses() {
        let long = "x".repeat(TEXT_LIMIT + 1);
        let section = |text: &str| json!({"type": "section", "text": {"type": "mrkdwn", "text": text}});
        let cases = [
            (json!({"text": "hello"}), Ok(())),
            (json!({"blocks": [section("hello")]}), Ok(())),
            (json!({"text": "  "}), Err("no_text")),
            (json!({}), Err("no_text")),
            (json!([1]), Err("invalid_payload")),
            (json!({"text": 7}), Err("invalid_payload")),
            (json!({"text": long}), Err("msg_too_long")),
            (json!({"blocks": vec![section("a"); BLOCK_LIMIT + 1]}), Err("invalid_blocks")),
            (json!({"blocks": [section(&"y".repeat(SECTION_LIMIT + 1))]}), Err("invalid_blocks")),
            (json!({"blocks": [section("")]}), Err("invalid_blocks")),
        ];
        for (payload, expected) in cases {
            assert_eq!(
                judge(&payload),
                expected,
                "{}",
                payload.to_string().chars().take(80).collect::<String>()
            );
        }
    }

    #[tokio::test]
    async fn a_message_is_a_file_to_read_and_one_that_cannot_be_written_is_not_confirmed() {
        let dir = tempfile::tempdir().unwrap();
        let inbox = dir.path().join("slack");
        let slack = SlackFake::keeping(Some(inbox.clone())).await.unwrap();
        let payload = json!({"text": "one\ntwo"});
        let post = async || {
            let sent = reqwest::Client::new().post(slack.webhook_url()).json(&payload).send().await;
            sent.unwrap().status().as_u16()
        };
        assert_eq!(post().await, 200);
        assert_eq!(std::fs::read_to_string(inbox.join("01.txt")).unwrap(), "one\ntwo\n");
        let kept = std::fs::read(inbox.join("01.json")).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&kept).unwrap(), payload);
        std::fs::remove_dir_all(&inbox).unwrap();
        assert_eq!((post().await, slack.messages().len()), (500, 1));
    }

    #[tokio::test]
    async fn confirmed_means_kept_and_a_script_comes_first() {
        let mut slack = SlackFake::start().await.unwrap();
        let client = reqwest::Client::new();
        let post = async |body: Value| client.post(slack.webhook_url()).json(&body).send().await.unwrap();

        slack.script().next(1, Mishap::RetryAfter(3));
        let limited = post(json!({"text": "first"})).await;
        assert_eq!(limited.status(), 429);
        assert_eq!(limited.headers()["retry-after"], "3");
        assert!(slack.messages().is_empty());

        let taken = post(json!({"text": "second"})).await;
        assert_eq!((taken.status().as_u16(), taken.text().await.unwrap().as_str()), (200, "ok"));
        let kept = slack.wait_for(1, Duration::from_secs(5)).await.unwrap();
        assert_eq!(kept[0].visible_text(), "second");

        let form = client.post(slack.webhook_url()).body("text=third").send().await.unwrap();
        assert_eq!((form.status().as_u16(), form.text().await.unwrap().as_str()), (400, "invalid_payload"));
        let elsewhere = format!("{}x", slack.webhook_url());
        let stranger = client.post(elsewhere).json(&json!({"text": "x"})).send().await.unwrap();
        assert_eq!(stranger.status(), 403);
        assert_eq!(client.get(slack.webhook_url()).send().await.unwrap().status(), 405);

        slack.down().await;
        assert!(
            client
                .post(slack.webhook_url())
                .json(&json!({"text": "x"}))
                .send()
                .await
                .unwrap_err()
                .is_connect()
        );
        slack.up().await.unwrap();
        assert_eq!(
            client.post(slack.webhook_url()).json(&json!({"text": "back"})).send().await.unwrap().status(),
            200
        );
        assert_eq!(slack.messages().len(), 2);
        assert_eq!(slack.attempts(), 5);
    }
}
