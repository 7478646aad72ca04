//! Counters: how often each call came, refused ones included, and how many bytes of objects and parts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::rules::Call;

#[derive(Debug, Default)]
pub(super) struct Tally {
    calls: Mutex<BTreeMap<Call, u64>>,
    gets: AtomicU64,
    bytes: AtomicU64,
}

impl Tally {
    pub(super) fn count(&self, call: Call, read: bool) {
        *self.calls.lock().unwrap_or_else(PoisonError::into_inner).entry(call).or_default() += 1;
        self.gets.fetch_add(u64::from(read), Ordering::Relaxed);
    }

    pub(super) fn received(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn calls(&self, call: Call) -> u64 {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).get(&call).copied().unwrap_or_default()
    }

    pub(super) fn gets(&self) -> u64 {
        self.gets.load(Ordering::Relaxed)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}
