//! `devkit-scripted-1`: a judge on loopback that speaks OpenAI's chat completions over plain HTTP/1.1, as good as a real server
//! by default and as bad as a test asks for. **A stand-in, and no model**: what it says is a script or a list of words
//! ([`WORDS`]), never a judgement. It says so in every answer's `model`, `system_fingerprint` and `Server`, and whoever
//! calibrates or approves by it has calibrated a list of words.
//!
//! It speaks `POST /v1/chat/completions` (no streams, tools, pictures or sound) and `GET /v1/models`. A request is checked more
//! strictly than servers do: a parameter that it does not know, or knows to be wrong, is refused in OpenAI's shape of an error,
//! which names the parameter. The other end of the comparison is the published client `openai` for Python, which
//! `tests/judge_conformance.rs` runs against it unchanged.
//!
//! What is **documented** is the shape of requests, answers and errors and the rules of a strict schema (OpenAI's API reference,
//! its guide to structured outputs). What is **guessed**: the words of errors, which status a filter has, and tokens, which are
//! four bytes each here. `created` is 0: it has no clock.
//!
//! Of a question it understands the nonce and the texts, where the last message is a JSON document that has them; any other
//! message is a text without a nonce.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use devkit::judge::{Mode, ScriptedJudge};
//!
//! let judge = ScriptedJudge::start().await?;
//! judge.set(Mode::ByContent);
//! judge.next(1, Mode::RetryAfter(2));
//! // … a client with `judge.base_url()` and `judge.key()` …
//! assert!(!judge.has_seen("planted-secret"));
//! # Ok(())
//! # }
//! ```
//!
//! In memory only: when the process dies, nothing is left.

mod answer;
mod by_content;
pub(crate) mod completion;
pub(crate) mod door;
mod mishap;
mod mode;
mod question;
pub(crate) mod refusal;
pub(crate) mod request;
mod schema;
mod serve;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::Value;
use tokio::sync::Notify;

use crate::google::loopback::Server;

pub use self::by_content::{WORDS, Weight};
pub use self::mishap::Mishap;
pub use self::mode::Mode;

/// The name by which it is asked for, and which every answer of it has.
pub const MODEL: &str = "devkit-scripted-1";
/// The key that it wants unless it is started without one.
const KEY: &str = "sk-scripted-0123456789abcdef";

/// Tokens, four bytes each, of requests that were answered with a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    /// Of questions.
    pub prompt: u64,
    /// Of answers.
    pub completion: u64,
}

/// What the judge does, and what it was asked.
#[derive(Debug)]
struct State {
    mode: Mode,
    next: VecDeque<Mode>,
    flips: u64,
    requests: u64,
    strayed: u64,
    tokens: Tokens,
    asked: Vec<String>,
}

#[derive(Debug)]
struct Inner {
    key: Option<String>,
    state: Mutex<State>,
    arrived: Notify,
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A scripted judge. Dropping it closes its port.
#[derive(Debug)]
pub struct ScriptedJudge {
    inner: Arc<Inner>,
    address: SocketAddr,
    server: Option<Server>,
}

impl ScriptedJudge {
    /// Starts on a free loopback port, wants a key, and judges by content.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start() -> Result<Self> {
        Self::with_key(Some(KEY)).await
    }

    /// The same with this key, or for everybody.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn with_key(key: Option<&str>) -> Result<Self> {
        let state = State {
            mode: Mode::ByContent,
            next: VecDeque::new(),
            flips: 0,
            requests: 0,
            strayed: 0,
            tokens: Tokens::default(),
            asked: Vec::new(),
        };
        let key = key.map(str::to_owned);
        let inner = Arc::new(Inner { key, state: Mutex::new(state), arrived: Notify::new() });
        let server = Server::start(serve::router(&inner)).await?;
        Ok(Self { inner, address: server.address(), server: Some(server) })
    }

    /// The API's address, as clients want it.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The key that it wants.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.inner.key.as_deref()
    }

    /// Answers so from now on, once what is queued is over.
    pub fn set(&self, mode: Mode) {
        self.inner.state().mode = mode;
    }

    /// Answers the next `times` questions so, after those queued before.
    pub fn next(&self, times: usize, mode: Mode) {
        self.inner.state().next.extend(std::iter::repeat_n(mode, times));
    }

    /// Forgets what is queued; what was asked stays.
    pub fn clear_script(&self) {
        self.inner.state().next.clear();
    }

    /// Questions that arrived, refused ones included.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.inner.state().requests
    }

    /// Connections that it accepted since it was started or came back.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.server.as_ref().map_or(0, Server::connections)
    }

    /// Requests that followed a redirect of [`Mode::Redirect`].
    #[must_use]
    pub fn strayed(&self) -> u64 {
        self.inner.state().strayed
    }

    /// Tokens so far.
    #[must_use]
    pub fn tokens(&self) -> Tokens {
        self.inner.state().tokens
    }

    /// Bodies of the questions, oldest first, as they came.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        self.inner.state().asked.clone()
    }

    /// Forgets what it was asked; counters stay.
    pub fn forget(&self) {
        self.inner.state().asked.clear();
    }

    /// Whether a text stood in any question, as it came or within its strings, JSON within strings included.
    #[must_use]
    pub fn has_seen(&self, planted: &str) -> bool {
        let state = self.inner.state();
        state.asked.iter().any(|body| body.contains(planted) || within(body, planted, 3))
    }

    /// Waits until at least `count` questions arrived.
    ///
    /// # Errors
    /// When fewer came in time.
    pub async fn wait_for(&self, count: u64, patience: Duration) -> Result<()> {
        let enough = async {
            loop {
                let arrived = self.inner.arrived.notified();
                if self.requests() >= count {
                    return;
                }
                arrived.await;
            }
        };
        if tokio::time::timeout(patience, enough).await.is_err() {
            bail!("{} of {count} questions reached the judge within {patience:?}", self.requests());
        }
        Ok(())
    }

    /// The judge is gone: connects are refused.
    pub async fn away(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.stop().await;
        }
    }

    /// The judge is back, at the same address.
    ///
    /// # Errors
    /// When the port has been taken meanwhile.
    pub async fn back(&mut self) -> Result<()> {
        if self.server.is_none() {
            self.server = Some(Server::start_at(self.address, serve::router(&self.inner)).await?);
        }
        Ok(())
    }
}

/// Whether a JSON document has a text in one of its strings, or in a document that is one of them.
pub(crate) fn within(document: &str, planted: &str, depth: u8) -> bool {
    let Ok(value) = serde_json::from_str::<Value>(document) else { return false };
    let mut values = vec![&value];
    while let Some(value) = values.pop() {
        match value {
            Value::String(text) => {
                if text.contains(planted) || depth > 0 && within(text, planted, depth - 1) {
                    return true;
                }
            }
            Value::Array(list) => values.extend(list),
            Value::Object(map) => {
                if map.keys().any(|key| key.contains(planted)) {
                    return true;
                }
                values.extend(map.values());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_planted_text_is_found_wherever_it_is_quoted() {
        let inner = json!({"blocks": [{"text": "a \"planted\" ü"}]}).to_string();
        let body = json!({"messages": [{"content": inner}]}).to_string();
        for (planted, expected) in [("a \"planted\" ü", true), ("blocks", true), ("planted ü", false)] {
            assert_eq!(within(&body, planted, 3), expected, "{planted}");
        }
    }

    #[tokio::test]
    async fn it_goes_and_comes_back_and_keeps_what_it_was_asked() {
        let mut judge = ScriptedJudge::with_key(None).await.expect("a judge");
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let url = format!("{}/chat/completions", judge.base_url());
        let question = json!({"model": MODEL, "messages": [{"role": "user", "content": "hello planted"}]});
        let ask = async || client.post(&url).json(&question).send().await;
        assert_eq!(ask().await.expect("an answer").status(), 200);
        judge.away().await;
        assert!(ask().await.expect_err("nobody listens").is_connect());
        judge.back().await.expect("the same port");
        judge.next(1, Mode::Status(503));
        assert_eq!(ask().await.expect("an answer").status(), 503);
        assert_eq!(ask().await.expect("an answer").status(), 200);
        judge.wait_for(3, Duration::from_secs(5)).await.expect("three");
        assert_eq!((judge.requests(), judge.asked().len()), (3, 3));
        assert!(judge.has_seen("hello planted") && !judge.has_seen("hello unseen"));
        assert!(judge.tokens().prompt > 0 && judge.tokens().completion > 0);
    }
}
