//! The service accounts: a key each, the access tokens that were given to them, and what they may do in which bucket.
//!
//! The first one is the metadata server's. In memory only; a key leaves it only through a key file.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::Deserialize;
use uuid::Uuid;

use super::key::AccountKey;

/// Life of an access token, as the real metadata server gives it.
const TOKEN_LIFETIME: Duration = Duration::from_secs(3599);
/// Furthest a signer's clock may be ahead, in seconds.
const SKEW: i64 = 60;

/// A right in one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Right {
    /// `storage.objects.create` and `storage.multipartUploads.{create,listParts,abort}`: to write, and to see and end
    /// one's own multipart uploads. Overwriting needs [`Right::Delete`] as well.
    Create,
    /// `storage.objects.get`: to read an object and what is known of it.
    Get,
    /// `storage.objects.delete`
    Delete,
    /// `storage.objects.list` and `storage.multipartUploads.list`
    List,
    /// `storage.buckets.get`: to read a bucket's configuration.
    Inspect,
}

impl Right {
    /// Every right there is.
    pub const ALL: [Self; 5] = [Self::Create, Self::Get, Self::Delete, Self::List, Self::Inspect];
}

/// Who a request comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bearer {
    /// This account.
    Account(String),
    /// Somebody with a token that is unknown, or is good no more.
    Refused,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Accounts {
    keys: Mutex<BTreeMap<String, Arc<AccountKey>>>,
    first: Arc<AccountKey>,
    tokens: Mutex<HashMap<String, (String, Timestamp)>>,
    rights: Mutex<HashMap<(String, String), BTreeSet<Right>>>,
    first_may_read: AtomicBool,
    token_lifetime: AtomicU64,
}

impl Accounts {
    /// The metadata server's account alone.
    pub(crate) fn new(project: &str, email: &str) -> Result<Self> {
        let first = Arc::new(AccountKey::generate(project, email)?);
        Ok(Self {
            keys: Mutex::new(BTreeMap::from([(email.to_owned(), Arc::clone(&first))])),
            first,
            tokens: Mutex::default(),
            rights: Mutex::default(),
            first_may_read: AtomicBool::new(true),
            token_lifetime: AtomicU64::new(TOKEN_LIFETIME.as_secs()),
        })
    }

    /// Makes another one, unless there is one of this name.
    pub(crate) fn add(&self, email: &str) -> Result<()> {
        if self.key(email).is_none() {
            let key = AccountKey::generate(&self.first.project, email)?;
            lock(&self.keys).insert(email.to_owned(), Arc::new(key));
        }
        Ok(())
    }

    /// The metadata server's account.
    pub(crate) fn first(&self) -> &AccountKey {
        &self.first
    }

    /// The account of this name.
    pub(crate) fn key(&self, email: &str) -> Option<Arc<AccountKey>> {
        lock(&self.keys).get(email).cloned()
    }

    /// Sets what an account may do in a bucket: this and nothing else.
    pub(crate) fn grant(&self, email: &str, bucket: &str, rights: &[Right]) {
        let key = (email.to_owned(), bucket.to_owned());
        lock(&self.rights).insert(key, rights.iter().copied().collect());
    }

    /// Whether it may. The first account may read everywhere, unless it was told otherwise.
    pub(crate) fn may(&self, email: &str, bucket: &str, right: Right) -> bool {
        let first = email == self.first.email;
        if first && right == Right::Get && !self.first_may_read.load(Ordering::Relaxed) {
            return false;
        }
        let rights = lock(&self.rights);
        let granted = rights.get(&(email.to_owned(), bucket.to_owned()));
        granted.map_or(first && right == Right::Get, |rights| rights.contains(&right))
    }

    pub(crate) fn set_first_may_read(&self, may: bool) {
        self.first_may_read.store(may, Ordering::Relaxed);
    }

    pub(crate) fn set_token_lifetime(&self, lifetime: Duration) {
        self.token_lifetime.store(lifetime.as_secs(), Ordering::Relaxed);
    }

    /// A new access token of this account, and its life.
    #[expect(clippy::disallowed_methods, reason = "a token must only be unlike any other")]
    pub(crate) fn issue_token(&self, email: &str) -> (String, Duration) {
        let lifetime = Duration::from_secs(self.token_lifetime.load(Ordering::Relaxed));
        let token = format!("ya29.fake-{}", Uuid::new_v4().simple());
        lock(&self.tokens).insert(token.clone(), (email.to_owned(), real_time() + lifetime));
        (token, lifetime)
    }

    pub(crate) fn revoke_tokens(&self) {
        lock(&self.tokens).clear();
    }

    /// Whose token this is: one that was issued, or one that its account signed itself, as Google's clients do it with a
    /// key file.
    pub(crate) fn bearer(&self, token: &str) -> Bearer {
        if let Some((email, expires)) = lock(&self.tokens).get(token) {
            return if real_time() < *expires { Bearer::Account(email.clone()) } else { Bearer::Refused };
        }
        self.asserted(token).map_or(Bearer::Refused, Bearer::Account)
    }

    /// The account that signed a JWT which is good now.
    pub(crate) fn asserted(&self, token: &str) -> Option<String> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let header: Header = parsed(header)?;
        let claims: Claims = parsed(claims)?;
        let key = self.key(&claims.iss)?;
        let now = real_time().as_second();
        let good = header.alg == "RS256"
            && header.kid.is_none_or(|kid| kid == key.key_id)
            && claims.sub.is_none_or(|sub| sub == claims.iss)
            && (claims.scope.is_some() || claims.aud.is_some())
            && claims.iat <= now + SKEW
            && now < claims.exp
            && claims.exp - claims.iat <= 3600 + SKEW
            && key.verifies(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).ok()?);
        good.then_some(claims.iss)
    }
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: Option<String>,
    scope: Option<String>,
    aud: Option<String>,
    iat: i64,
    exp: i64,
}

fn parsed<T: for<'de> Deserialize<'de>>(part: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part.trim_end_matches('=')).ok()?).ok()
}

/// Real time, by which tokens expire.
#[expect(
    clippy::disallowed_methods,
    reason = "a fake server judges expiry by real time, as the real one does"
)]
pub(crate) fn real_time() -> Timestamp {
    Timestamp::now()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
