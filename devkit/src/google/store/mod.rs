//! The object store, path style (`/BUCKET/OBJECT`): objects by V4 signed URL or access token, multipart uploads by the XML
//! API, and what Google's clients need of the JSON API. Written from Google's description; its judges are Google's clients.
//!
//! Strict where a client could get used to leniency: every digest that is sent is compared, preconditions hold or refuse,
//! permission is asked before existence, a part that is too small is refused. What is kept dies with the process. Not spoken:
//! virtual-hosted addresses, versions, delimiters, encryption keys, compose, patch, decompression on the way out.

mod bucket;
mod caller;
mod content;
mod cors;
mod digest;
mod download;
mod effect;
mod json;
mod json_uploads;
mod multipart;
mod objects;
mod refusal;
mod routes;
mod rules;
mod seen;
mod serve;
mod shelf;
mod tally;
mod uri;
mod v4;
mod xml;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use axum::Router;
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub use self::bucket::{Bucket, Cors, Lifecycle};
pub use self::rules::{Act, Call, Rule, Stage};
pub use self::seen::{SeenObject, SeenPart, SeenUpload};

use self::content::Content;
use self::digest::Digests;
use self::refusal::Refusal;
use self::rules::{Moment, Orders, Rules};
use self::shelf::{Conditions, Labels, Object, Shelf, Shelves};
use self::tally::Tally;
use super::Spoilt;
use super::accounts::{Accounts, Right, real_time};
use super::script::Script;

/// The store's state.
#[derive(Debug)]
pub(super) struct Store {
    accounts: Arc<Accounts>,
    shelves: Mutex<Shelves>,
    /// Mishaps of downloads.
    pub(super) script: Script,
    rules: Mutex<Rules>,
    tally: Tally,
    spoilt: Mutex<VecDeque<Spoilt>>,
    clock_offset: AtomicI64,
    generations: AtomicU64,
    hides_missing: AtomicBool,
    /// Bytes that a rewrite copies in one round.
    rewrite_round: AtomicU64,
    address: OnceLock<SocketAddr>,
    /// The store stops: what it is doing ends where it stands. A new one for each time that it comes back.
    down: Mutex<CancellationToken>,
}

/// An object about to be stored.
struct New<'a> {
    bucket: &'a str,
    name: &'a str,
    content: Content,
    digests: Digests,
    labels: Labels,
}

/// The service.
pub(super) fn router(store: Arc<Store>) -> Router {
    *lock(&store.down) = CancellationToken::new();
    Router::new().fallback(serve::serve).with_state(store)
}

impl Store {
    pub(super) fn new(accounts: Arc<Accounts>) -> Self {
        Self {
            accounts,
            shelves: Mutex::default(),
            script: Script::default(),
            rules: Mutex::default(),
            tally: Tally::default(),
            spoilt: Mutex::default(),
            clock_offset: AtomicI64::new(0),
            generations: AtomicU64::new(1_700_000_000_000_000),
            hides_missing: AtomicBool::new(false),
            rewrite_round: AtomicU64::new(u64::MAX),
            address: OnceLock::new(),
            down: Mutex::default(),
        }
    }

    /// The store's clock: real time, moved by the offset.
    fn time(&self) -> Timestamp {
        real_time() + SignedDuration::from_secs(self.clock_offset.load(Ordering::Relaxed))
    }

    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        lock(&self.shelves)
    }

    fn ask(&self, moment: &Moment<'_>) -> Orders {
        lock(&self.rules).ask(moment)
    }

    fn next_spoilt(&self) -> Option<Spoilt> {
        lock(&self.spoilt).pop_front()
    }

    fn down(&self) -> CancellationToken {
        lock(&self.down).clone()
    }

    /// Its own `host:port`, which it keeps for life.
    fn host(&self) -> String {
        self.address.get().map(SocketAddr::to_string).unwrap_or_default()
    }

    pub(super) fn listens_at(&self, address: SocketAddr) {
        self.address.get_or_init(|| address);
    }

    /// Ends what is being done.
    pub(super) fn end(&self) {
        self.down().cancel();
    }

    #[expect(clippy::disallowed_methods, reason = "an upload's id must only be unlike any other")]
    fn new_upload_id(&self) -> String {
        format!("ABPn{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
    }

    /// Why an object is not found. The service may hide that from whoever may not list the bucket: then it seems to be the
    /// call's own permission that is missing.
    fn missing(&self, who: &str, permission: &str, bucket: &str, object: &str) -> Refusal {
        if self.hides_missing.load(Ordering::Relaxed) && !self.accounts.may(who, bucket, Right::List) {
            return Refusal::denied(who, permission);
        }
        Refusal::no_object(bucket, object)
    }

    /// Stores an object in a locked bucket, where the conditions hold and its writer may. Guessed: conditions are looked at
    /// before the right to overwrite.
    fn put(
        &self,
        shelf: &mut Shelf,
        new: New<'_>,
        conditions: &Conditions,
        who: &str,
    ) -> Result<Arc<Object>, Refusal> {
        let there = shelf.object(new.name, None);
        conditions.judge(there.map(|object| &**object))?;
        if there.is_some() && !self.accounts.may(who, new.bucket, Right::Delete) {
            return Err(Refusal::denied(who, "storage.objects.delete"));
        }
        let now = self.time();
        Ok(shelf.put(self.object(new, now), now))
    }

    fn object(&self, new: New<'_>, created: Timestamp) -> Object {
        Object {
            name: new.name.to_owned(),
            content: new.content,
            digests: new.digests,
            labels: new.labels,
            generation: self.generations.fetch_add(1, Ordering::Relaxed),
            created,
        }
    }
}

/// What tests do to the store, without a request.
impl Store {
    pub(super) fn put_bytes(
        &self,
        bucket: &str,
        name: &str,
        content_type: &str,
        encoding: Option<&str>,
        bytes: Vec<u8>,
    ) {
        let mut labels = Labels { content_type: Some(content_type.to_owned()), ..Labels::default() };
        labels.headers.extend(encoding.map(|encoding| ("content-encoding", encoding.to_owned())));
        let digests = Digests::of(&bytes);
        let now = self.time();
        let object = self.object(New { bucket, name, content: bytes.into(), digests, labels }, now);
        self.shelves().implied(bucket).put(object, now);
    }

    pub(super) fn delete(&self, bucket: &str, name: &str) -> bool {
        let now = self.time();
        self.shelves().shelf(bucket).is_ok_and(|shelf| shelf.remove(name, now))
    }

    pub(super) fn declare(&self, name: &str, bucket: Bucket) {
        self.shelves().0.entry(name.to_owned()).or_default().bucket = bucket;
    }

    pub(super) fn bucket(&self, name: &str) -> Option<Bucket> {
        self.shelves().shelf(name).ok().map(|shelf| shelf.bucket.clone())
    }

    pub(super) fn remove_bucket(&self, name: &str) -> bool {
        self.shelves().0.remove(name).is_some()
    }

    pub(super) fn spoil_next(&self, times: usize, spoilt: Spoilt) {
        lock(&self.spoilt).extend(std::iter::repeat_n(spoilt, times));
    }

    pub(super) fn set_clock_offset(&self, seconds: i64) {
        self.clock_offset.store(seconds, Ordering::Relaxed);
    }

    pub(super) fn set_hides_missing(&self, hides: bool) {
        self.hides_missing.store(hides, Ordering::Relaxed);
    }

    pub(super) fn set_rewrite_round(&self, bytes: u64) {
        self.rewrite_round.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn rule(&self, rule: Rule) {
        lock(&self.rules).add(rule);
    }

    pub(super) fn trap(&self, rule: Rule) -> crate::trap::Trapped {
        lock(&self.rules).trap(rule)
    }

    pub(super) fn clear_rules(&self) {
        lock(&self.rules).clear();
    }

    pub(super) fn calls(&self, call: Call) -> u64 {
        self.tally.calls(call)
    }

    pub(super) fn gets(&self) -> u64 {
        self.tally.gets()
    }

    pub(super) fn bytes_received(&self) -> u64 {
        self.tally.bytes()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
