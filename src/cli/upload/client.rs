//! A client of the API, as anybody could write one. What may pass by itself is tried again, ever more slowly.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use futures::StreamExt as _;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use uuid::Uuid;

use super::file::Read;
use crate::cli::{CliError, Exit};

/// Attempts of one request, and the pause after the first failed one.
const TRIES: u32 = 8;
const PAUSE: Duration = Duration::from_millis(250);
/// Seconds that one look waits.
const WAIT: u64 = 20;

/// A session as the API shows it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Shown {
    pub(super) id: Uuid,
    pub(super) state: String,
    pub(super) part_size: u64,
    pub(super) parts: u64,
    #[serde(default)]
    pub(super) received: Vec<u64>,
    pub(super) verdict: Option<String>,
    pub(super) deduplicated: bool,
    pub(super) problem: Option<Value>,
}

/// A session as it was made.
#[derive(Debug, Deserialize)]
pub(super) struct Created {
    pub(super) id: Uuid,
    pub(super) token: String,
}

#[derive(Debug, Deserialize)]
struct Links {
    parts: Vec<Link>,
}

#[derive(Debug, Clone, Deserialize)]
struct Link {
    number: u64,
    url: String,
}

#[derive(Debug, Deserialize)]
struct Attached {
    attachment_id: Uuid,
}

/// The client, with the backend's key or a session's token.
#[derive(Clone)]
pub(super) struct Client {
    http: reqwest::Client,
    base: String,
    credential: String,
}

/// Why a request has no answer.
enum Failed {
    /// It may pass by itself.
    Passing(String),
    /// It will not.
    For(CliError),
}

impl Client {
    pub(super) fn new(base: &str, credential: &str) -> Result<Self, CliError> {
        let http = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(5))
            .read_timeout(Duration::from_secs(60))
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("maple-router/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| CliError::new(Exit::FoundWanting, anyhow::Error::from(error.without_url())))?;
        Ok(Self { http, base: base.trim_end_matches('/').to_owned(), credential: credential.to_owned() })
    }

    pub(super) fn with_token(&self, token: &str) -> Self {
        Self { credential: token.to_owned(), ..self.clone() }
    }

    pub(super) async fn create(
        &self,
        key: &str,
        read: &Read,
        owner: &str,
        form: &str,
        content_type: &str,
    ) -> Result<Created, CliError> {
        let wanted = json!({
            "form_id": form, "owner": owner, "file_name": read.name, "content_type": content_type, "length": read.length,
            "sha256": read.sha256,
        });
        self.ask(|| self.request(Method::POST, "").header("idempotency-key", key).json(&wanted)).await
    }

    pub(super) async fn show(&self, id: Uuid, wait: Duration) -> Result<Shown, CliError> {
        self.ask(|| self.request(Method::GET, &format!("/{id}?wait={}", wait.as_secs()))).await
    }

    pub(super) async fn attach(&self, id: Uuid, submission: Uuid) -> Result<Uuid, CliError> {
        let to = json!({"submission_id": submission});
        let attached: Attached =
            self.ask(|| self.request(Method::POST, &format!("/{id}/attach")).json(&to)).await?;
        Ok(attached.attachment_id)
    }

    /// Sends what the store does not have, and waits for the end. Returns the bytes that were sent.
    pub(super) async fn bring(
        &self,
        shown: &Shown,
        read: &Read,
        parallel: usize,
        told: impl Fn(u64),
    ) -> Result<(Shown, u64), CliError> {
        let sent = AtomicU64::new(0);
        if matches!(shown.state.as_str(), "initiated" | "parts_uploading") {
            let there: BTreeSet<u64> = shown.received.iter().copied().collect();
            let had = there.iter().map(|number| length_of(shown, read, *number)).sum::<u64>();
            told(had);
            let missing = (1..=shown.parts).filter(|number| !there.contains(number));
            let mut sending = futures::stream::iter(missing)
                .map(|number| self.send(shown, number, read))
                .buffer_unordered(parallel);
            while let Some(more) = sending.next().await {
                let more = more?;
                told(had + sent.fetch_add(more, Ordering::Relaxed) + more);
            }
            drop(sending);
            let said = json!({"sha256": read.sha256});
            let _: Value = self
                .ask(|| self.request(Method::POST, &format!("/{}/complete", shown.id)).json(&said))
                .await?;
        }
        loop {
            let shown = self.show(shown.id, Duration::from_secs(WAIT)).await?;
            if shown.state != "pending_commit" {
                return Ok((shown, sent.into_inner()));
            }
        }
    }

    /// Sends one part: its digest is made beside the parts that are on their way, and signed into its link, so that the store
    /// refuses other bytes. Returns its length.
    async fn send(&self, shown: &Shown, number: u64, read: &Read) -> Result<u64, CliError> {
        let (offset, length) = ((number - 1) * shown.part_size, length_of(shown, read, number));
        let bytes = Bytes::from(read.part(offset, length).await.map_err(unread)?);
        let content = bytes.clone();
        let digest = tokio::task::spawn_blocking(move || BASE64.encode(*md5::compute(&content))).await;
        let digest = digest.map_err(|error| CliError::new(Exit::FoundWanting, anyhow::Error::from(error)))?;
        let asked = json!({"numbers": [number], "md5": [digest]});
        let path = format!("/{}/parts", shown.id);
        let links: Links = self.ask(|| self.request(Method::POST, &path).json(&asked)).await?;
        let odd =
            || CliError::new(Exit::FoundWanting, anyhow::anyhow!("the API gives no link to part {number}"));
        let link = links.parts.first().ok_or_else(odd)?;
        again(|| self.put(link, &digest, bytes.clone())).await?;
        Ok(length)
    }

    async fn put(&self, link: &Link, digest: &str, bytes: Bytes) -> Result<(), Failed> {
        let answer = self
            .http
            .put(&link.url)
            .header("content-md5", digest)
            .body(bytes)
            .send()
            .await
            .map_err(passing)?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status if may_pass(status) => Err(Failed::Passing(format!("the store answers {status}"))),
            status => {
                let what = anyhow::anyhow!("the store refuses part {} ({status})", link.number);
                Err(Failed::For(
                    CliError::new(Exit::FoundWanting, what)
                        .remedy("repeat the command: it asks for fresh links"),
                ))
            }
        }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}/v1/uploads{path}", self.base)).bearer_auth(&self.credential)
    }

    async fn ask<T: DeserializeOwned>(&self, request: impl Fn() -> RequestBuilder) -> Result<T, CliError> {
        again(|| async {
            let answer = request().send().await.map_err(passing)?;
            let status = answer.status();
            let body = answer.bytes().await.map_err(passing)?;
            if status.is_success() {
                let odd = |_| {
                    Failed::For(CliError::new(
                        Exit::FoundWanting,
                        anyhow::anyhow!("the API answers what it should not"),
                    ))
                };
                return serde_json::from_slice(&body).map_err(odd);
            }
            let said = |name: &str| {
                let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
                problem.get(name).and_then(Value::as_str).map(str::to_owned)
            };
            let detail = said("detail").unwrap_or_else(|| format!("the API answers {status}"));
            if may_pass(status) {
                return Err(Failed::Passing(detail));
            }
            let error = CliError::new(Exit::FoundWanting, anyhow::anyhow!("{detail}"));
            Err(Failed::For(match said("remedy") {
                Some(remedy) => error.remedy(remedy),
                None => error,
            }))
        })
        .await
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
fn unread(error: std::io::Error) -> CliError {
    CliError::new(Exit::FoundWanting, anyhow::anyhow!("the file cannot be read any more: {error}"))
}

fn length_of(shown: &Shown, read: &Read, number: u64) -> u64 {
    read.length.saturating_sub(number.saturating_sub(1) * shown.part_size).min(shown.part_size)
}

fn may_pass(status: StatusCode) -> bool {
    status.is_server_error()
        || status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
fn passing(error: reqwest::Error) -> Failed {
    let what = if error.is_connect() { "no connection is made" } else { "the connection broke" };
    Failed::Passing(what.to_owned())
}

/// Tries again what may pass by itself.
async fn again<T, Attempt: Future<Output = Result<T, Failed>>>(
    attempt: impl Fn() -> Attempt,
) -> Result<T, CliError> {
    let mut pause = PAUSE;
    for tried in 1.. {
        match attempt().await {
            Ok(done) => return Ok(done),
            Err(Failed::For(error)) => return Err(error),
            Err(Failed::Passing(why)) if tried >= TRIES => {
                return Err(CliError::new(Exit::Unavailable, anyhow::anyhow!("{why}, {TRIES} times"))
                    .remedy("repeat the command: it goes on with what is missing"));
            }
            Err(Failed::Passing(_)) => {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
        }
    }
    unreachable!("the last attempt has returned")
}
