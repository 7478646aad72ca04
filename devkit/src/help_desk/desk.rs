//! What all connections of one help desk share.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use super::account::Account;
use super::calls::Calls;
use super::limits::{Limits, Meter};
use super::lock::lock;
use super::rules::{Moment, Orders, Script};
use super::store::Store;

/// Numbers of one help desk, from its start on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Connections accepted.
    pub connections: u64,
    /// GETs (and whatever is no POST) whose head was read, whatever became of them.
    pub gets: u64,
    /// POSTs whose head was read, whatever became of them.
    pub posts: u64,
    /// Tickets made.
    pub made: u64,
    /// Searches and lists that were looked up.
    pub searches: u64,
    /// Requests refused for their credentials.
    pub unauthorized: u64,
    /// Requests refused by the account's limits.
    pub throttled: u64,
    /// Requests refused for what they said (400, 404, 405, 413, 415).
    pub refused: u64,
}

/// The same, while they grow.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) connections: AtomicU64,
    pub(super) gets: AtomicU64,
    pub(super) posts: AtomicU64,
    pub(super) made: AtomicU64,
    pub(super) searches: AtomicU64,
    pub(super) unauthorized: AtomicU64,
    pub(super) throttled: AtomicU64,
    pub(super) refused: AtomicU64,
}

/// Counts one.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// An account with its tickets, its limits and its faults.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) account: Mutex<Account>,
    /// The value of `Authorization` that is let in.
    authorization: Mutex<String>,
    pub(super) limits: Mutex<Limits>,
    pub(super) meter: Mutex<Meter>,
    pub(super) script: Mutex<Script>,
    pub(super) calls: Calls,
    /// Doors opened so far.
    pub(super) doors: AtomicU64,
    pub(super) store: Store,
    pub(super) tally: Tally,
    /// Largest body, in bytes.
    pub(super) body_limit: usize,
    /// Most bytes of all files of a ticket.
    pub(super) files_limit: usize,
}

impl Desk {
    pub(super) fn new(
        account: Account,
        limits: Limits,
        store: Store,
        body_limit: usize,
        files_limit: usize,
    ) -> Self {
        Self {
            account: Mutex::new(account),
            authorization: Mutex::default(),
            limits: Mutex::new(limits),
            meter: Mutex::default(),
            script: Mutex::default(),
            calls: Calls::default(),
            doors: AtomicU64::default(),
            store,
            tally: Tally::default(),
            body_limit,
            files_limit,
        }
    }

    /// Lets in this pair, and no other any more.
    pub(super) fn set_credentials(&self, api_key: &str, auth_code: &str) {
        *lock(&self.authorization) = format!("Basic {}", STANDARD.encode(format!("{api_key}:{auth_code}")));
    }

    /// Whether a request with this `Authorization` is let in.
    pub(super) fn lets_in(&self, authorization: Option<&str>) -> bool {
        authorization == Some(lock(&self.authorization).as_str())
    }

    /// A rule's orders for this moment.
    pub(super) fn ask(&self, moment: &Moment<'_>) -> Orders {
        lock(&self.script).ask(moment)
    }

    pub(super) fn counters(&self) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let tally = &self.tally;
        Counters {
            connections: read(&tally.connections),
            gets: read(&tally.gets),
            posts: read(&tally.posts),
            made: read(&tally.made),
            searches: read(&tally.searches),
            unauthorized: read(&tally.unauthorized),
            throttled: read(&tally.throttled),
            refused: read(&tally.refused),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "real clients are throttled and kept waiting, in real time")]
pub(super) fn now() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a stand-in's tickets are dated by real time, as the service's are"
)]
pub(super) fn real_time() -> Timestamp {
    Timestamp::now()
}
