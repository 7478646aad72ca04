//! What changes in the queue, told to whoever watches: one look at the database a second for all streams, and none while nobody
//! watches.
//!
//! A change's time is earlier than its commit, so each look goes back `OVERLAP` behind the one before, and what was told is not told
//! again. A watcher that is too slow, or more changes than a look takes, is told to load anew: nothing is kept for anybody. If
//! we die, watchers come again and load anew.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{Stream, stream};
use jiff::Timestamp;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use uuid::Uuid;

use crate::db::DbError;
use crate::grey_queue::store::{Changed, GreyQueueStore};
use crate::ports::Clock;

/// Interval of looks.
const EVERY: Duration = Duration::from_secs(1);
/// Time from a change to its commit, at most: that of the longest statements, twice.
const OVERLAP: Duration = Duration::from_secs(20);
/// Changes of one look.
const MOST: i64 = 2_000;
/// Events that a watcher may be behind.
const BEHIND: usize = 512;

/// What a watcher is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// An entry has changed, or is new.
    Change(Changed),
    /// More has changed than can be told: load anew.
    Reload,
}

/// The changes of the queue. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Live(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: GreyQueueStore,
    clock: Arc<dyn Clock>,
    events: broadcast::Sender<Event>,
    /// Whether somebody looks at the database.
    looks: Mutex<bool>,
}

impl Live {
    /// The changes of `store`'s entries.
    #[must_use]
    pub fn new(store: GreyQueueStore, clock: Arc<dyn Clock>) -> Self {
        let events = broadcast::channel(BEHIND).0;
        Self(Arc::new(Shared { store, clock, events, looks: Mutex::new(false) }))
    }

    /// The changes from now on, until the stream is dropped. Whoever loads the queue after this call misses nothing.
    pub(crate) fn watch(&self) -> impl Stream<Item = Event> + Send + use<> {
        told_by(self.receiver())
    }

    /// Streams that are open.
    #[must_use]
    pub fn watchers(&self) -> usize {
        self.0.events.receiver_count()
    }

    /// Whether the database is looked at.
    #[must_use]
    pub fn is_looking(&self) -> bool {
        *self.0.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receiver(&self) -> broadcast::Receiver<Event> {
        let mut looks = self.0.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = self.0.events.subscribe();
        if !*looks {
            *looks = true;
            tokio::spawn(Looking { shared: Arc::clone(&self.0), over: false }.run());
        }
        receiver
    }
}

fn told_by(receiver: broadcast::Receiver<Event>) -> impl Stream<Item = Event> + Send {
    stream::unfold(receiver, |mut receiver| async {
        match receiver.recv().await {
            Ok(event) => Some((event, receiver)),
            Err(RecvError::Lagged(_)) => Some((Event::Reload, receiver)),
            Err(RecvError::Closed) => None,
        }
    })
}

/// The one who looks. Whatever else ends it, another may begin.
struct Looking {
    shared: Arc<Shared>,
    over: bool,
}

impl Drop for Looking {
    fn drop(&mut self) {
        if !self.over {
            *self.shared.looks.lock().unwrap_or_else(PoisonError::into_inner) = false;
        }
    }
}

impl Looking {
    async fn run(mut self) {
        let mut told = Told::default();
        while !self.over {
            match told.look(&self.shared.store).await {
                // Whether anybody still listens is seen below.
                Ok(events) => events.into_iter().for_each(|event| drop(self.shared.events.send(event))),
                // Whoever asks the desk for anything meets the same, and is told.
                Err(error) => tracing::debug!("changes of the queue are not seen: {}", error.named()),
            }
            self.shared.clock.sleep(EVERY).await;
            self.over = self.shared.is_over();
        }
    }
}

impl Shared {
    /// Gives the looks up where nobody watches; whoever comes after this begins them anew.
    fn is_over(&self) -> bool {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        *looks = self.events.receiver_count() > 0;
        !*looks
    }
}

/// What was told, as long as a look may meet it again.
#[derive(Debug, Default)]
struct Told {
    since: Option<Timestamp>,
    versions: BTreeMap<Uuid, (i64, Timestamp)>,
}

impl Told {
    async fn look(&mut self, store: &GreyQueueStore) -> Result<Vec<Event>, DbError> {
        let (changed, now) = store.changed_since(self.since, MOST).await?;
        Ok(self.events(changed, now))
    }

    fn events(&mut self, changed: Vec<Changed>, now: Timestamp) -> Vec<Event> {
        let full = changed.len() >= usize::try_from(MOST).unwrap_or(usize::MAX);
        let since = now.checked_sub(OVERLAP).unwrap_or(Timestamp::UNIX_EPOCH);
        self.since = Some(since);
        let mut events = Vec::new();
        for one in changed {
            let before = self.versions.insert(one.id, (one.version, one.at));
            if before.is_none_or(|(version, _)| version < one.version) {
                events.push(Event::Change(one));
            }
        }
        self.versions.retain(|_, (_, at)| *at >= since);
        if full { vec![Event::Reload] } else { events }
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;

    use super::*;
    use crate::grey_queue::table::State;

    fn changed(n: u128, version: i64, at: Timestamp) -> Changed {
        Changed { id: Uuid::from_u128(n), version, state: State::Pending, assignee: None, at }
    }

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).expect("a time")
    }

    #[test]
    fn a_version_is_told_once_and_forgotten_when_no_look_meets_it_again() {
        let mut told = Told::default();
        assert_eq!(told.events(Vec::new(), second(0)), []);
        assert_eq!(told.since, Some(second(-20)), "what is not committed yet is not missed");
        let one = changed(1, 1, second(0));
        assert_eq!(told.events(vec![one.clone()], second(1)), [Event::Change(one.clone())]);
        assert_eq!(told.events(vec![one.clone()], second(2)), []);
        let two = changed(1, 2, second(2));
        assert_eq!(told.events(vec![two.clone()], second(3)), [Event::Change(two.clone())]);
        assert_eq!(told.events(vec![two], second(23)), []);
        assert!(told.versions.is_empty());
        assert_eq!(told.since, Some(second(3)));
    }

    #[test]
    fn more_than_a_look_takes_is_one_word() {
        let mut told = Told::default();
        let all = (0..2_000).map(|n| changed(n, 1, second(0))).collect();
        assert_eq!(told.events(all, second(1)), [Event::Reload]);
    }

    #[tokio::test]
    async fn a_watcher_that_is_too_slow_is_told_to_load_anew() {
        let (events, receiver) = broadcast::channel(2);
        for n in 0..3 {
            events.send(Event::Change(changed(n, 1, second(0)))).expect("a watcher");
        }
        drop(events);
        let told: Vec<Event> = told_by(receiver).collect().await;
        assert_eq!(told[0], Event::Reload);
        assert_eq!(told.len(), 3, "what is left follows, and then it ends: {told:?}");
    }
}
