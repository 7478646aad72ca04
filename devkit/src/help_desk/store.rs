//! Tickets, and the index that searches look into, which may lag behind.
//!
//! In memory: nothing outlives the process. A ticket is made in one step, under one lock.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::watch;

use super::draft::Draft;
use super::ticket::Ticket;

/// How much of a ticket is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// All of it.
    #[default]
    Tickets,
    /// Number, category and tags alone: for runs of many thousands of tickets. A contact is then nobody, so each ticket has
    /// its own.
    Digests,
}

#[derive(Debug)]
struct Kept {
    ticket: Arc<Ticket>,
    made: Instant,
}

#[derive(Debug, Default)]
struct Shelf {
    /// In the order of their numbers, from 1.
    tickets: Vec<Kept>,
    contacts: HashMap<String, u64>,
    /// A search sees a ticket so long after it was made.
    lag: Duration,
    /// A search sees only so many, the first ones.
    held_at: Option<usize>,
}

/// All tickets of the account.
#[derive(Debug)]
pub(super) struct Store {
    keep: Keep,
    shelf: Mutex<Shelf>,
    made: watch::Sender<u64>,
}

impl Store {
    pub(super) fn new(keep: Keep) -> Self {
        Self { keep, shelf: Mutex::default(), made: watch::Sender::new(0) }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Shelf) -> T) -> T {
        act(&mut self.shelf.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a ticket. It is given back whole, and kept as [`Keep`] says.
    pub(super) fn make(&self, draft: Draft, now: Instant, created_at: Timestamp) -> Arc<Ticket> {
        let ticket = self.with(|shelf| {
            let id = shelf.tickets.len() as u64 + 1;
            let contact = match self.keep {
                Keep::Tickets => {
                    let next = shelf.contacts.len() as u64 + 1;
                    *shelf.contacts.entry(draft.email.to_lowercase()).or_insert(next)
                }
                Keep::Digests => id,
            };
            let ticket = Arc::new(Ticket::new(draft, id, contact, created_at));
            let mut kept = Arc::clone(&ticket);
            if self.keep == Keep::Digests {
                let mut digest = Ticket::clone(&ticket);
                digest.forget_content();
                kept = Arc::new(digest);
            }
            shelf.tickets.push(Kept { ticket: kept, made: now });
            ticket
        });
        self.made.send_modify(|made| *made += 1);
        ticket
    }

    /// Adds and removes tags of a ticket.
    pub(super) fn tag(&self, id: u64, add: &[String], remove: &[String]) -> Option<Arc<Ticket>> {
        self.with(|shelf| {
            let kept = shelf.tickets.get_mut(usize::try_from(id.checked_sub(1)?).ok()?)?;
            let ticket = Arc::make_mut(&mut kept.ticket);
            ticket.tags.retain(|tag| !remove.contains(tag));
            for tag in add {
                if !ticket.tags.contains(tag) {
                    ticket.tags.push(tag.clone());
                }
            }
            Some(Arc::clone(&kept.ticket))
        })
    }

    /// One ticket; the index has no part in it.
    pub(super) fn get(&self, id: u64) -> Option<Arc<Ticket>> {
        self.with(|shelf| {
            let place = usize::try_from(id.checked_sub(1)?).ok()?;
            shelf.tickets.get(place).map(|kept| Arc::clone(&kept.ticket))
        })
    }

    /// What the index has at `now`, oldest first.
    pub(super) fn indexed(&self, now: Instant, wanted: impl Fn(&Ticket) -> bool) -> Vec<Arc<Ticket>> {
        self.with(|shelf| {
            let seen = shelf.held_at.unwrap_or(usize::MAX);
            let old_enough = |kept: &&Kept| now.saturating_duration_since(kept.made) >= shelf.lag;
            let indexed = shelf.tickets.iter().take(seen).filter(old_enough);
            indexed.filter(|kept| wanted(&kept.ticket)).map(|kept| Arc::clone(&kept.ticket)).collect()
        })
    }

    /// Every ticket, oldest first.
    pub(super) fn all(&self) -> Vec<Arc<Ticket>> {
        self.with(|shelf| shelf.tickets.iter().map(|kept| Arc::clone(&kept.ticket)).collect())
    }

    /// How many tickets have each tag.
    pub(super) fn digests(&self) -> BTreeMap<String, u64> {
        self.with(|shelf| {
            let mut digests = BTreeMap::new();
            for tag in shelf.tickets.iter().flat_map(|kept| &kept.ticket.tags) {
                *digests.entry(tag.clone()).or_default() += 1;
            }
            digests
        })
    }

    /// From now on a search sees a ticket so long after it was made.
    pub(super) fn lag(&self, lag: Duration) {
        self.with(|shelf| shelf.lag = lag);
    }

    /// From now on a search sees no ticket that is not there yet.
    pub(super) fn hold(&self) {
        self.with(|shelf| shelf.held_at = Some(shelf.tickets.len()));
    }

    /// From now on a search sees every ticket at once.
    pub(super) fn catch_up(&self) {
        self.with(|shelf| (shelf.lag, shelf.held_at) = (Duration::ZERO, None));
    }

    /// The number of tickets made so far, as it grows.
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.made.subscribe()
    }
}
