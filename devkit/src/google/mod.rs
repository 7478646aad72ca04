//! Google's parts that a signed URL needs, on loopback: metadata server, IAM credentials, object store.
//!
//! The key is real, the signatures are real and the object store verifies them, so a test that fetches an object
//! through it has shown the whole chain. State is in memory; nothing outlives the process or talks to Google.

mod iam;
mod key;
pub(crate) mod loopback;
mod metadata;
mod script;
mod store;
mod v4;

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use self::key::AccountKey;
use self::loopback::Server;
pub(crate) use self::script::Step;
pub use self::script::{Mishap, Script};

/// Project that the fake's service account belongs to.
const PROJECT: &str = "maple-dev";
/// The fake's service account.
const ACCOUNT: &str = "maple-router@maple-dev.iam.gserviceaccount.com";
/// Life of an access token, as the real metadata server gives it.
const TOKEN_LIFETIME: Duration = Duration::from_secs(3599);

/// A stored object.
#[derive(Debug, Clone)]
struct Object {
    content_type: String,
    /// As bytes that are shared: a download of ten megabytes copies none of them.
    bytes: Bytes,
    /// CRC-32C of the bytes as they were stored.
    crc32c: u32,
    /// Number of the object's generation; every put makes a new one.
    generation: u64,
    /// `Content-Encoding` that it was stored with.
    encoding: Option<String>,
}

/// What becomes of a download on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoilt {
    /// One bit of it is another.
    Flipped,
    /// The connection ends in the middle of it.
    Cut,
}

/// State shared by the three servers.
#[derive(Debug)]
struct Shared {
    key: AccountKey,
    tokens: Mutex<HashMap<String, Timestamp>>,
    objects: Mutex<HashMap<(String, String), Object>>,
    clock_offset: AtomicI64,
    may_read: AtomicBool,
    token_lifetime: AtomicU64,
    metadata_script: Script,
    iam_script: Script,
    store_script: Script,
    token_calls: AtomicU64,
    sign_calls: AtomicU64,
    gets: AtomicU64,
    generations: AtomicU64,
    spoilt: Mutex<VecDeque<Spoilt>>,
}

impl Shared {
    #[expect(clippy::disallowed_methods, reason = "a token must only be unlike any other")]
    fn issue_token(&self) -> (String, Duration) {
        let lifetime = Duration::from_secs(self.token_lifetime.load(Ordering::Relaxed));
        let token = format!("ya29.fake-{}", Uuid::new_v4().simple());
        let expires = real_time() + lifetime;
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).insert(token.clone(), expires);
        (token, lifetime)
    }

    fn token_is_good(&self, token: &str) -> bool {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.get(token).is_some_and(|expires| real_time() < *expires)
    }

    /// The object store's clock: real time, moved by the offset.
    fn store_time(&self) -> Timestamp {
        real_time() + SignedDuration::from_secs(self.clock_offset.load(Ordering::Relaxed))
    }

    fn may_read(&self) -> bool {
        self.may_read.load(Ordering::Relaxed)
    }

    fn object(&self, bucket: &str, object: &str) -> Option<Object> {
        let objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        objects.get(&(bucket.to_owned(), object.to_owned())).cloned()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a fake server judges expiry by real time, as the real one does"
)]
fn real_time() -> Timestamp {
    Timestamp::now()
}

/// Metadata server, IAM credentials and object store of one service account, each on a port of its own.
#[derive(Debug)]
pub struct GoogleFake {
    shared: Arc<Shared>,
    metadata: Server,
    iam: Server,
    store: Server,
}

impl GoogleFake {
    /// Makes a key and starts the three servers on free loopback ports.
    ///
    /// # Errors
    /// When no key can be made or no port can be had.
    pub async fn start() -> Result<Self> {
        let shared = Arc::new(Shared {
            key: AccountKey::generate(PROJECT, ACCOUNT)?,
            tokens: Mutex::default(),
            objects: Mutex::default(),
            clock_offset: AtomicI64::new(0),
            may_read: AtomicBool::new(true),
            token_lifetime: AtomicU64::new(TOKEN_LIFETIME.as_secs()),
            metadata_script: Script::default(),
            iam_script: Script::default(),
            store_script: Script::default(),
            token_calls: AtomicU64::new(0),
            sign_calls: AtomicU64::new(0),
            gets: AtomicU64::new(0),
            generations: AtomicU64::new(1_700_000_000_000_000),
            spoilt: Mutex::default(),
        });
        let metadata =
            Server::start(metadata::router(Arc::clone(&shared))).await.context("metadata server")?;
        let iam = Server::start(iam::router(Arc::clone(&shared))).await.context("IAM credentials")?;
        let store = Server::start(store::router(Arc::clone(&shared))).await.context("object store")?;
        Ok(Self { shared, metadata, iam, store })
    }

    /// `host:port`, the form of `GCE_METADATA_HOST`.
    #[must_use]
    pub fn metadata_host(&self) -> String {
        self.metadata.address().to_string()
    }

    /// Base URL for `[signed_url] endpoint`.
    #[must_use]
    pub fn iam_endpoint(&self) -> String {
        format!("http://{}", self.iam.address())
    }

    /// Base URL for `[signed_url] storage_endpoint` or `STORAGE_EMULATOR_HOST`.
    #[must_use]
    pub fn storage_endpoint(&self) -> String {
        format!("http://{}", self.store.address())
    }

    /// The account that the metadata server names and the key file is for.
    #[must_use]
    pub fn service_account_email(&self) -> &str {
        &self.shared.key.email
    }

    /// The project that the metadata server names.
    #[must_use]
    pub fn project_id(&self) -> &str {
        &self.shared.key.project
    }

    /// Writes a service-account key file (JSON) with the same key.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_key_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let token_uri = format!("http://{}/token", self.metadata.address());
        self.shared.key.write_file(path.as_ref(), &token_uri)
    }

    /// Stores an object, replacing one of the same name.
    pub fn put_object(&self, bucket: &str, object: &str, content_type: &str, bytes: impl Into<Vec<u8>>) {
        self.put(bucket, object, content_type, bytes.into(), None);
    }

    /// Stores an object with a `Content-Encoding`, whatever its bytes are.
    pub fn put_encoded(&self, bucket: &str, object: &str, content_type: &str, encoding: &str, bytes: &[u8]) {
        self.put(bucket, object, content_type, bytes.to_vec(), Some(encoding.to_owned()));
    }

    fn put(&self, bucket: &str, object: &str, content_type: &str, bytes: Vec<u8>, encoding: Option<String>) {
        let stored = Object {
            content_type: content_type.to_owned(),
            crc32c: crc32c::crc32c(&bytes),
            bytes: bytes.into(),
            generation: self.shared.generations.fetch_add(1, Ordering::Relaxed),
            encoding,
        };
        let mut objects = self.shared.objects.lock().unwrap_or_else(PoisonError::into_inner);
        objects.insert((bucket.to_owned(), object.to_owned()), stored);
    }

    /// Spoils the next downloads, so many of them.
    pub fn spoil_next(&self, times: usize, spoilt: Spoilt) {
        let mut next = self.shared.spoilt.lock().unwrap_or_else(PoisonError::into_inner);
        next.extend(std::iter::repeat_n(spoilt, times));
    }

    /// Deletes an object; true if it was there.
    pub fn delete_object(&self, bucket: &str, object: &str) -> bool {
        let mut objects = self.shared.objects.lock().unwrap_or_else(PoisonError::into_inner);
        objects.remove(&(bucket.to_owned(), object.to_owned())).is_some()
    }

    /// Sets whether the signer has `storage.objects.get`. Without it, signing works and every link answers 403.
    pub fn set_may_read(&self, may_read: bool) {
        self.shared.may_read.store(may_read, Ordering::Relaxed);
    }

    /// Moves the object store's clock by so many seconds against real time: links expire by it, tokens do not.
    pub fn set_clock_offset(&self, seconds: i64) {
        self.shared.clock_offset.store(seconds, Ordering::Relaxed);
    }

    /// Life of the access tokens issued from now on.
    pub fn set_token_lifetime(&self, lifetime: Duration) {
        self.shared.token_lifetime.store(lifetime.as_secs(), Ordering::Relaxed);
    }

    /// Forgets every token issued: IAM answers 401 to them from now on.
    pub fn revoke_tokens(&self) {
        self.shared.tokens.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Mishaps of the metadata server.
    #[must_use]
    pub fn metadata_script(&self) -> &Script {
        &self.shared.metadata_script
    }

    /// Mishaps of `signBlob`.
    #[must_use]
    pub fn iam_script(&self) -> &Script {
        &self.shared.iam_script
    }

    /// Mishaps of the object store.
    #[must_use]
    pub fn store_script(&self) -> &Script {
        &self.shared.store_script
    }

    /// Access tokens asked of the metadata server.
    #[must_use]
    pub fn token_calls(&self) -> u64 {
        self.shared.token_calls.load(Ordering::Relaxed)
    }

    /// `signBlob` requests, scripted failures included.
    #[must_use]
    pub fn sign_calls(&self) -> u64 {
        self.shared.sign_calls.load(Ordering::Relaxed)
    }

    /// GETs (and HEADs) at the object store, refused ones included.
    #[must_use]
    pub fn gets(&self) -> u64 {
        self.shared.gets.load(Ordering::Relaxed)
    }

    /// Connections that IAM credentials accepted.
    #[must_use]
    pub fn iam_connections(&self) -> u64 {
        self.iam.connections()
    }

    /// Connections that the object store accepted.
    #[must_use]
    pub fn storage_connections(&self) -> u64 {
        self.store.connections()
    }

    /// Closes IAM credentials: connects are refused from now on.
    pub async fn stop_iam(&mut self) {
        self.iam.stop().await;
    }

    /// Opens IAM credentials again, at the same address.
    ///
    /// # Errors
    /// When the port has been taken meanwhile.
    pub async fn restart_iam(&mut self) -> Result<()> {
        let address = self.iam.address();
        self.iam.stop().await;
        self.iam = Server::start_at(address, iam::router(Arc::clone(&self.shared))).await?;
        Ok(())
    }
}
