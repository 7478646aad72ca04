//! A record of the requests that were about a tag, in the order in which they were read: whether a ticket was looked for
//! before it was made again is asked here.

use std::sync::{Arc, Mutex};

use super::lock::lock;
use super::rules::Call;

/// A request about a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// What it asked for.
    pub call: Call,
    /// The tags it was about.
    pub tags: Vec<String>,
    /// Tickets that it made or found; none where nothing was done.
    pub tickets: Option<usize>,
    /// Whether an answer was given to it that says so.
    pub answered: bool,
}

/// The record.
#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<Vec<Arc<Mutex<Asked>>>>);

/// A request's place in the record; none where it is about no tag.
#[derive(Debug)]
pub(super) struct Entry(Option<Arc<Mutex<Asked>>>);

impl Calls {
    /// Writes down a request that was read.
    pub(super) fn read(&self, call: Call, tags: &[String]) -> Entry {
        if tags.is_empty() {
            return Entry(None);
        }
        let asked = Asked { call, tags: tags.to_vec(), tickets: None, answered: false };
        let entry = Arc::new(Mutex::new(asked));
        lock(&self.0).push(Arc::clone(&entry));
        Entry(Some(entry))
    }

    pub(super) fn all(&self) -> Vec<Asked> {
        lock(&self.0).iter().map(|entry| lock(entry).clone()).collect()
    }

    pub(super) fn clear(&self) {
        lock(&self.0).clear();
    }
}

impl Entry {
    /// So many tickets were made or found.
    pub(super) fn done(&self, tickets: usize) {
        if let Some(entry) = &self.0 {
            lock(entry).tickets = Some(tickets);
        }
    }

    /// The answer goes out as it is.
    pub(super) fn answered(&self) {
        if let Some(entry) = &self.0 {
            lock(entry).answered = true;
        }
    }
}
