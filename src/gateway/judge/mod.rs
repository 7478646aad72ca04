//! A judge behind an OpenAI-compatible HTTP API: one question, one answer, and what the answer means.
//!
//! `classify` alone says what a status is; what a 200 says is read by the question itself ([`Inquiry`]). The client repeats
//! nothing by itself, follows no redirect, and reads no more of an answer than a verdict can be long. If we die in the middle,
//! the question was asked for nothing; nothing depends on it. Neither content, nor the server's words, nor the key is in an
//! error, a log or `Debug`. Nothing here knows what a submission is. What questions of all rooms share is here as well:
//! [`completion`] (the envelope of an answer), [`marking`] (content that is told from instructions) and [`version`] (of a prompt);
//! and [`listing`], by which `check` looks whether an endpoint answers.

pub(super) mod classify;
pub mod completion;
pub mod listing;
pub mod marking;
pub mod version;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, DATE, HeaderMap, HeaderName, RETRY_AFTER};
use reqwest::{Client, Response, redirect, retry};
use serde_json::{Value, json};
use url::{Host, Url};

pub use self::classify::{Cause, JudgeError};

use crate::config::secret::Secret;
use crate::ports::{Chat, Clock, Inquiry, InvalidAnswer, Reading};

/// One question, from connect to the last byte of its answer.
pub const TIMEOUT: Duration = Duration::from_secs(25);
/// Name look-up, TCP and TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Most that is read of an answer, in bytes.
const ANSWER_LIMIT: usize = 256 * 1024;
/// Most that is read of an answer that is no success.
const REFUSAL_LIMIT: usize = 16 * 1024;
/// Idle connections that are kept, and for how long: less than servers usually keep theirs.
const KEPT: usize = 8;
const KEPT_FOR: Duration = Duration::from_secs(20);

/// A judge that cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JudgeSetupError {
    /// The address cannot be used.
    #[error("[{section}] base_url {rule}")]
    Address {
        /// The configuration's section.
        section: &'static str,
        /// The rule that it breaks.
        rule: &'static str,
    },
    /// The model has no name.
    #[error("[{section}] model is not set")]
    Model {
        /// The configuration's section.
        section: &'static str,
    },
    /// The key cannot be a header's value. The error does not show it.
    #[error("what the file of [{section}]'s key holds is no key")]
    Key {
        /// The configuration's section.
        section: &'static str,
    },
    /// No client can be made.
    #[error(
        "no HTTPS client for [{section}] can be made: {why}; install the host's CA certificates (package ca-certificates)"
    )]
    Client {
        /// The configuration's section.
        section: &'static str,
        /// The library's words, without the address.
        why: String,
    },
}

/// What a client needs to know of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgeSettings {
    /// The section that errors name, e.g. `screening.judge`.
    pub section: &'static str,
    /// The API's address, e.g. `https://api.example.org/v1`; [`base_url`] makes one of a text.
    pub base_url: Url,
    /// The model that is asked for.
    pub model: String,
    /// One question, from connect to the last byte of its answer; usually [`TIMEOUT`].
    pub timeout: Duration,
}

/// What a judge answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer<V> {
    /// What it says.
    pub verdict: V,
    /// The model, by the answer's own words.
    pub model: String,
    /// Tokens of the question, where the answer counts them.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the answer, likewise.
    pub completion_tokens: Option<u64>,
    /// Time from the question to the last byte of its answer.
    pub took: Duration,
}

/// The one client of a judge. Safe to use from many tasks at once; connects to nothing before it is asked.
pub struct Judge {
    section: &'static str,
    client: Client,
    url: Url,
    model: String,
    key: Option<Secret>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.url.host_str().unwrap_or_default();
        f.debug_struct("Judge").field("host", &host).field("model", &self.model).finish_non_exhaustive()
    }
}

/// The API's address: https, or http on this machine; without credentials, query or fragment.
///
/// # Errors
/// The rule that it breaks.
pub fn base_url(address: &str) -> Result<Url, &'static str> {
    let url = Url::parse(address.trim()).map_err(|_| "is no URL")?;
    if url.host().is_none() {
        return Err("has no host");
    }
    // Content and key would travel in the clear.
    if url.scheme() != "https" && !(url.scheme() == "http" && is_own_machine(&url)) {
        return Err("must be https");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not have credentials in it");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must have neither ? nor #");
    }
    Ok(url)
}

pub(super) fn is_own_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

impl Judge {
    /// A client; connects to nothing. A proxy of the environment is used as elsewhere, but never for this machine.
    ///
    /// # Errors
    /// [`JudgeSetupError`].
    pub fn new(
        settings: &JudgeSettings,
        key: Option<Secret>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, JudgeSetupError> {
        let section = settings.section;
        let url = endpoint(settings, "chat/completions")?;
        if settings.model.trim().is_empty() {
            return Err(JudgeSetupError::Model { section });
        }
        let key = sendable(section, key)?;
        let client = client(section, settings.timeout, is_own_machine(&url))?;
        Ok(Self { section, client, url, model: settings.model.trim().to_owned(), key, clock })
    }

    /// Asks one question, once.
    ///
    /// # Errors
    /// [`JudgeError`]: there is no verdict then.
    pub async fn ask<Q: Inquiry>(&self, question: &Q) -> Result<Answer<Q::Verdict>, JudgeError> {
        let began = self.clock.monotonic();
        let body = self.body(question.chat()).to_string();
        let mut request = self
            .client
            .post(self.url.clone())
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.expose());
        }
        let response = request.send().await.map_err(broken)?;
        let body = read(response, self.section, ANSWER_LIMIT).await?;
        let Reading { verdict, model, prompt_tokens, completion_tokens } =
            question.read(&body).map_err(JudgeError::Invalid)?;
        let took = self.clock.monotonic().saturating_duration_since(began);
        Ok(Answer { verdict, model, prompt_tokens, completion_tokens, took })
    }

    fn body(&self, chat: &Chat) -> Value {
        json!({
            "model": self.model,
            "messages": [{"role": "system", "content": chat.system}, {"role": "user", "content": chat.user}],
            "temperature": 0,
            "max_tokens": chat.max_tokens,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": chat.shape, "strict": true, "schema": chat.schema},
            },
        })
    }
}

/// The address of one of the API's endpoints.
pub(super) fn endpoint(settings: &JudgeSettings, path: &str) -> Result<Url, JudgeSetupError> {
    let section = settings.section;
    let mut url =
        base_url(settings.base_url.as_str()).map_err(|rule| JudgeSetupError::Address { section, rule })?;
    url.set_path(&format!("{}/{path}", url.path().trim_end_matches('/')));
    Ok(url)
}

/// The key as a header can carry it.
pub(super) fn sendable(
    section: &'static str,
    key: Option<Secret>,
) -> Result<Option<Secret>, JudgeSetupError> {
    let key = key.map(|key| Secret::new(key.expose().trim()));
    let is_sendable =
        |key: &Secret| !key.expose().is_empty() && key.expose().bytes().all(|b| b.is_ascii_graphic());
    if key.as_ref().is_some_and(|key| !is_sendable(key)) {
        return Err(JudgeSetupError::Key { section });
    }
    Ok(key)
}

/// A client that repeats nothing and follows no redirect. For this machine no proxy of the environment is used.
pub(super) fn client(
    section: &'static str,
    timeout: Duration,
    is_local: bool,
) -> Result<Client, JudgeSetupError> {
    let mut builder = Client::builder()
        .connect_timeout(CONNECT_TIMEOUT.min(timeout))
        .timeout(timeout)
        .redirect(redirect::Policy::none())
        .referer(false)
        .retry(retry::never())
        // One request on a connection at a time: no other's trouble ends this one.
        .http1_only()
        .pool_max_idle_per_host(KEPT)
        .pool_idle_timeout(KEPT_FOR)
        .user_agent(concat!("maple-router/", env!("CARGO_PKG_VERSION")));
    if is_local {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| JudgeSetupError::Client { section, why: error.without_url().to_string() })
}

#[expect(clippy::needless_pass_by_value, reason = "the form that `map_err` wants")]
pub(super) fn broken(error: reqwest::Error) -> JudgeError {
    classify::broken(error.is_timeout(), error.is_connect())
}

/// The whole body of a 200 of JSON, no longer than so many bytes.
pub(super) async fn read(
    mut response: Response,
    section: &'static str,
    limit: usize,
) -> Result<Vec<u8>, JudgeError> {
    let (status, headers) = (response.status(), response.headers().clone());
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if !status.is_success() {
        let wait = classify::wait(text(&RETRY_AFTER), text(&DATE));
        // Of a refusal that breaks off, the status is enough.
        let (body, _) = body(&mut response, REFUSAL_LIMIT).await.unwrap_or_default();
        return Err(classify::refusal(status.as_u16(), wait, &body, section));
    }
    if status.as_u16() != 200 {
        return Err(JudgeError::Invalid(InvalidAnswer::Status));
    }
    if !is_json(&headers) {
        return Err(JudgeError::Invalid(InvalidAnswer::ContentType));
    }
    match body(&mut response, limit).await? {
        (body, true) => Ok(body),
        (_, false) => Err(JudgeError::Invalid(InvalidAnswer::TooLong)),
    }
}

/// No more of a body than its limit, and whether that is all.
pub(super) async fn body(response: &mut Response, limit: usize) -> Result<(Vec<u8>, bool), JudgeError> {
    let mut read = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(broken)? {
        let left = limit - read.len();
        read.extend_from_slice(&chunk[..chunk.len().min(left)]);
        if chunk.len() > left {
            return Ok((read, false));
        }
    }
    Ok((read, true))
}

fn is_json(headers: &HeaderMap) -> bool {
    let stated = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    stated.split(';').next().is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::clock::SystemClock;

    #[test]
    fn addresses_are_https_unless_they_stay_here() {
        for (address, expected) in [
            ("https://api.example.org/v1", Ok("https://api.example.org/v1")),
            (" https://api.example.org/v1/ ", Ok("https://api.example.org/v1/")),
            ("http://127.0.0.1:8000/v1", Ok("http://127.0.0.1:8000/v1")),
            ("http://[::1]:8000/v1", Ok("http://[::1]:8000/v1")),
            ("http://localhost:8000/v1", Ok("http://localhost:8000/v1")),
            ("http://judge.example.org/v1", Err("must be https")),
            ("ftp://127.0.0.1/", Err("must be https")),
            ("https://a:b@api.example.org/v1", Err("must not have credentials in it")),
            ("https://api.example.org/v1?x=1", Err("must have neither ? nor #")),
            ("unix:/run/judge", Err("has no host")),
            ("api.example.org", Err("is no URL")),
        ] {
            let found = base_url(address);
            assert_eq!(found.as_ref().map(Url::as_str).map_err(|rule| *rule), expected, "{address}");
        }
    }

    #[test]
    fn a_setup_is_refused_in_words_and_shows_no_key() {
        let section = "screening.judge";
        let settings = |model: &str| JudgeSettings {
            section,
            base_url: base_url("https://api.example.org/v1/").expect("an address"),
            model: model.to_owned(),
            timeout: TIMEOUT,
        };
        let new = |model: &str, key: Option<&str>| {
            Judge::new(&settings(model), key.map(Secret::new), Arc::new(SystemClock))
        };
        assert_eq!(new(" ", None).map(|_| ()), Err(JudgeSetupError::Model { section }));
        for key in ["", " \n", "s3cr3t\r\nX-Header: 1", "schlüssel"] {
            assert_eq!(new("m", Some(key)).map(|_| ()), Err(JudgeSetupError::Key { section }), "{key}");
        }
        let judge = new("m", Some("s3cr3t\n")).expect("a client");
        assert_eq!(judge.url.as_str(), "https://api.example.org/v1/chat/completions");
        assert!(!format!("{judge:?}").contains("s3cr3t"));
    }
}
