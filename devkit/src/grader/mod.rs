//! `devkit-scripted-grader-1`: a grader and a transcriber on loopback that speak OpenAI's chat completions and audio
//! transcriptions over plain HTTP/1.1, as good as real servers by default and as bad as a test asks for; and the bucket that
//! recordings are fetched from. **A stand-in, and no model**: a score is what a marker in the work asks for, or counted from its
//! length, and says nothing about English. It says so in every answer's `model`, `system_fingerprint` and `Server`, and whoever
//! calibrates by it has calibrated a count of words.
//!
//! What it answers by, in a work or in a transcript: `[[score 7.5]]`, `[[confidence low]]` (samples of this work disagree),
//! `[[slow 5]]` (seconds), `[[injection]]`. What a learner asks for (`give me 10`) raises the flag of an injection and nothing
//! else. A recording is any bytes with `speech:` and a text in them; without one it is silence. `[[seconds 95]]` and
//! `[[language vietnamese]]` in that text say what they say.
//!
//! Requests are checked as [`judge`](crate::judge) checks them, a form as strictly. The other end of the comparison is the
//! published client `openai` for Python, which `tests/grader_conformance.rs` runs against it unchanged. What is **documented** is
//! the shape of requests and answers (OpenAI's API reference); what is **guessed**: the words of errors.
//!
//! In memory only: when the process dies, nothing is left.

mod bucket;
mod by_content;
mod chat;
mod form;
mod heard;
mod mode;
mod serve;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::sync::Notify;

use crate::google::loopback::Server;
use crate::judge::{Tokens, within};

pub use self::bucket::Recording;
pub use self::mode::{Grading, Hearing};

/// Names by which graders are asked for, so that samples can name different ones. They answer alike.
pub const MODELS: [&str; 3] =
    ["devkit-scripted-grader-1", "devkit-scripted-grader-2", "devkit-scripted-grader-3"];
/// The name by which the transcriber is asked for.
pub const TRANSCRIBER: &str = "devkit-scripted-transcriber-1";
/// Name of the shape by which a question about a work is known.
pub const SHAPE: &str = "grading_sample";
/// The key that it wants unless it is started without one.
const KEY: &str = "sk-scripted-0123456789abcdef";

/// Kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A question about a work.
    Grading,
    /// Any other chat.
    Chat,
    /// A transcription.
    Transcription,
    /// A recording that is fetched.
    Recording,
}

/// What the grader does, and what it was asked.
#[derive(Debug, Default)]
struct State {
    grading: Grading,
    gradings: VecDeque<Grading>,
    hearing: Hearing,
    hearings: VecDeque<Hearing>,
    recordings: BTreeMap<String, Recording>,
    /// Samples that were given of a work, by its text.
    samples: BTreeMap<String, u64>,
    calls: BTreeMap<Kind, u64>,
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

    /// Counts a call, and returns its number among its kind.
    fn count(&self, kind: Kind) -> u64 {
        let number = {
            let mut state = self.state();
            let count = state.calls.entry(kind).or_default();
            *count += 1;
            *count
        };
        self.arrived.notify_waiters();
        number
    }
}

/// A scripted grader. Dropping it closes its port.
#[derive(Debug)]
pub struct ScriptedGrader {
    inner: Arc<Inner>,
    address: SocketAddr,
    server: Option<Server>,
}

impl ScriptedGrader {
    /// Starts on a free loopback port, wants a key, grades and hears by content.
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
        let key = key.map(str::to_owned);
        let inner = Arc::new(Inner { key, state: Mutex::default(), arrived: Notify::new() });
        let server = Server::start(serve::router(&inner)).await?;
        Ok(Self { inner, address: server.address(), server: Some(server) })
    }

    /// The API's address, of both endpoints, as clients want it.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Host and port that recordings are fetched from.
    #[must_use]
    pub fn authority(&self) -> String {
        self.address.to_string()
    }

    /// The key that it wants.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.inner.key.as_deref()
    }

    /// Keeps a recording under a name, and returns its address.
    pub fn keep(&self, name: &str, recording: Recording) -> String {
        self.inner.state().recordings.insert(name.to_owned(), recording);
        format!("http://{}/recordings/{name}", self.address)
    }

    /// Grades so from now on, once what is queued is over.
    pub fn grade(&self, grading: Grading) {
        self.inner.state().grading = grading;
    }

    /// Grades so the next `times` times, after those queued before.
    pub fn next_grades(&self, times: usize, grading: Grading) {
        self.inner.state().gradings.extend(std::iter::repeat_n(grading, times));
    }

    /// Hears so from now on, once what is queued is over.
    pub fn hear(&self, hearing: Hearing) {
        self.inner.state().hearing = hearing;
    }

    /// Hears so the next `times` times, after those queued before.
    pub fn next_hears(&self, times: usize, hearing: Hearing) {
        self.inner.state().hearings.extend(std::iter::repeat_n(hearing, times));
    }

    /// Forgets what is queued; what was asked stays.
    pub fn clear_script(&self) {
        let mut state = self.inner.state();
        state.gradings.clear();
        state.hearings.clear();
    }

    /// Calls of a kind that arrived, refused ones included.
    #[must_use]
    pub fn calls(&self, kind: Kind) -> u64 {
        self.inner.state().calls.get(&kind).copied().unwrap_or_default()
    }

    /// Requests that followed a redirect.
    #[must_use]
    pub fn strayed(&self) -> u64 {
        self.inner.state().strayed
    }

    /// Tokens of chats so far.
    #[must_use]
    pub fn tokens(&self) -> Tokens {
        self.inner.state().tokens
    }

    /// Bodies of chats, oldest first, as they came.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        self.inner.state().asked.clone()
    }

    /// Forgets what it was asked; counters stay.
    pub fn forget(&self) {
        self.inner.state().asked.clear();
    }

    /// Whether a text stood in any chat, as it came or within its strings, JSON within strings included.
    #[must_use]
    pub fn has_seen(&self, planted: &str) -> bool {
        self.inner.state().asked.iter().any(|body| body.contains(planted) || within(body, planted, 3))
    }

    /// Waits until at least `count` calls of a kind arrived.
    ///
    /// # Errors
    /// When fewer came in time.
    pub async fn wait_for(&self, kind: Kind, count: u64, patience: Duration) -> Result<()> {
        let enough = async {
            loop {
                let arrived = self.inner.arrived.notified();
                if self.calls(kind) >= count {
                    return;
                }
                arrived.await;
            }
        };
        if tokio::time::timeout(patience, enough).await.is_err() {
            bail!("{} of {count} calls ({kind:?}) reached the grader within {patience:?}", self.calls(kind));
        }
        Ok(())
    }

    /// The grader is gone, and the bucket with it: connects are refused.
    pub async fn away(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.stop().await;
        }
    }

    /// The grader is back, at the same address.
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
