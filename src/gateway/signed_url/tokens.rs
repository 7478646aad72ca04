//! Access tokens of the account that signs: the metadata server's, or such as a key file's owner signs for itself.
//!
//! google-cloud-auth makes, keeps and renews them. Its cache is made when the first token is wanted (a runtime must be there),
//! and replaced where it hangs or gave up: its own task has no timeout, and ends for good at the first answer that it takes
//! for final. Both would last until a restart.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use google_cloud_auth::credentials::service_account::AccessSpecifier;
use google_cloud_auth::credentials::{AccessTokenCredentials, mds, service_account};
use serde_json::Value;
use url::{Host, Url};

use super::fault::{Fault, Party};

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// Where tokens come from.
pub(super) enum Issuer {
    /// The metadata server, by its address.
    Metadata(String),
    /// A service account's key, and the file that it was read from.
    Key {
        /// The file's content.
        content: Value,
        /// The file, as it is shown.
        path: String,
    },
}

/// The tokens of one account.
pub(super) struct Tokens {
    issuer: Issuer,
    patience: Duration,
    present: Mutex<Option<Present>>,
    generation: AtomicU64,
}

/// google-cloud-auth's token cache, with a number that distinguishes a dead one from its successor.
#[derive(Clone)]
struct Present {
    generation: u64,
    tokens: AccessTokenCredentials,
}

/// A token. Its `Debug` shows nothing of it.
pub(in crate::gateway) struct Token {
    text: String,
    generation: u64,
}

impl Token {
    /// What stands behind `Bearer`.
    pub(in crate::gateway) fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(<redacted>)")
    }
}

impl Tokens {
    /// Tokens from there; none is asked for yet. Whoever wants one waits so long.
    pub(super) fn new(issuer: Issuer, patience: Duration) -> Self {
        Self { issuer, patience, present: Mutex::new(None), generation: AtomicU64::new(0) }
    }

    /// A token from the cache, or the wait for one.
    pub(super) async fn token(&self) -> Result<Token, Fault> {
        let present = self.present()?;
        match tokio::time::timeout(self.patience, present.tokens.access_token()).await {
            Ok(Ok(token)) => Ok(Token { text: token.token, generation: present.generation }),
            Ok(Err(error)) => {
                let transient = error.is_transient();
                if !transient {
                    self.drop_cache(present.generation);
                }
                Err(self.none(transient))
            }
            Err(_) => {
                self.drop_cache(present.generation);
                Err(Fault::Timeout(Party::Metadata))
            }
        }
    }

    /// Forgets a token that was refused: the cache would keep it for the rest of its announced life.
    pub(super) fn forget(&self, refused: &Token) {
        self.drop_cache(refused.generation);
    }

    /// The present cache; a new one where there is none.
    fn present(&self) -> Result<Present, Fault> {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(present) = present.as_ref() {
            return Ok(present.clone());
        }
        let tokens = match &self.issuer {
            Issuer::Metadata(address) => mds::Builder::default()
                .with_endpoint(address.clone())
                .with_scopes([SCOPE])
                .build_access_token_credentials(),
            Issuer::Key { content, .. } => service_account::Builder::new(content.clone())
                .with_access_specifier(AccessSpecifier::from_scopes([SCOPE]))
                .build_access_token_credentials(),
        };
        let tokens = tokens.map_err(|_| self.none(false))?;
        let generation = self.generation.fetch_add(1, Ordering::Relaxed);
        Ok(present.insert(Present { generation, tokens }).clone())
    }

    /// Drops a cache, unless another task already replaced it.
    fn drop_cache(&self, dead: u64) {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        if present.as_ref().is_some_and(|present| present.generation == dead) {
            *present = None;
        }
    }

    /// The fault of an account that has no token.
    fn none(&self, transient: bool) -> Fault {
        match &self.issuer {
            Issuer::Metadata(_) => Fault::NoToken { transient },
            Issuer::Key { path, .. } => Fault::UnusableKey { path: path.clone() },
        }
    }
}

/// An endpoint that may be given an access token: by TLS, or on this host.
pub(super) fn may_see_tokens(endpoint: &str) -> Result<(), &'static str> {
    let url = Url::parse(endpoint).map_err(|_| "is not a URL")?;
    let loopback = match url.host() {
        None => return Err("has no host"),
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
    };
    match url.scheme() {
        "https" => Ok(()),
        "http" if loopback => Ok(()),
        "http" => Err("would carry access tokens in the clear"),
        _ => Err("is not an https URL"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_go_over_tls_or_loopback_only() {
        for good in [
            "https://iamcredentials.googleapis.com",
            "http://127.0.0.1:1",
            "http://[::1]:1",
            "http://localhost:1",
        ] {
            assert_eq!(may_see_tokens(good), Ok(()), "{good}");
        }
        for bad in
            ["", "iamcredentials.googleapis.com", "http://iamcredentials.googleapis.com", "ftp://127.0.0.1"]
        {
            assert!(may_see_tokens(bad).is_err(), "{bad}");
        }
    }
}
