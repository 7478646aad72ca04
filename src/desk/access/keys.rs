//! The proxy's public keys, from a file or an address: kept in memory, looked at again every hour, and at most once a minute
//! when an assertion names a key that is not among them.
//!
//! A look that fails keeps the keys that are known. Without any nobody is believed. An answer is read up to a limit, follows no
//! redirect and has five seconds. If we die, the next start asks again.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::assertion::ProxyKeys;
use crate::config::{Assertion, AssertionAlgorithm};
use crate::ops::live::Live;
use crate::ports::Clock;

/// Interval of looks.
const EVERY: Duration = Duration::from_secs(3600);
/// Shortest time between two looks, whatever strangers send.
const AT_MOST_EVERY: Duration = Duration::from_secs(60);
/// Longest look.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Largest document.
const LARGEST: usize = 256 * 1024;

/// The origin of the keys.
#[derive(Debug)]
enum Source {
    File(PathBuf),
    Url(reqwest::Client, String),
}

/// The keys of one proxy.
#[derive(Debug)]
pub struct KeyRing {
    source: Source,
    algorithm: AssertionAlgorithm,
    known: Live<ProxyKeys>,
    /// When the last look began. Held while one goes on.
    looked: Mutex<Option<Instant>>,
    clock: Arc<dyn Clock>,
}

impl KeyRing {
    /// A ring without any key yet.
    ///
    /// # Errors
    /// No client can be made.
    pub fn new(rules: &Assertion, clock: Arc<dyn Clock>) -> Result<Self, String> {
        let source = match (&rules.keys_file, &rules.keys_url) {
            (Some(file), _) => Source::File(file.clone()),
            (None, url) => {
                let client = reqwest::Client::builder()
                    .timeout(TIMEOUT)
                    .redirect(reqwest::redirect::Policy::none())
                    .user_agent(concat!("maple-router/", env!("CARGO_PKG_VERSION")))
                    .build()
                    .map_err(|error| error.without_url().to_string())?;
                Source::Url(client, url.clone().unwrap_or_default())
            }
        };
        let known = Live::from(ProxyKeys::default());
        Ok(Self { source, algorithm: rules.algorithm, known, looked: Mutex::new(None), clock })
    }

    /// The keys as they are known.
    #[must_use]
    pub fn known(&self) -> Arc<ProxyKeys> {
        self.known.get()
    }

    /// The keys, after a look for `kid` where it is not among them and the last look is a minute ago.
    pub async fn looked_for(&self, kid: &str) -> Arc<ProxyKeys> {
        if !self.known().has(kid) {
            let mut looked = self.looked.lock().await;
            let now = self.clock.monotonic();
            let rested = looked.is_none_or(|at| now.saturating_duration_since(at) >= AT_MOST_EVERY);
            if rested && !self.known().has(kid) {
                *looked = Some(now);
                self.look().await;
            }
        }
        self.known()
    }

    /// Looks every hour, and every minute until the first look has succeeded.
    pub async fn keep_fresh(self: Arc<Self>, stop: CancellationToken) {
        loop {
            {
                let mut looked = self.looked.lock().await;
                *looked = Some(self.clock.monotonic());
                self.look().await;
            }
            let rest = if self.known().is_empty() { AT_MOST_EVERY } else { EVERY };
            if stop.run_until_cancelled(self.clock.sleep(rest)).await.is_none() {
                return;
            }
        }
    }

    /// Reads the keys once. What cannot be read changes nothing, and is logged.
    async fn look(&self) {
        match self.read().await.and_then(|document| ProxyKeys::of(&document, self.algorithm)) {
            Ok(keys) => self.known.set(keys),
            Err(why) => tracing::warn!(
                "the keys of the proxy before the desk cannot be read ({why}); {} are known from before",
                self.known().len()
            ),
        }
    }

    /// The document.
    ///
    /// # Errors
    /// Words without the address.
    pub async fn read(&self) -> Result<Vec<u8>, String> {
        match &self.source {
            Source::File(path) => {
                let content = tokio::fs::read(path).await.map_err(|error| error.to_string())?;
                within(content.len())?;
                Ok(content)
            }
            Source::Url(client, url) => {
                let said = |error: reqwest::Error| error.without_url().to_string();
                let mut answer = client.get(url).send().await.map_err(said)?;
                if !answer.status().is_success() {
                    return Err(format!("the answer is {}", answer.status().as_u16()));
                }
                let mut document = Vec::new();
                while let Some(more) = answer.chunk().await.map_err(said)? {
                    within(document.len() + more.len())?;
                    document.extend_from_slice(&more);
                }
                Ok(document)
            }
        }
    }
}

fn within(length: usize) -> Result<(), String> {
    if length > LARGEST { Err(format!("the document has more than {LARGEST} bytes")) } else { Ok(()) }
}
