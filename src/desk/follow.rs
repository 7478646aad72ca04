//! Events of learners' submissions, told to whoever follows them: one look at the database for all streams, when it is notified and every
//! two seconds, and none while nobody follows.
//!
//! A look says of which submission something is new; each stream then reads its own events, and tells those that it has not told. So a look
//! that comes too early or twice, a stream that is too slow, or a lost notification cost a read, and no event. As with
//! [`live`](super::live), each look goes back `OVERLAP` behind the one before. If we die, browsers come again with the last event that they saw.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{Stream, stream};
use jiff::Timestamp;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use uuid::Uuid;

use crate::db::DbError;
use crate::grading::learner::Told;
use crate::grading::store::GradingStore;
use crate::grading::store::learner::{Followed, Happened};
use crate::kernel::jobs::listener::Listener;
use crate::ports::Clock;

/// The channel on which the schema says that an attempt has moved.
pub(super) const CHANNEL: &str = "maple_router_assessment";

/// Interval of looks where nothing is notified, and of reads after one that failed.
const EVERY: Duration = Duration::from_secs(2);
/// Time from an event to its commit, at most.
const OVERLAP: Duration = Duration::from_secs(20);
/// Events of one look.
const MOST: i64 = 2_000;
/// Submissions that a stream may be behind.
const BEHIND: usize = 1_024;

/// Makes the listener to [`CHANNEL`], inside the runtime that looks.
pub(crate) type Listen = Arc<dyn Fn() -> Listener + Send + Sync>;

/// An event, and what the learner is told.
#[derive(Debug, Clone)]
pub(crate) struct News {
    /// Its id.
    pub(crate) id: Uuid,
    /// The learner's view.
    pub(crate) told: Told,
}

/// That something is new; `None`: of more submissions than a look takes.
type Word = Option<Uuid>;

/// The followed submissions. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Follow(Arc<Shared>);

struct Shared {
    store: GradingStore,
    clock: Arc<dyn Clock>,
    listen: Listen,
    words: broadcast::Sender<Word>,
    /// Whether somebody looks at the database.
    looks: Mutex<bool>,
}

impl fmt::Debug for Follow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follow").finish_non_exhaustive()
    }
}

impl Follow {
    /// The submissions of `store`.
    pub(crate) fn new(store: GradingStore, clock: Arc<dyn Clock>, listen: Listen) -> Self {
        let words = broadcast::channel(BEHIND).0;
        Self(Arc::new(Shared { store, clock, listen, words, looks: Mutex::new(false) }))
    }

    /// All events of a submission behind `last`, or from its first on, until the stream is dropped.
    pub(crate) fn of(&self, subject: Uuid, last: Option<Uuid>) -> impl Stream<Item = News> + Send + use<> {
        let stream = One {
            shared: Arc::clone(&self.0),
            words: self.receiver(),
            subject,
            last,
            told: BTreeSet::new(),
            waiting: VecDeque::new(),
            is_behind: true,
        };
        stream::unfold(stream, One::next)
    }

    fn receiver(&self) -> broadcast::Receiver<Word> {
        let mut looks = self.0.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = self.0.words.subscribe();
        if !*looks {
            *looks = true;
            tokio::spawn(Looking { shared: Arc::clone(&self.0), over: false }.run());
        }
        receiver
    }
}

/// One stream.
struct One {
    shared: Arc<Shared>,
    words: broadcast::Receiver<Word>,
    subject: Uuid,
    last: Option<Uuid>,
    told: BTreeSet<Uuid>,
    waiting: VecDeque<Followed>,
    /// Something may be there that was not read.
    is_behind: bool,
}

impl One {
    async fn next(mut self) -> Option<(News, Self)> {
        loop {
            match self.one().await {
                Ok(Some(news)) => return Some((news, self)),
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!("events of a submission are not seen: {}", error.named());
                    self.is_behind = true;
                    self.shared.clock.sleep(EVERY).await;
                    continue;
                }
            }
            if self.is_behind {
                continue;
            }
            self.is_behind = match self.words.recv().await {
                Ok(word) => word.is_none_or(|subject| subject == self.subject),
                Err(RecvError::Lagged(_)) => true,
                Err(RecvError::Closed) => return None,
            };
        }
    }

    /// The next event that was not told, as far as it was read.
    async fn one(&mut self) -> Result<Option<News>, DbError> {
        if self.is_behind && self.waiting.is_empty() {
            let mut all = self.shared.store.followed(self.subject).await?;
            if let Some(at) = self.last.and_then(|last| all.iter().find(|event| event.id == last)) {
                let number = at.number;
                self.told.extend(all.iter().filter(|event| event.number <= number).map(|event| event.id));
            }
            // An event that is not known was never told by us: everything is told then.
            self.last = None;
            all.retain(|event| !self.told.contains(&event.id));
            self.waiting.extend(all);
            self.is_behind = false;
        }
        let Some(event) = self.waiting.front() else { return Ok(None) };
        let told = self.shared.store.told_of(self.subject, event).await?;
        let id = event.id;
        self.waiting.pop_front();
        self.told.insert(id);
        Ok(Some(News { id, told }))
    }
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
        let (listener, mut seen) = ((self.shared.listen)(), Seen::default());
        while !self.over {
            match seen.look(&self.shared.store).await {
                // Whether anybody still follows is seen below.
                Ok(words) => words.into_iter().for_each(|word| drop(self.shared.words.send(word))),
                Err(error) => tracing::debug!("events of grading are not seen: {}", error.named()),
            }
            tokio::select! {
                () = self.shared.clock.sleep(EVERY) => {}
                () = listener.notifications() => {}
            }
            self.over = self.shared.is_over();
        }
    }
}

impl Shared {
    /// Gives the looks up where nobody follows; whoever comes after this begins them anew.
    fn is_over(&self) -> bool {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        *looks = self.words.receiver_count() > 0;
        !*looks
    }
}

/// Events that were seen, as long as a look may meet them again.
#[derive(Debug, Default)]
struct Seen {
    since: Option<Timestamp>,
    events: BTreeMap<Uuid, Timestamp>,
}

impl Seen {
    async fn look(&mut self, store: &GradingStore) -> Result<Vec<Word>, DbError> {
        let (happened, now) = store.happened(self.since, MOST).await?;
        Ok(self.words(happened, now))
    }

    fn words(&mut self, happened: Vec<Happened>, now: Timestamp) -> Vec<Word> {
        let is_first = self.since.is_none();
        let is_full = happened.len() >= usize::try_from(MOST).unwrap_or(usize::MAX);
        let since = now.checked_sub(OVERLAP).unwrap_or(Timestamp::UNIX_EPOCH);
        self.since = Some(since);
        let mut subjects = BTreeSet::new();
        for Happened { event, subject, at } in happened {
            if self.events.insert(event, at).is_none() {
                subjects.insert(subject);
            }
        }
        self.events.retain(|_, at| *at >= since);
        // Nothing was looked at before the first look: whoever follows reads once more.
        if is_first || is_full { vec![None] } else { subjects.into_iter().map(Some).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).expect("a time")
    }

    fn happened(event: u128, subject: u128, at: i64) -> Happened {
        Happened { event: Uuid::from_u128(event), subject: Uuid::from_u128(subject), at: second(at) }
    }

    #[test]
    fn a_submission_is_named_once_for_each_event() {
        let mut seen = Seen::default();
        assert_eq!(seen.words(Vec::new(), second(0)), [None], "at first everybody reads");
        assert_eq!(seen.since, Some(second(-20)), "what is not committed yet is not missed");
        let two = vec![happened(1, 7, 0), happened(2, 7, 0)];
        assert_eq!(seen.words(two.clone(), second(1)), [Some(Uuid::from_u128(7))]);
        assert_eq!(seen.words(two, second(2)), []);
        assert_eq!(seen.words(vec![happened(3, 7, 3), happened(4, 8, 3)], second(3)).len(), 2);
        assert_eq!(seen.words(Vec::new(), second(24)), []);
        assert!(seen.events.is_empty());
    }

    #[test]
    fn more_than_a_look_takes_is_one_word() {
        let mut seen = Seen { since: Some(second(0)), ..Seen::default() };
        let all = (0..2_000).map(|n| happened(n, n, 0)).collect();
        assert_eq!(seen.words(all, second(1)), [None]);
    }
}
