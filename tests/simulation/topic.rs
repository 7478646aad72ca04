//! A routing subscription in memory that keeps Pub/Sub's promises and no more: at least once, in any order; what is
//! given back comes again after a back-off, what is neither acked nor nacked after its lease; the fifth nack puts a
//! copy on the dead letters. A process that dies says nothing: its leases run out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use maple_router::ports::{Acknowledgement, Clock as _, EventSource, Incoming, Settle, SourceError};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::clock::SimClock;

/// Shortest redelivery back-off, and how long a lost lease lasts.
const RETRY: Duration = Duration::from_secs(10);
const RETRY_MAX: Duration = Duration::from_secs(600);
const ACK_DEADLINE: Duration = Duration::from_secs(60);
const DELIVERY_ATTEMPTS: u32 = 5;

/// The subscription.
#[derive(Debug)]
pub(crate) struct Topic {
    clock: SimClock,
    inner: Mutex<Inner>,
    changed: Notify,
    moved: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    messages: Vec<Message>,
    dead: Vec<Uuid>,
    forget_acks: u32,
}

#[derive(Debug, Clone)]
struct Message {
    id: u64,
    submission: Uuid,
    deliveries: u32,
    available: Duration,
    leased: bool,
    acked: bool,
}

/// One process's relation to the subscription.
#[derive(Debug, Default)]
pub(crate) struct Tie {
    /// The process died: its answers do not count any more.
    dead: AtomicBool,
    /// The process dies with its next ack: `Some(true)` after it was passed on, `Some(false)` before.
    dies_at_ack: Mutex<Option<bool>>,
    /// The process died at an ack.
    died_at_ack: Mutex<Option<bool>>,
}

impl Tie {
    pub(crate) fn cut(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    pub(crate) fn trap_ack(&self, after: Option<bool>) {
        *self.dies_at_ack.lock().unwrap_or_else(PoisonError::into_inner) = after;
    }

    pub(crate) fn died_at_ack(&self) -> Option<bool> {
        self.died_at_ack.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Topic {
    pub(crate) fn new(clock: SimClock) -> Arc<Self> {
        let (inner, changed, moved) = (Mutex::default(), Notify::new(), AtomicU64::new(0));
        Arc::new(Self { clock, inner, changed, moved })
    }

    pub(crate) fn publish(&self, submission: Uuid) {
        let available = self.clock.elapsed();
        let mut inner = self.lock();
        inner.next += 1;
        let (id, deliveries) = (inner.next, 0);
        inner.messages.push(Message { id, submission, deliveries, available, leased: false, acked: false });
        self.stir(inner);
    }

    /// Delivers an event again: acked or still leased, the service may do so.
    pub(crate) fn redeliver(&self, submission: Uuid) -> bool {
        let available = self.clock.elapsed();
        let mut inner = self.lock();
        let Some(old) =
            inner.messages.iter_mut().rev().find(|m| m.submission == submission && m.deliveries > 0)
        else {
            return false;
        };
        (old.available, old.leased, old.acked) = (available, false, false);
        self.stir(inner);
        true
    }

    /// Every event that names it is gone, for ever.
    pub(crate) fn lose(&self, submission: Uuid) -> bool {
        let mut inner = self.lock();
        let before = inner.messages.len();
        inner.messages.retain(|message| message.submission != submission || message.leased);
        inner.messages.len() < before
    }

    /// Delivers the waiting events in another order, and at once.
    pub(crate) fn reorder(&self) -> bool {
        let available = self.clock.elapsed();
        let mut inner = self.lock();
        inner.messages.reverse();
        for message in &mut inner.messages {
            message.available = available;
        }
        let several = inner.messages.iter().filter(|m| !m.leased && !m.acked).count() > 1;
        self.stir(inner);
        several
    }

    /// The next ack is taken and forgotten: it promises no more.
    pub(crate) fn forget_next_ack(&self) {
        self.lock().forget_acks += 1;
    }

    /// Deletes everything, for the next sequence.
    pub(crate) fn clear(&self) {
        let mut inner = self.lock();
        *inner = Inner { next: inner.next, ..Inner::default() };
    }

    /// Changes whenever something happens here.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Events handed out and not answered.
    pub(crate) fn leased(&self) -> usize {
        self.lock().messages.iter().filter(|message| message.leased).count()
    }

    /// The process behind this tie died without a word: its leases last a while, and count as deliveries.
    pub(crate) fn orphan(&self, ids: &BTreeMap<u64, u32>) {
        let available = self.clock.elapsed() + ACK_DEADLINE;
        let mut inner = self.lock();
        for message in inner.messages.iter_mut().filter(|m| m.leased && ids.get(&m.id) == Some(&m.deliveries))
        {
            (message.leased, message.available) = (false, available);
        }
        self.stir(inner);
    }

    fn settle(&self, id: u64, delivery: u32, verdict: Acknowledgement) {
        let now = self.clock.elapsed();
        let mut inner = self.lock();
        if verdict == Acknowledgement::Ack && inner.forget_acks > 0 {
            inner.forget_acks -= 1;
            if let Some(message) = inner.messages.iter_mut().find(|m| m.id == id) {
                (message.leased, message.available) = (false, now + ACK_DEADLINE);
            }
            return self.stir(inner);
        }
        let Some(place) =
            inner.messages.iter().position(|m| m.id == id && m.deliveries == delivery && m.leased)
        else {
            return;
        };
        let message = &mut inner.messages[place];
        message.leased = false;
        match verdict {
            Acknowledgement::Ack => message.acked = true,
            Acknowledgement::Nack | Acknowledgement::Reject | Acknowledgement::Exhaust => {
                let pause = RETRY.saturating_mul(1 << message.deliveries.min(10)) / 2;
                message.available = now + pause.min(RETRY_MAX);
                if message.deliveries >= DELIVERY_ATTEMPTS {
                    let dead = inner.messages.remove(place).submission;
                    inner.dead.push(dead);
                }
            }
        }
        self.stir(inner);
    }

    fn take(&self) -> Option<Message> {
        let now = self.clock.elapsed();
        let mut inner = self.lock();
        let ready = |m: &&mut Message| !m.leased && !m.acked && m.available <= now;
        let message = inner.messages.iter_mut().find(ready)?;
        message.leased = true;
        message.deliveries += 1;
        self.moved.fetch_add(1, Ordering::Relaxed);
        Some(message.clone())
    }

    /// Until the next one that waits could be taken.
    fn pause(&self) -> Option<Duration> {
        let now = self.clock.elapsed();
        let inner = self.lock();
        let waiting = inner.messages.iter().filter(|m| !m.leased && !m.acked);
        waiting.map(|m| m.available.saturating_sub(now)).min()
    }

    fn stir(&self, inner: MutexGuard<'_, Inner>) {
        drop(inner);
        self.moved.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One process's stream.
#[derive(Debug)]
pub(crate) struct Stream {
    topic: Arc<Topic>,
    tie: Arc<Tie>,
    /// Deliveries to this stream, with each one's count.
    pub(crate) given: Arc<Mutex<BTreeMap<u64, u32>>>,
    quiet: bool,
}

impl Stream {
    pub(crate) fn of(topic: &Arc<Topic>, tie: &Arc<Tie>) -> Self {
        Self { topic: Arc::clone(topic), tie: Arc::clone(tie), given: Arc::default(), quiet: false }
    }

    fn hand_out(&self, message: &Message) -> Incoming {
        let (topic, tie) = (Arc::clone(&self.topic), Arc::clone(&self.tie));
        let (id, delivery) = (message.id, message.deliveries);
        self.given.lock().unwrap_or_else(PoisonError::into_inner).insert(id, delivery);
        let settle = Settle::new(move |verdict| {
            if tie.dead.load(Ordering::SeqCst) {
                return;
            }
            let trap = (verdict == Acknowledgement::Ack)
                .then(|| tie.dies_at_ack.lock().unwrap_or_else(PoisonError::into_inner).take())
                .flatten();
            if trap != Some(false) {
                topic.settle(id, delivery, verdict);
            }
            if trap.is_some() {
                tie.cut();
                *tie.died_at_ack.lock().unwrap_or_else(PoisonError::into_inner) = trap;
                topic.moved.fetch_add(1, Ordering::Relaxed);
            }
        });
        let data =
            serde_json::json!({"submission_id": message.submission, "reason": "finalized"}).to_string();
        Incoming {
            message_id: id.to_string(),
            published_at: None,
            delivery_attempt: i32::try_from(delivery).ok(),
            attributes: [("type", "routing.ready"), ("v", "1")]
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .into(),
            data: Bytes::from(data),
            settle,
        }
    }
}

impl EventSource for Stream {
    fn next(&mut self) -> BoxFuture<'_, Result<Incoming, SourceError>> {
        async {
            if self.quiet {
                return std::future::pending().await;
            }
            loop {
                let changed = self.topic.changed.notified();
                if let Some(message) = self.topic.take() {
                    return Ok(self.hand_out(&message));
                }
                let pause = self.topic.pause();
                tokio::select! {
                    () = changed => {}
                    () = self.topic.clock.sleep(pause.unwrap_or(Duration::MAX / 4)), if pause.is_some() => {}
                }
            }
        }
        .boxed()
    }

    fn quiet(&mut self) -> BoxFuture<'_, ()> {
        self.quiet = true;
        futures::future::ready(()).boxed()
    }

    fn stop(mut self: Box<Self>, _timeout: Duration) -> BoxFuture<'static, bool> {
        self.quiet = true;
        futures::future::ready(true).boxed()
    }
}
