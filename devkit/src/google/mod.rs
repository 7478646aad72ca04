//! Google's parts that a signed URL needs, on loopback: metadata server, IAM credentials, object store.
//!
//! The keys are real, the signatures are real and the object store verifies them, so a test that fetches an object
//! through it has shown the whole chain. Nothing outlives the process or talks to Google.

mod accounts;
mod iam;
mod key;
pub(crate) mod loopback;
mod metadata;
mod script;
mod store;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};

use self::accounts::Accounts;
pub use self::accounts::Right;
use self::loopback::Server;
pub(crate) use self::script::Step;
pub use self::script::{Mishap, Script};
use self::store::Store;
pub use self::store::{Act, Bucket, Call, Cors, Lifecycle, Rule, SeenObject, SeenPart, SeenUpload, Stage};
use crate::trap::Trapped;

/// Project that the fake's service accounts belong to.
const PROJECT: &str = "maple-dev";
/// The metadata server's service account.
const ACCOUNT: &str = "maple-router@maple-dev.iam.gserviceaccount.com";

/// What becomes of a download on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoilt {
    /// One bit of it is another.
    Flipped,
    /// The connection ends in the middle of it.
    Cut,
}

/// State shared by metadata server and IAM credentials.
#[derive(Debug)]
struct Shared {
    accounts: Arc<Accounts>,
    metadata_script: Script,
    iam_script: Script,
    token_calls: AtomicU64,
    sign_calls: AtomicU64,
}

/// Metadata server, IAM credentials and object store, each on a port of its own.
#[derive(Debug)]
pub struct GoogleFake {
    shared: Arc<Shared>,
    state: Arc<Store>,
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
        let accounts = Arc::new(Accounts::new(PROJECT, ACCOUNT)?);
        let state = Arc::new(Store::new(Arc::clone(&accounts)));
        let shared = Arc::new(Shared {
            accounts,
            metadata_script: Script::default(),
            iam_script: Script::default(),
            token_calls: AtomicU64::new(0),
            sign_calls: AtomicU64::new(0),
        });
        let metadata =
            Server::start(metadata::router(Arc::clone(&shared))).await.context("metadata server")?;
        let iam = Server::start(iam::router(Arc::clone(&shared))).await.context("IAM credentials")?;
        let store = Server::start(store::router(Arc::clone(&state))).await.context("object store")?;
        state.listens_at(store.address());
        Ok(Self { shared, state, metadata, iam, store })
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
        &self.shared.accounts.first().email
    }

    /// The project that the metadata server names.
    #[must_use]
    pub fn project_id(&self) -> &str {
        &self.shared.accounts.first().project
    }

    /// Writes a service-account key file (JSON) with the same key.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_key_file(&self, path: impl AsRef<Path>) -> Result<()> {
        self.write_key_file_of(self.service_account_email(), path)
    }

    /// Writes the key file of one of the accounts.
    ///
    /// # Errors
    /// When there is no such account, or the file cannot be written.
    pub fn write_key_file_of(&self, account: &str, path: impl AsRef<Path>) -> Result<()> {
        let token_uri = format!("http://{}/token", self.metadata.address());
        let key =
            self.shared.accounts.key(account).with_context(|| format!("there is no account {account}"))?;
        key.write_file(path.as_ref(), &token_uri)
    }

    /// Makes another service account, without any right, unless there is one of this name.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn add_account(&self, email: &str) -> Result<()> {
        self.shared.accounts.add(email)
    }

    /// Sets what an account may do in a bucket: these rights and no other. The metadata server's account may read every
    /// bucket that it was given no rights in by name; any other account may do nothing there.
    pub fn grant(&self, account: &str, bucket: &str, rights: &[Right]) {
        self.shared.accounts.grant(account, bucket, rights);
    }

    /// A new access token of an account, as its own metadata server would give it.
    #[must_use]
    pub fn token_of(&self, account: &str) -> String {
        self.shared.accounts.issue_token(account).0
    }

    /// Declares a bucket, or changes the configuration of one that is there; what is in it stays.
    pub fn declare_bucket(&self, name: &str, bucket: Bucket) {
        self.state.declare(name, bucket);
    }

    /// A bucket's configuration.
    #[must_use]
    pub fn bucket(&self, name: &str) -> Option<Bucket> {
        self.state.bucket(name)
    }

    /// Takes a bucket away with all that is in it; true if it was there.
    pub fn remove_bucket(&self, name: &str) -> bool {
        self.state.remove_bucket(name)
    }

    /// Stores an object, replacing one of the same name. A bucket that nobody declared is made, without soft delete.
    pub fn put_object(&self, bucket: &str, object: &str, content_type: &str, bytes: impl Into<Vec<u8>>) {
        self.state.put_bytes(bucket, object, content_type, None, bytes.into());
    }

    /// Stores an object with a `Content-Encoding`, whatever its bytes are.
    pub fn put_encoded(&self, bucket: &str, object: &str, content_type: &str, encoding: &str, bytes: &[u8]) {
        self.state.put_bytes(bucket, object, content_type, Some(encoding), bytes.to_vec());
    }

    /// Spoils the next downloads, so many of them.
    pub fn spoil_next(&self, times: usize, spoilt: Spoilt) {
        self.state.spoil_next(times, spoilt);
    }

    /// Deletes an object; true if it was there.
    pub fn delete_object(&self, bucket: &str, object: &str) -> bool {
        self.state.delete(bucket, object)
    }

    /// The objects of a bucket, by name.
    #[must_use]
    pub fn objects(&self, bucket: &str) -> Vec<SeenObject> {
        self.state.seen(bucket)
    }

    /// An object, as the store has it.
    #[must_use]
    pub fn object(&self, bucket: &str, object: &str) -> Option<SeenObject> {
        self.state.seen_object(bucket, object)
    }

    /// An object's bytes.
    ///
    /// # Errors
    /// When it is not there, or its file cannot be read.
    pub fn object_bytes(&self, bucket: &str, object: &str) -> Result<Vec<u8>> {
        self.state.bytes(bucket, object)?.with_context(|| format!("there is no {bucket}/{object}"))
    }

    /// What was deleted or overwritten, and can be had back still.
    #[must_use]
    pub fn soft_deleted(&self, bucket: &str) -> Vec<SeenObject> {
        self.state.seen_gone(bucket)
    }

    /// The multipart uploads of a bucket that are neither complete nor aborted.
    #[must_use]
    pub fn uploads(&self, bucket: &str) -> Vec<SeenUpload> {
        self.state.seen_uploads(bucket)
    }

    /// Adds a rule for the object store's faults, behind those that are there.
    pub fn rule(&self, rule: Rule) {
        self.state.rule(rule);
    }

    /// Catches the next request that the rule matches, once: it stands still at the rule's stage until it is released, and
    /// then meets the rule's act. Cut, its connection ends there: [`Stage::Before`] without the effect, [`Stage::After`] with
    /// it. A client that goes away meanwhile changes nothing.
    pub fn trap(&self, rule: Rule) -> Trapped {
        self.state.trap(rule)
    }

    /// Takes all rules and traps away.
    pub fn clear_rules(&self) {
        self.state.clear_rules();
    }

    /// How often this was asked for, refused requests included.
    #[must_use]
    pub fn calls(&self, call: Call) -> u64 {
        self.state.calls(call)
    }

    /// Bytes of objects and parts that were sent to the store, also where they were refused.
    #[must_use]
    pub fn bytes_received(&self) -> u64 {
        self.state.bytes_received()
    }

    /// Sets whether the metadata server's account has `storage.objects.get` at all. Without it, signing works and every link
    /// answers 403.
    pub fn set_may_read(&self, may_read: bool) {
        self.shared.accounts.set_first_may_read(may_read);
    }

    /// Sets whether a missing object is a 403 for whoever may not list its bucket. Seen of the service with anonymous readers;
    /// whether it does so to accounts as well is not known here, so a client had better bear both.
    pub fn set_hides_missing(&self, hides: bool) {
        self.state.set_hides_missing(hides);
    }

    /// Sets how many bytes a rewrite copies before it answers that it is not done, as the service does between two locations
    /// or classes; the whole of any object, unless it was set.
    pub fn set_rewrite_round(&self, bytes: u64) {
        self.state.set_rewrite_round(bytes);
    }

    /// Moves the object store's clock by so many seconds against real time: links expire by it, tokens do not.
    pub fn set_clock_offset(&self, seconds: i64) {
        self.state.set_clock_offset(seconds);
    }

    /// Life of the access tokens issued from now on.
    pub fn set_token_lifetime(&self, lifetime: Duration) {
        self.shared.accounts.set_token_lifetime(lifetime);
    }

    /// Forgets every token issued: IAM and the object store answer 401 to them from now on.
    pub fn revoke_tokens(&self) {
        self.shared.accounts.revoke_tokens();
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

    /// Mishaps of the object store's GETs and HEADs.
    #[must_use]
    pub fn store_script(&self) -> &Script {
        &self.state.script
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
        self.state.gets()
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
    /// Ends the object store: whatever it is doing is not done, and connects are refused from now on. What it has stored
    /// stays.
    pub async fn stop_store(&mut self) {
        self.state.end();
        self.store.stop().await;
    }

    /// Opens the object store again, at the same address.
    ///
    /// # Errors
    /// When the port has been taken meanwhile.
    pub async fn restart_store(&mut self) -> Result<()> {
        let address = self.store.address();
        self.stop_store().await;
        self.store = Server::start_at(address, store::router(Arc::clone(&self.state))).await?;
        Ok(())
    }
}

impl Drop for GoogleFake {
    fn drop(&mut self) {
        self.state.end();
    }
}
