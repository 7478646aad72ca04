//! The heartbeat URL: a service elsewhere that calls people when this host is silent (a dead man's switch).
//!
//! The URL is a secret: no error, no `Debug` and no log line shows more of it than its host. One GET, one answer; the
//! client never repeats anything, never follows a redirect, and reads nothing of an answer. If we die, nothing was owed.

use std::fmt;
use std::time::Duration;

use crate::config::secret::Secret;
use crate::scrub::scrub;

/// Longest one call may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A heartbeat URL that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeartbeatError {
    /// The text is no https URL. The error does not show it.
    #[error("what the heartbeat file holds is no https URL")]
    NotAnUrl,
    /// No client can be made.
    #[error("no HTTPS client for the heartbeat can be made: {0}")]
    Client(String),
}

/// The one client of a heartbeat URL.
pub struct Heartbeat {
    client: reqwest::Client,
    url: Secret,
    host: String,
}

impl fmt::Debug for Heartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heartbeat").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Heartbeat {
    /// A client for `url`. Connects to nothing.
    ///
    /// # Errors
    /// [`HeartbeatError`].
    pub fn new(url: &Secret) -> Result<Self, HeartbeatError> {
        let text = url.expose().trim();
        let host = host(text).ok_or(HeartbeatError::NotAnUrl)?;
        let client = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("maple-router/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| HeartbeatError::Client(error.without_url().to_string()))?;
        Ok(Self { client, url: Secret::new(text), host })
    }

    /// Host of the URL, which is no secret.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Says "alive".
    ///
    /// # Errors
    /// Words, without the URL: the call perhaps did not arrive.
    pub async fn beat(&self) -> Result<(), String> {
        match self.client.get(self.url.expose()).send().await {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => Err(format!("{} answered {}", self.host, answer.status().as_u16())),
            Err(error) if error.is_timeout() => Err(format!("{} did not answer in time", self.host)),
            Err(error) if error.is_connect() => {
                Err(format!("{} cannot be reached: {}", self.host, root(&error.without_url())))
            }
            Err(error) => Err(format!("{}: the connection broke: {}", self.host, root(&error.without_url()))),
        }
    }
}

/// The deepest cause, scrubbed. Give it no URL.
fn root(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    scrub(&cause.to_string())
}

/// The host of an https URL; of plain http only on this machine, where a test or an agent listens.
fn host(text: &str) -> Option<String> {
    let url = url::Url::parse(text).ok()?;
    let loopback = match url.host()? {
        url::Host::Ipv4(ip) => ip.is_loopback(),
        url::Host::Ipv6(ip) => ip.is_loopback(),
        url::Host::Domain(name) => name == "localhost",
    };
    let usable = url.scheme() == "https" || (url.scheme() == "http" && loopback);
    usable.then(|| url.host_str().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_leaves_the_machine_and_only_the_host_is_ever_shown() {
        for good in [
            "https://hc.example/ping/6f3e",
            " https://hc.example:8443/x?key=6f3e\n",
            "http://127.0.0.1:9/6f3e",
        ] {
            let heartbeat = Heartbeat::new(&Secret::new(good)).expect("usable");
            let shown = format!("{heartbeat:?} {}", heartbeat.host());
            assert!(!shown.contains("6f3e"), "{shown}");
        }
        for bad in ["http://hc.example/6f3e", "hc.example/6f3e", "ftp://127.0.0.1/6f3e", ""] {
            let shown = Heartbeat::new(&Secret::new(bad)).expect_err("refused").to_string();
            assert!(!shown.contains("6f3e"), "{shown}");
        }
    }
}
